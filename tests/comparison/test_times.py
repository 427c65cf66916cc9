# SPDX-License-Identifier: Apache-2.0
"""The time of some work in parts: each has the time in which its spans ran and nothing inside them did."""

import itertools
import random

import pytest

from torchspan.reading.comparison._times import time_parts
from torchspan.traces import Span, trees
from torchspan.words import semconv

IDS = itertools.count(1)


def span(name, start, end, parent=None, **attributes):
    """A span of torchspan's with times in nanoseconds."""
    parent_id = "" if parent is None else parent.span_id
    scope = semconv.SCOPE_NAME
    return Span("a" * 32, f"{next(IDS):016x}", parent_id, name, start, end, attributes, scope=scope)


def parts(*spans):
    """The parts of the work of these spans by their last stage."""
    (trace,) = trees(spans)
    return {" > ".join(path) or "itself": ns for path, ns in time_parts(trace.roots).items() if ns}


def moments(node):
    """Each nanosecond in which a span was open."""
    return set(range(node.span.start_ns, node.span.end_ns))


def top_of(node):
    """The root above a node."""
    return node if node.parent is None else top_of(node.parent)


def test_a_moment_belongs_to_the_innermost_stage():
    top = span("torch_tensorrt.compile", 0, 100)
    lower = span("torch_tensorrt.lower", 10, 50, top)
    assert parts(top, lower, span("torch_tensorrt.lower.pass p", 20, 30, lower)) == {
        "itself": 60, "lower": 30, "lower > lower.pass p": 10,
    }  # fmt: skip


def test_stages_that_run_at_the_same_time_have_their_whole_times():
    top = span("torch_tensorrt.compile", 0, 100)
    first, second = span("first", 0, 60, top), span("second", 40, 100, top)
    assert parts(top, first, second) == {"first": 60, "second": 60}
    assert parts(top, first, second, span("inside", 30, 60, first)) == {"first": 30, "first > inside": 30, "second": 60}


def test_what_outlives_the_work_counts_as_long_as_the_work():
    top = span("torch_tensorrt.compile", 0, 100)
    assert parts(top, span("late", 80, 300, top)) == {"itself": 80, "late": 20}


def test_what_the_stand_in_for_a_gpu_did_is_left_out():
    top = span("torch_tensorrt.compile", 0, 100)
    setup = span("setup", 50, 90, top, **{semconv.STAND_IN: True})
    assert parts(top, setup, span("inside", 60, 70, setup)) == {"itself": 60}


def test_steps_and_converters_are_parts_of_the_own_time():
    steps = {semconv.STEP_NAMES: ["save"], semconv.STEP_COUNTS: [1], semconv.STEP_DURATIONS: [30e-9]}
    converters = {
        semconv.CONVERTER_OPERATORS: ["torch.ops.aten.relu.default", "torch.ops.aten.add.Tensor"],
        semconv.CONVERTER_COUNTS: [1, 1],
        semconv.CONVERTER_DURATIONS: [50e-9, 40e-9],
    }
    assert parts(span("torch_tensorrt.construct_network", 0, 100, **steps, **converters)) == {
        "save": 30, "aten.relu": 50, "aten.add.Tensor": 20,
    }  # fmt: skip


def test_a_clock_that_was_set_back_and_empty_spans_take_no_time():
    top = span("torch_tensorrt.compile", 0, 100)
    assert parts(top, span("back", 50, 40, top), span("empty", 60, 60, top)) == {"itself": 100}


@pytest.mark.parametrize("seed", range(30))
def test_the_parts_of_any_tree_are_moments_without_what_is_inside_and_cover_the_whole(seed):
    chance = random.Random(seed)
    spans = [span("top", *sorted(chance.sample(range(1_000), 2))) for _ in range(chance.randint(1, 3))]
    for number in range(chance.randint(0, 60)):
        spans.append(span(f"s{number % 7}", chance.randint(0, 1_000), chance.randint(0, 1_000), chance.choice(spans)))
    traces = trees(spans)
    nodes = [node for trace in traces for node in trace.nodes()]
    expected = dict.fromkeys((node.span.name for node in nodes), 0)
    for node in nodes:
        inside = {moment for child in node.children for moment in moments(child)}
        expected[node.span.name] += len((moments(node) & moments(top_of(node))) - inside)
    found = dict.fromkeys(expected, 0)
    for path, ns in time_parts(top for trace in traces for top in trace.roots).items():
        found[path[-1] if path else "top"] += ns
    assert found == expected


def test_a_chain_of_ten_thousand_spans_has_paths_of_bounded_length():
    spans = [span("top", 0, 20_000)]
    for depth in range(1, 10_000):
        spans.append(span(f"s{depth}", depth, 20_000 - depth, spans[-1]))
    (trace,) = trees(spans)
    result = time_parts(trace.roots)
    assert max(map(len, result)) == 64
    assert sum(result.values()) == 20_000
