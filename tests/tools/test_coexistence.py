# SPDX-License-Identifier: Apache-2.0
"""`make test-beside`: what counts as a difference, and the tools that come with PyTorch for real."""

import json
import os
import sys
from dataclasses import replace

import pytest

import coexistence
import generate_coexistence_page
from coexistence import Ended, peers

PEERS = peers.PEERS

SPAN = {"name": "torch_tensorrt.compile", "id": "1", "parent": None, "scope": "torchspan"}
BELOW = {"name": "torch_tensorrt.conversion", "id": "2", "parent": "1", "scope": "torchspan"}
THEIRS = {"name": "request", "id": "3", "parent": None, "scope": "theirs"}
SAME = {
    "bare": Ended("out", 0, [], None, []),
    "tool": Ended("out", 0, [], {"spans": 1}, [THEIRS]),
    "torchspan": Ended("out", 0, [], None, [SPAN, BELOW]),
    "tool first": Ended("out", 0, [], {"spans": 1}, [THEIRS, {**SPAN, "parent": "3"}, BELOW]),
    "torchspan first": Ended("out", 0, [], {"spans": 1}, [THEIRS, {**SPAN, "parent": "3"}, BELOW]),
}
TREE = "[('torch_tensorrt.compile', [('torch_tensorrt.conversion', [])])]"
FRAME = {"name": "torch.compile_frame", "id": "1", "parent": None, "scope": "torchspan"}


def compared(peer="contrib", **changed):
    return coexistence.compared(PEERS[peer], {**SAME, **{name.replace("_", " "): way for name, way in changed.items()}})


def test_ways_that_agree_have_no_differences():
    assert compared() == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"output": "other"}, "tool first: output is 'other', and without torchspan 'out'"),
        ({"status": 1}, "tool first: status is 1, and without torchspan 0"),
        ({"complaints": ["torchspan"]}, "tool first: complaints is ['torchspan'], and without torchspan []"),
        ({"asked": None}, "tool first: asked is None, and without torchspan {'spans': 1}"),
        (
            {"rows": [THEIRS, {**SPAN, "parent": "3"}]},
            f"tool first: torchspan's tree is [('torch_tensorrt.compile', [])], and expected was {TREE}",
        ),
        ({"rows": [SPAN, BELOW]}, "tool first: torchspan's tree is below {None}, and expected was {'request'}"),
    ],
    ids=["output", "status", "complaints", "asked", "tree", "below"],
)
def test_what_torchspan_changes_where_a_tool_runs_is_a_difference(change, sentence):
    assert compared(tool_first=replace(SAME["tool first"], **change)) == [sentence]


def test_a_tool_that_is_known_to_change_the_work_has_the_same_tree_in_both_orders():
    changed = {name: replace(SAME[name], output="theirs") for name in ("tool", "tool first", "torchspan first")}
    fewer = {name: replace(changed[name], rows=[SPAN]) for name in ("tool first", "torchspan first")}
    ways = {name.replace(" ", "_"): way for name, way in {**changed, **fewer}.items()}
    assert compared("stance", **ways) == []


def test_a_tool_that_changes_the_work_unexpectedly_is_a_difference():
    changed = {name: replace(SAME[name], output="theirs") for name in ("tool", "tool first", "torchspan first")}
    ways = {name.replace(" ", "_"): way for name, way in changed.items()}
    assert compared(**ways) == ["tool: output is 'theirs', which lacks that without the tool: 'out'"]


def test_a_tool_that_has_the_work_done_twice_has_each_tree_twice():
    again = [{**SPAN, "id": "4"}, {**BELOW, "id": "5", "parent": "4"}]
    twice = Ended("outout", 0, [], None, [SPAN, BELOW, *again])
    once = replace(twice, rows=[SPAN, BELOW])
    ways = {
        "bare": SAME["bare"],
        "tool": replace(twice, rows=[]),
        "torchspan": SAME["torchspan"],
        "torchspan in it": twice,
    }
    assert coexistence.compared(PEERS["uvicorn"], {**ways, "torchspan run": twice}) == []
    assert coexistence.compared(PEERS["uvicorn"], {**ways, "torchspan run": once}) == [
        f"torchspan run: torchspan's tree is {TREE}, and expected was [{TREE[1:-1]}, {TREE[1:-1]}]"
    ]


