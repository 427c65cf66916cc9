# SPDX-License-Identifier: Apache-2.0
"""What had not ended when its process was killed: the tree is the one that was there."""

import json
import os

import pytest

from support.run_recording import START_NS, RunRecording, as_process, write_run
from torchspan import cli, traces
from torchspan.traces import Running, UnfinishedSpan
from torchspan.words import semconv as s


@pytest.fixture
def run(tmp_path):
    return RunRecording(tmp_path / "run.jsonl")


def tree(path):
    """Lines `name start end` of every span, indented by depth, in milliseconds; `*` for what did not end."""
    lines = []
    pending = [(root, 0) for trace in reversed(traces.read(path).traces) for root in reversed(trace.roots)]
    while pending:
        node, depth = pending.pop()
        start, end = ((ns - START_NS) / 1e6 for ns in (node.span.start_ns, node.span.end_ns))
        mark = "*" if isinstance(node.span, UnfinishedSpan) else ""
        lines.append(f"{'  ' * depth}{node.span.name}{mark} {start:g} {end:g}")
        pending.extend((child, depth + 1) for child in reversed(node.children))
    return lines


def named(path, name):
    (found,) = (node for trace in traces.read(path).traces for node in trace.nodes() if node.span.name == name)
    return found


@pytest.fixture
def killed(run):
    """A compilation inside a span of the user's, killed inside its second build, after a heartbeat."""
    main = run.start("main", 0)
    compiled = run.start("torch_tensorrt.compile", 10, {s.MODEL_CLASS: "Net"}, parent=main)
    run.span("torch_tensorrt.lower", 20, 120, parent=compiled)
    first = run.start("torch_tensorrt.convert", 120, {s.ENGINE_NAME: "_run_on_acc_0"}, parent=compiled)
    run.span("tensorrt.build_engine", 130, 300, parent=first)
    run.end(first, 310)
    second = run.start("torch_tensorrt.convert", 320, {s.ENGINE_NAME: "_run_on_acc_2"}, parent=compiled)
    build = run.start("tensorrt.build_engine", 330, parent=second)
    run.heartbeat(build, 5330, "tensorrt.build_engine", 5000, ENGINE_NAME="_run_on_acc_2")
    return run.path


def test_what_was_open_is_in_its_place_with_its_name_and_start(killed):
    assert tree(killed) == [
        "main* 0 5330",
        "  torch_tensorrt.compile* 10 5330",
        "    torch_tensorrt.lower 20 120",
        "    torch_tensorrt.convert 120 310",
        "      tensorrt.build_engine 130 300",
        "    torch_tensorrt.convert* 320 5330",
        "      tensorrt.build_engine* 330 5330",
    ]


def test_time_of_its_own_goes_to_the_work_that_was_running(killed):
    own = {}
    for trace in traces.read(killed).traces:
        for node in trace.nodes():
            own[node.span.name] = own.get(node.span.name, 0) + node.self_ns() // 1_000_000
    assert own == {
        "main": 10,
        "torch_tensorrt.compile": 20,
        "torch_tensorrt.lower": 100,
        "torch_tensorrt.convert": 30,
        "tensorrt.build_engine": 5170,
    }


def test_what_was_open_has_the_facts_of_its_own_start_and_none_of_what_ran_inside(killed):
    compiled, main = (named(killed, name).span for name in ("torch_tensorrt.compile", "main"))
    assert compiled.attributes == {s.KEEP: True, s.MODEL_CLASS: "Net"}
    assert (compiled.scope, compiled.resource["service.name"]) == ("torchspan", "app.py")
    assert (main.attributes, main.scope) == ({}, "")


def test_heartbeats_of_work_that_is_there_say_nothing_more(killed):
    assert [
        node.span.running
        for trace in traces.read(killed).traces
        for node in trace.nodes()
        if isinstance(node.span, UnfinishedSpan)
    ] == [None] * 4


def test_a_stage_that_had_just_begun_lasts_until_its_process_wrote_for_the_last_time(run):
    compiled = run.start("torch_tensorrt.compile", 0)
    run.start("torch_tensorrt.lower", 100, parent=compiled)
    run.span("another thread", 50, 400)
    assert tree(run.path) == [
        "torch_tensorrt.compile* 0 400",
        "  torch_tensorrt.lower* 100 400",
        "another thread 50 400",
    ]


def test_what_the_program_itself_had_open_lasts_until_the_end_of_the_run(run):
    run.start("torch_tensorrt.compile", 0)
    run.span("work", 0, 100)
    write_run(run.path, 0, 4900, process_pid=os.getpid())
    assert "torch_tensorrt.compile* 0 4900" in tree(run.path)


def test_what_a_process_below_the_program_had_open_need_not_have_lasted_as_long(run):
    run.start("torch_tensorrt.compile", 0)
    run.span("work", 0, 100)
    write_run(run.path, 0, 4900, process_pid=os.getpid() + 1)
    assert "torch_tensorrt.compile* 0 100" in tree(run.path)


def test_what_other_processes_wrote_says_nothing_of_a_process(run, tmp_path):
    other = tmp_path / "other.jsonl"
    RunRecording(other, first_id=1000).span("other", 0, 9000)
    other.write_text(
        other.read_text().replace('"process.pid","value":{"intValue":"', '"process.pid","value":{"intValue":"1')
    )
    run.start("torch_tensorrt.compile", 0)
    run.span("work", 0, 100)
    found = traces.read(run.path, other)
    assert {node.span.name: (node.span.end_ns - START_NS) // 1_000_000 for t in found.traces for node in t.nodes()} == {
        "torch_tensorrt.compile": 100,
        "work": 100,
        "other": 9000,
    }


