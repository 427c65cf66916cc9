# SPDX-License-Identifier: Apache-2.0
"""The work that decided when a trace ended."""

import pytest

from torchspan import traces
from torchspan.reading.views._critical_path import critical_path


@pytest.fixture
def path(recording):
    """The names on the critical path with the milliseconds that each took."""

    def path():
        (trace,) = traces.read(recording.path).traces
        return [(node.span.name, ns / 1e6) for node, ns in critical_path(trace.roots)]

    return path


def test_work_in_sequence_is_on_it_with_what_is_between(recording, path):
    root = recording.span("root", 0, 100)
    recording.span("first", 10, 40, parent=root)
    recording.span("second", 40, 90, parent=root)
    assert path() == [("root", 20), ("first", 30), ("second", 50)]


def test_of_parallel_work_the_last_to_end_is_on_it(recording, path):
    root = recording.span("root", 0, 100)
    recording.span("short", 10, 60, parent=root)
    recording.span("long", 10, 90, parent=root)
    assert path() == [("root", 20), ("long", 80)]


def test_a_child_that_outlasts_its_parent_counts_up_to_the_end_of_the_parent(recording, path):
    root = recording.span("root", 0, 100)
    recording.span("child", 50, 200, parent=root)
    assert path() == [("root", 50), ("child", 50)]


def test_its_times_add_up_to_the_time_of_the_trace_at_any_depth(recording, path):
    parent = None
    for depth in range(300):
        parent = recording.span(f"depth {depth}", depth, 1000 - depth, parent=parent)
    assert sum(ms for _, ms in path()) == 1000
