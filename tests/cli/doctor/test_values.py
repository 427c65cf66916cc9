# SPDX-License-Identifier: Apache-2.0
"""Settings with their sources."""

import pytest

from torchspan.cli.doctor._check import State
from torchspan.words.settings import SETTINGS, VARIABLES


def test_every_setting_and_every_variable_is_a_row(rows):
    found = {name for name in rows() if name.startswith("settings.")}

    names = {row.name for row in SETTINGS} | {row.variable.removeprefix("TORCHSPAN_").lower() for row in VARIABLES}
    assert found == {f"settings.{name}" for name in names | {"unknown"}}


@pytest.mark.parametrize(
    ("variables", "name", "summary", "facts"),
    [
        (
            {},
            "detail",
            "detail: 'stages' (the default).",
            {"value": "stages", "source": "default", "variable": "TORCHSPAN_DETAIL"},
        ),
        (
            {"TORCHSPAN_DETAIL": " PASSES "},
            "detail",
            "detail: 'passes' (TORCHSPAN_DETAIL).",
            {"value": "passes", "source": "variable", "variable": "TORCHSPAN_DETAIL"},
        ),
        (
            {"TORCHSPAN_FILE_MODE": "640"},
            "file_mode",
            "file_mode: 640 (TORCHSPAN_FILE_MODE).",
            {"value": "640", "source": "variable", "variable": "TORCHSPAN_FILE_MODE"},
        ),
        (
            {},
            "run",
            "run: not set (the default).",
            {"value": None, "source": "default", "variable": "TORCHSPAN_RUN"},
        ),
    ],
)
def test_a_setting_is_said_with_its_source(rows, variables, name, summary, facts):
    assert rows(**variables)[f"settings.{name}"] == (f"settings.{name}", State.OK, summary, "", facts)


@pytest.mark.parametrize(
    ("variables", "name", "summary"),
    [
        (
            {"TORCHSPAN_DETAIL": "everything"},
            "detail",
            "Invalid TORCHSPAN_DETAIL='everything', using default 'stages' (expected one of stages, passes).",
        ),
        (
            {"TORCHSPAN_FILE_MODE": "rw-r--r--"},
            "file_mode",
            (
                "Invalid TORCHSPAN_FILE_MODE='rw-r--r--', using default 600 (expected a file's permissions in octal digits, such "
                "as 640)."
            ),
        ),
    ],
)
def test_an_invalid_value_fails_with_what_is_allowed_and_what_is_used(rows, variables, name, summary):
    row = rows(**variables)[f"settings.{name}"]

    assert (row.state, row.summary, row.remedy) == (State.FAILED, summary, "Correct the value, or remove it.")
    assert row.facts["source"] == "default"


@pytest.mark.parametrize(
    ("name", "state", "listed"),
    [
        ("TORCHSPAN_DETIAL", State.FAILED, "TORCHSPAN_DETIAL (did you mean TORCHSPAN_DETAIL?)"),
        ("TORCHSPAN_SERVICE_HOST", State.NOTE, "TORCHSPAN_SERVICE_HOST"),
    ],
)
def test_a_variable_that_torchspan_does_not_have_is_named_with_the_one_that_was_meant(rows, name, state, listed):
    row = rows(**{name: "1"})["settings.unknown"]

    assert (row.state, row.summary) == (state, f"torchspan ignores names that are not its settings: {listed}.")
