# SPDX-License-Identifier: Apache-2.0
"""PyTorch's phrases about graph breaks, read from its source without importing it."""

import json
import sys

import pytest

import collect_graph_breaks

CALLS = """
raise SystemExit("this module is not to be imported")
BASE = "Base"

class Variable:
    kind = "An attribute"

    def call(self, name, is_late):
        unimplemented(gb_type="A literal", context=name, explanation=f"about {name}", hints=[])
        unimplemented(gb_type="Late" if is_late else "Early", context="")
        unimplemented(gb_type="In two " "parts" + " and a third")
        unimplemented(gb_type=self.kind)
        unimplemented(gb_type=f"{BASE} of a phrase")
        unimplemented(gb_type=f"Unknown {name!r}")
        self.refuse("Passed by a caller")

    def refuse(self, gb_type):
        unimplemented(gb_type=gb_type)
"""
HINTS = """
MISTAKE = ["Check the " "spelling."]
BUG: list[str] = ["It may be a bug.", compute()]
"""


def folder_of(path, calls=CALLS, registry=("A literal",)):
    path.mkdir()
    (path / "variables.py").write_text(calls)
    (path / "graph_break_hints.py").write_text(HINTS)
    (path / "graph_break_registry.json").write_text(json.dumps({"GB0": [{"Gb_type": name} for name in registry]}))
    return path


def test_the_phrases_of_all_forms_are_found_and_an_expression_without_one_is_named(tmp_path):
    types = collect_graph_breaks.types(folder_of(tmp_path / "_dynamo"))
    assert [kind.phrase for kind in types if kind.phrase] == [
        "A literal",
        "Late",
        "Early",
        "In two parts and a third",
        "An attribute",
        "Base of a phrase",
    ]
    assert [(kind.source, kind.where) for kind in types if not kind.phrase] == [
        ("f'Unknown {name!r}'", "variables.py:14")
    ]


def test_a_hint_is_a_constant_of_the_module_of_hints(tmp_path):
    assert collect_graph_breaks.hints(folder_of(tmp_path / "_dynamo")) == ["Check the spelling.", "It may be a bug."]


def test_each_phrase_has_its_versions_and_a_phrase_can_be_dropped(tmp_path, monkeypatch, capsys):
    calls = [f"unimplemented(gb_type={name!r})\n" for name in ("Always", "Early", "Late", "Dropped")]
    parts = {"2.11": (0, 1, 3), "2.12": (0, 1), "2.13": (0, 2)}
    words = [
        f"{version}={folder_of(tmp_path / version, ''.join(calls[part] for part in chosen))}"
        for version, chosen in parts.items()
    ]
    output = tmp_path / "graph_breaks.json"
    monkeypatch.setattr(sys, "argv", ["collect_graph_breaks.py", *words, "--output", str(output), "--drop", "Dropped"])
    collect_graph_breaks.main()
    assert json.loads(output.read_text()) == {
        "types": {"Always": "", "Early": "2.11-2.12", "Late": "2.13"},
        "hints": {"Check the spelling.": "", "It may be a bug.": ""},
    }
    assert "2.13 not in the registry: Late" in capsys.readouterr().err


def test_the_file_of_the_package_has_what_this_pytorch_has():
    torch = pytest.importorskip("torch")
    from pathlib import Path

    from torchspan.words.redaction.message_table import graph_breaks

    folder = Path(torch.__file__).parent / "_dynamo"
    of_source = {kind.phrase for kind in collect_graph_breaks.types(folder) if kind.phrase}
    types, hints = graph_breaks()
    assert set(collect_graph_breaks.hints(folder)) <= hints
    assert len(of_source - types) <= len(of_source) // 50, of_source - types  # what a person dropped on review
