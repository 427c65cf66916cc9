# SPDX-License-Identifier: Apache-2.0
"""The newest section of CHANGELOG.md names only what exists in this version."""

import pkgutil
import re

import pytest

import torchspan
from support.pages import ROOT
from torchspan import environment_variables
from torchspan.observers import PHASES
from torchspan.words import phase, semconv
from torchspan.words.semconv import metrics

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## \[(.+?)\](?: - (.*))?\n", TEXT, re.MULTILINE)
NEWEST = TEXT[TEXT.index(f"## [{torchspan.__version__}]") :].partition("\n## ")[0]
EMITTED = {
    *(each.name for each in phase.SPANS),
    *map(str, semconv.ATTRIBUTES),
    *(str(value) for value in vars(metrics).values() if isinstance(value, semconv.Metric)),
}


def test_the_first_section_is_for_changes_to_come_and_the_second_is_the_version():
    assert [name for name, _ in SECTIONS[:2]] == ["Unreleased", torchspan.__version__]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d|not released yet", SECTIONS[1][1])


def test_every_variable_of_the_section_exists():
    named = set(re.findall(r"`(TORCHSPAN_[A-Z_]+[A-Z])", NEWEST))
    assert len(named) > 10
    assert {name for name in named if not hasattr(environment_variables, name)} - {"TORCHSPAN_SAMPLE"} == set()


def test_every_public_name_of_the_section_exists():
    named = set(re.findall(r"`(torchspan(?:\.\w+)+)(?![\w./])", NEWEST)) - EMITTED
    assert "torchspan.mark_ready" in named
    assert {name for name in named if not exists(name)} == set()


def exists(name):
    """Whether a dotted name is a module, or an attribute of one, or of a class in it."""
    try:
        return bool(pkgutil.resolve_name(name))
    except (ImportError, AttributeError):
        return False


def test_every_span_and_attribute_of_the_section_exists():
    named = set(re.findall(r"`((?:torch_tensorrt|tensorrt)\.[a-z_.]+)`", NEWEST))
    calls = {"torch_tensorrt.compile", "torch_tensorrt.dynamo.compile"}  # functions
    assert "tensorrt.engine.id" in named
    assert named - calls - EMITTED == set()
    assert set(re.findall(r"`observers\.([a-z_.]+)\.(?:pre|post)", NEWEST)) <= set(PHASES)


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`torchspan ([a-z]+)", NEWEST))))
def test_every_command_of_the_section_exists(command, capsys):
    from torchspan.cli import main

    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    options = set(re.findall(rf"`torchspan {command}[^`]*?(--[a-z-]+)", NEWEST))
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert {option for option in options if option not in printed} == set()