def test_a_tool_that_cannot_be_asked_is_a_difference_and_no_end_of_the_comparison(tmp_path, monkeypatch):
    monkeypatch.setattr(coexistence, "ended_program", lambda *_arguments: ("", "", 0))
    assert coexistence.result_of("provider", tmp_path)["differences"] == [
        f"{way}: the tool could not be asked: [Errno 2] No such file or directory: "
        f"'{tmp_path}/provider-{way.replace(' ', '-')}/asked.json'"
        for way in ("tool", "tool first", "torchspan first")
    ]


def test_a_program_that_does_not_end_is_killed_with_the_processes_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(coexistence, "LIMIT_S", 1)
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    with pytest.raises(RuntimeError, match="no end after 1 s"):
        coexistence.ended_program([sys.executable, "-c", code], tmp_path, dict(os.environ))


def test_a_folder_that_is_called_torchspan_does_not_count_as_a_complaint(tmp_path):
    folder = tmp_path / "torchspan"
    errors = f"watching {folder}\n  File {coexistence.ROOT}/src/torchspan/x.py\nTraceback (most recent call last):\n"
    assert coexistence.complaints(errors, folder) == [
        "  File ROOT/src/torchspan/x.py",
        "Traceback (most recent call last):",
    ]


def test_spans_of_a_tool_are_counted_below_its_own_spans_across_those_of_torchspan(tmp_path):
    rows = [THEIRS, {**SPAN, "parent": "3"}, {**BELOW, "scope": "theirs"}]
    (tmp_path / "spans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert peers.own_spans(tmp_path) == [["request", "", 1], ["torch_tensorrt.conversion", "request", 1]]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("ok", "compiled"),
        ("break", "compiled"),
        ("empty", "skipped"),
        ("error", "skipped"),
        ("error", "limit"),
        ("error", "fallen_back"),
        ("error", "failed"),
    ],
)
def test_tlparse_and_spans_agree_on_a_compilation_with_the_same_outcome(status, outcome):
    rows = [{**FRAME, "torch.compile.id": "0/0", "torch.compile.outcome": outcome}]
    assert PEERS["tlparse"].disagreements({"statuses": {"0/0": status}}, rows) == []


def test_tlparse_and_spans_disagree_on_outcomes_and_on_compilations_that_one_of_them_lacks():
    rows = [
        {**FRAME, "torch.compile.id": "0/0", "torch.compile.outcome": "compiled"},
        {**FRAME, "torch.compile.id": "1/0", "torch.compile.outcome": "skipped"},
    ]
    asked = {"statuses": {"0/0": "error", "2/0": "ok", "3/0": None}}
    assert PEERS["tlparse"].disagreements(asked, rows) == [
        "compilation 0/0 is error in tlparse's report, and compiled in spans",
        "compilation 1/0 is None in tlparse's report, and skipped in spans",
        "compilation 2/0 is ok in tlparse's report, and None in spans",
        "compilation 3/0 is None in tlparse's report, and None in spans",
    ]


def test_a_torchspan_without_spans_is_a_difference():
    empty = {
        name.replace(" ", "_"): replace(SAME[name], rows=[]) for name in ("torchspan", "tool first", "torchspan first")
    }
    assert compared(**empty) == ["torchspan has no spans"]


def test_a_tool_that_is_not_known_is_refused(capsys):
    with pytest.raises(SystemExit):
        coexistence.main(["sentri"])
    assert "no tool sentri; there are logfire, ddtrace, sentry" in capsys.readouterr().err


def test_the_page_names_what_differs_and_what_is_not_installed():
    records = [
        {"tool": "sentry", "versions": {"sentry-sdk": "2.1"}, "differences": []},
        {"tool": "memray", "versions": {"memray": "1.9"}, "differences": ["tool first: a | b", "other"]},
        {"tool": "ray", "not_installed": "no wheel", "differences": []},
    ]
    answer = generate_coexistence_page.answer({"tools": records, "commit": None, "date": "2026-11-27"})
    assert answer == (
        "In the last run (2026-11-27, on uncommitted changes), 1 of 2 tools did with torchspan what they do without it, and torchspan did the "
        "same with them. There are differences with memray. Not installed, so not tested: Ray, with its hook for tracing."
    )
    rows = [generate_coexistence_page.row(record).split(" | ") for record in records]
    assert [(row[0], row[-1]) for row in rows] == [
        ("| Sentry: sentry-sdk 2.1", "the same |"),
        ("| memray: memray 1.9", "tool first: a \\| b; other |"),
        ("| Ray, with its hook for tracing", "not installed: no wheel |"),
    ]


@pytest.mark.slow
def test_a_profiler_counts_the_same_operators_with_torchspan(tmp_path):
    assert coexistence.result_of("profiler", tmp_path)["differences"] == []
