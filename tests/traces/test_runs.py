# SPDX-License-Identifier: Apache-2.0
"""Traces of one `torchspan run`: by their parent, or by the run id in the file."""

import pytest

from support.run_recording import RUN, RunRecording, as_process, write_run
from torchspan import traces
from torchspan.traces import Run


@pytest.fixture
def run(tmp_path):
    return RunRecording(tmp_path / "run.jsonl")


def grouped(*paths):
    """Runs as lists of what is below them, other traces as what they start with."""
    return [
        [[root.span.name for root in member.roots] for member in item.members]
        if isinstance(item, Run)
        else item.roots[0].span.name
        for item in traces.by_run(traces.read(*paths).traces)
    ]


def test_what_has_the_run_as_parent_is_below_it_in_the_order_of_its_start(run):
    run.span("second", 200, 300, parent=RUN)
    run.span("first", 0, 100, parent=RUN)
    write_run(run.path, 0, 400)
    assert grouped(run.path) == [[["first"], ["second"]]]


def test_what_has_a_trace_of_its_own_is_below_it_by_its_run_id(run):
    run.span("first", 0, 100)
    run.span("second", 200, 300, parent=RUN)
    run.span("third", 300, 400)
    write_run(run.path, 0, 400)
    assert grouped(run.path) == [[["first"], ["second"], ["third"]]]


def test_roots_of_one_foreign_trace_stay_together(run):
    missing = run.start("never written", 0)
    run.span("first", 0, 100, parent=missing)
    run.span("second", 200, 300, parent=missing)
    write_run(run.path, 0, 400)
    assert grouped(run.path) == [[["first", "second"]]]


def test_what_did_not_end_is_below_the_run_too(run):
    compiled = run.start("torch_tensorrt.compile", 0, parent=RUN)
    run.span("torch_tensorrt.lower", 0, 100, parent=compiled)
    write_run(run.path, 0, 400)
    assert grouped(run.path) == [[["torch_tensorrt.compile"]]]


def test_runs_and_other_traces_of_a_file_are_kept_apart(run, tmp_path):
    other = tmp_path / "other.jsonl"
    RunRecording(other, run_id="feedfeedfeedfeed", first_id=1000).span("other run", 500, 600)
    run.span("work", 0, 100)
    write_run(run.path, 0, 400)
    assert grouped(run.path, other) == [[["work"]], "other run"]


def test_without_the_span_of_a_run_its_traces_stand_alone(run):
    run.span("first", 0, 100)
    run.span("second", 200, 300)
    assert grouped(run.path) == ["first", "second"]


def test_a_run_in_which_nothing_was_recorded_has_no_members(run):
    write_run(run.path, 0, 400)
    assert grouped(run.path) == [[]]


def test_processes_of_one_run_are_together(run, tmp_path):
    other = tmp_path / "other.jsonl"
    RunRecording(other, first_id=1000).span("worker", 50, 60)
    as_process(other, 4242)
    run.span("work", 0, 100)
    write_run(run.path, 0, 400)
    assert grouped(run.path, other) == [[["work"], ["worker"]]]
