# SPDX-License-Identifier: Apache-2.0
"""The options of `run` and `demo` that are settings."""

import argparse

import pytest

from torchspan import cli
from torchspan.cli._options import add_options, variables


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_options(parser)
    return variables(parser.parse_args(words))


def test_an_option_that_is_not_given_leaves_the_users_variable_alone():
    assert parsed() == {}


def test_the_options_are_variables_of_the_program():
    assert parsed("--detail", "passes", "--without-gpu") == {
        "TORCHSPAN_DETAIL": "passes",
        "TORCHSPAN_WITHOUT_GPU": "1",
    }


def test_a_choice_that_the_setting_does_not_have_is_a_usage_error(capsys):
    with pytest.raises(SystemExit):
        parsed("--detail", "everything")
    assert "argument --detail: invalid choice: 'everything'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "demo"])
def test_the_help_has_the_choices_the_meaning_and_the_default_of_the_setting(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "--detail {stages,passes} stages: a span for each stage of a compilation. passes: a span for each lowering pass, too "
        "(default: TORCHSPAN_DETAIL, else stages) --without-gpu run Torch-TensorRT's pipeline on a machine without a GPU"
    ) in text
