# SPDX-License-Identifier: Apache-2.0
"""What `torchspan doctor` says about torch.compile, where torch is installed and not loaded."""

import pytest

from torchspan.cli.doctor import _compiling as compiling
from torchspan.cli.doctor._check import Context, State


@pytest.fixture
def rows(monkeypatch):
    """The rows in an environment with these variables, by name."""
    monkeypatch.setattr(compiling, "find_spec", lambda _name: object())
    return lambda **variables: {row.name: row for row in compiling.torch_compile(Context(variables))}


def test_by_default_torch_compile_is_on_and_writes_no_records(rows):
    assert {name: row.state for name, row in rows().items()} == {
        "compile.enabled": State.OK,
        "compile.trace": State.OK,
    }


def test_torch_compile_that_is_disabled_is_a_warning(rows):
    row = rows(TORCH_COMPILE_DISABLE="1")["compile.enabled"]

    assert row.state is State.WARNING
    assert row.summary == "TORCH_COMPILE_DISABLE=1: torch.compile compiles nothing, and a trace has no frames."
    assert row.remedy == "Unset TORCH_COMPILE_DISABLE to compile."


def test_another_value_does_not_switch_it_off(rows):
    assert rows(TORCH_COMPILE_DISABLE="true")["compile.enabled"].state is State.OK


def test_records_for_tlparse_are_a_note_that_does_not_name_the_folder(rows):
    row = rows(TORCH_TRACE="/data/traces")["compile.trace"]

    assert row.state is State.NOTE
    assert "`torch.compile.id`" in row.summary
    assert "/data" not in str(row)


@pytest.mark.parametrize(
    ("variables", "by"),
    [
        ({"TORCH_COMPILE_DEBUG": "1"}, "TORCH_COMPILE_DEBUG"),
        ({"TORCH_COMPILE_DEBUG": "0"}, None),
        ({"TORCH_COMPILE_DEBUG": "1", "TORCH_TRACE": "t"}, "TORCH_TRACE"),
    ],
)
def test_debug_output_has_the_records_too(rows, variables, by):
    assert rows(**variables)["compile.trace"].facts == {"by": by}


def test_without_torch_nothing_is_said_about_it(monkeypatch):
    monkeypatch.setattr(compiling, "find_spec", lambda _name: None)

    assert list(compiling.torch_compile(Context({"TORCH_COMPILE_DISABLE": "1"}))) == []