def test_a_child_in_another_process_makes_its_parent_last_as_long(run, tmp_path):
    compiled = run.start("torch_tensorrt.compile", 0)
    other = tmp_path / "other.jsonl"
    RunRecording(other, first_id=1000).span("worker", 10, 700, parent=compiled)
    as_process(other, 1)
    with open(run.path, "a") as file:
        file.write(other.read_text())
    assert tree(run.path) == ["torch_tensorrt.compile* 0 700", "  worker 10 700"]


def test_a_compilation_that_ended_before_the_crash_is_an_ended_one(run):
    main = run.start("main", 0)
    run.span("torch_tensorrt.compile", 0, 500, parent=main)
    assert tree(run.path) == ["main* 0 500", "  torch_tensorrt.compile 0 500"]


def test_a_span_that_was_renamed_has_its_last_name(run):
    request = run.start("GET", 0)
    run.span("torch_tensorrt.lower", 0, 10, parent=request)
    request.update_name("GET /predict")
    run.span("torch_tensorrt.lower", 10, 20, parent=request)
    assert tree(run.path)[0] == "GET /predict* 0 20"


def test_what_ran_without_a_span_is_known_from_the_heartbeat(run):
    compiled = run.start("torch_tensorrt.compile", 0)
    run.span("torch_tensorrt.lower", 0, 100, parent=compiled)
    run.heartbeat(compiled, 5000, "torch_tensorrt.pass", 4800, ENGINE_NAME="_run_on_acc_0")
    seen = Running("torch_tensorrt.pass · _run_on_acc_0", 4_800_000_000, START_NS + 5_000_000_000)
    assert named(run.path, "torch_tensorrt.compile").span.running == seen

    run.span("torch_tensorrt.partition", 5000, 5100, parent=compiled)
    assert named(run.path, "torch_tensorrt.compile").span.running is None


def test_every_unfinished_parent_lasts_at_least_as_long_as_its_children(killed):
    for trace in traces.read(killed).traces:
        for node in trace.nodes():
            assert node.parent is None or node.parent.span.end_ns >= node.span.end_ns


def with_attribute(path, key, value):
    """The lines of a file with the value of an attribute replaced."""
    lines = []
    with open(path) as file:
        for line in file:
            request = json.loads(line)
            for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
                for attribute in span.get("attributes", ()):
                    if attribute["key"] == key:
                        attribute["value"] = value
            lines.append(json.dumps(request))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("key", ["ids", "names", "starts"])
@pytest.mark.parametrize(
    "value",
    [
        {"stringValue": "x"},
        {"arrayValue": {"values": []}},
        {"arrayValue": {"values": [{"boolValue": True}] * 2}},
        {"arrayValue": {"values": [{"intValue": "9" * 30}] * 2}},
        {"arrayValue": {"values": [{"stringValue": ""}] * 2}},
        {},
    ],
)
def test_lists_that_are_not_what_they_should_be_are_left_out(killed, tmp_path, key, value):
    path = tmp_path / "changed.jsonl"
    path.write_text(with_attribute(killed, f"torchspan.open_ancestors.{key}", value))
    assert any(line.strip() == "torch_tensorrt.lower 20 120" for line in tree(path))
    assert cli.main(["show", str(path)]) == 0


def test_ancestors_that_are_each_others_parents_make_a_tree(run, tmp_path):
    compiled = run.start("torch_tensorrt.compile", 0)
    inner = run.start("torch_tensorrt.lower", 10, parent=compiled)
    run.span("torch_tensorrt.pass", 20, 30, parent=inner)
    own, above = (f"{each.get_span_context().span_id:016x}" for each in (inner, compiled))
    ring = {"arrayValue": {"values": [{"stringValue": own}, {"stringValue": above}, {"stringValue": own}]}}
    names = {"arrayValue": {"values": [{"stringValue": name} for name in "aba"]}}
    starts = {"arrayValue": {"values": [{"intValue": str(START_NS)}] * 3}}
    path = tmp_path / "ring.jsonl"
    for key, value in (("ids", ring), ("names", names), ("starts", starts)):
        path.write_text(with_attribute(run.path if key == "ids" else path, f"torchspan.open_ancestors.{key}", value))
    assert len(tree(path)) == 3


def test_of_a_file_without_run_id_only_what_names_its_ancestors_counts(killed, tmp_path):
    path = tmp_path / "bare.jsonl"
    with open(killed) as file:
        path.write_text(file.read().replace("torchspan.run.id", "run.id"))
    assert tree(path)[0] == "main* 0 5330"


def test_the_spans_of_a_file_are_those_that_find_returns_and_starts_and_heartbeats_are_records(killed):
    file = traces.read(killed)
    assert [span.name for span in file.spans] == [
        "main",
        "torch_tensorrt.compile",
        "torch_tensorrt.lower",
        "torch_tensorrt.convert",
        "tensorrt.build_engine",
        "torch_tensorrt.convert",
        "tensorrt.build_engine",
    ]
    assert all(file.self_time(span) >= 0 for span in file.spans)
    reports = [record.name for record in file.records if record.name == "torchspan.progress"]
    assert (len(file.records), len(reports)) == (10, 7)
