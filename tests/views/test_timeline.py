# SPDX-License-Identifier: Apache-2.0
"""Spans by process, thread and lane."""

import random

import pytest

from support.run_recording import RUN, RunRecording
from torchspan import traces
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.views._timeline import end_ns, processes, whole_traces


@pytest.fixture
def recording(tmp_path):
    return RunRecording(tmp_path / "trace.jsonl")


def drawing(path):
    return Drawing.of(traces.read(path).records)


def lanes(path):
    """`{process: {thread: [names of each lane]}}` of the only trace."""
    (trace,) = whole_traces(drawing(path))
    return {
        process.name.partition(" ")[0]: {
            thread.name: [[node.span.name for node in lane] for lane in thread.lanes] for thread in process.threads
        }
        for process in processes(trace.nodes)
    }


def test_a_span_is_in_the_lane_of_its_parent_and_one_that_overlaps_in_the_next(recording):
    parent = recording.start("parent", 0)
    recording.span("first", 10, 50, parent=parent)
    recording.span("overlapping", 20, 60, parent=parent)
    recording.span("last", 55, 90, parent=parent)
    recording.end(parent, 100)
    assert lanes(recording.path) == {"app.py": {"main thread": [["parent", "first", "last"], ["overlapping"]]}}


def test_a_child_that_outlasts_its_parent_has_a_lane_of_its_own(recording):
    parent = recording.span("parent", 0, 50)
    recording.span("child", 40, 60, parent=parent)
    recording.span("grandchild", 70, 80, parent=parent)
    assert lanes(recording.path) == {"app.py": {"main thread": [["parent", "grandchild"], ["child"]]}}


def test_nothing_follows_a_span_that_did_not_end_in_its_lane(recording):
    opened = recording.start("torch_tensorrt.compile", 0)
    recording.span("torch_tensorrt.trace", 10, 20, parent=opened)
    worker = recording.start("later", 30, parent=opened)
    recording.end(worker, 40)
    assert lanes(recording.path) == {
        "app.py": {"main thread": [["torch_tensorrt.compile", "torch_tensorrt.trace", "later"]]}
    }


def test_threads_have_their_names_and_work_without_one_is_in_the_thread_of_its_parent(recording):
    parent = recording.span("request", 0, 100, {"thread.id": 7, "thread.name": "worker-1"})
    child = recording.span("torch.compile_frame", 10, 60, parent=parent)
    recording.span("torch.compile_worker", 20, 50, parent=child)
    recording.span("elsewhere", 30, 40, {"thread.id": 9}, parent=child)
    assert lanes(recording.path) == {
        "app.py": {
            "worker-1": [["request", "torch.compile_frame"]],
            "compile workers": [["torch.compile_worker"]],
            "thread 9": [["elsewhere"]],
        }
    }


def test_the_span_of_a_run_is_above_the_parts_of_its_program(recording):
    recording.span("first", 0, 10, parent=RUN)
    recording.span("second", 20, 30, parent=RUN)
    (trace,) = whole_traces(drawing(recording.path))
    assert [node.span.name for node in trace.nodes] == ["first", "second"]


@pytest.mark.parametrize("seed", range(20))
def test_spans_of_a_lane_never_overlap_but_with_their_parents(recording, seed):
    chance = random.Random(seed)
    spans = []
    for _ in range(60):
        start, length = chance.randrange(100), chance.choice([0, 1, 5, 30, 100])
        parent = chance.choice([None, *spans[-4:]])
        spans.append(recording.span(f"span {len(spans)}", start, start + length, parent=parent))
    for trace in whole_traces(drawing(recording.path)):
        placed = 0
        for process in processes(trace.nodes):
            for lane in (lane for thread in process.threads for lane in thread.lanes):
                placed += len(lane)
                _assert_nested(lane)
        assert placed == len(trace.nodes)


def _assert_nested(lane):
    """Each pair of spans of a lane is apart, or the later one is below the earlier one and within it."""
    for index, later in enumerate(lane):
        above = set()
        node = later
        while node is not None:
            above.add(id(node))
            node = node.parent
        for earlier in lane[:index]:
            is_apart = end_ns(earlier) <= later.span.start_ns
            is_within = id(earlier) in above and end_ns(later) <= end_ns(earlier)
            assert is_apart or is_within, (earlier, later)
