# SPDX-License-Identifier: Apache-2.0
"""Sizes of inputs: outside of what an engine was built for, and usual ones that are not opt."""

import pytest

from torchspan.words import semconv as s


@pytest.fixture
def lines(recording, said):
    """Each sentence with its remedy, for events on a span of the program."""

    def lines(*events, compilation=None):
        root = recording.span("GET /", 0, 100, events=events)
        if compilation is not None:
            recording.span("torch_tensorrt.compile", 1, 50, compilation, parent=root)
        return [" ".join(finding.paragraph) for finding in said().sizes]

    return lines


def outside_facts(*dimensions):
    names = (s.OUTSIDE_PATHS, s.OUTSIDE_AXES, s.OUTSIDE_SIZES, s.OUTSIDE_MINIMUMS, s.OUTSIDE_MAXIMUMS)
    return dict(zip(names, map(list, zip(*dimensions, strict=True)), strict=True))


def outside(*dimensions):
    return s.OUTSIDE_EVENT, {s.CALL_MODULE: "Net", **outside_facts(*dimensions)}


def drift(calls, size_calls, *, size=3, opt=8, path="x", axis=0, module="Net"):
    return s.DRIFT_EVENT, {
        s.CALL_MODULE: module,
        s.DRIFT_CALLS: calls,
        s.DRIFT_AT_OPT: calls - size_calls,
        s.DRIFT_PATH: path,
        s.DRIFT_AXIS: axis,
        s.DRIFT_SIZE: size,
        s.DRIFT_SIZE_CALLS: size_calls,
        s.DRIFT_OPT: opt,
    }


# --- drift -----------------------------------------------------------------------------------------------------------
def test_a_usual_size_that_is_not_opt_is_said_with_opt(lines):
    assert lines(drift(1_240, 1_141)) == [
        "92 % of 1,240 calls of Net have 3 in dimension 0 of x, but the engine was built for 8"
    ]


def test_the_last_of_several_events_counts(lines):
    found = lines(drift(100, 90), drift(1_240, 1_141), drift(200, 150))
    assert found == ["92 % of 1,240 calls of Net have 3 in dimension 0 of x, but the engine was built for 8"]


def test_a_usual_size_of_one_is_said_with_opt(lines):
    (line,) = lines(drift(100, 90, size=1))
    assert line.endswith("but the engine was built for 8")


def test_each_module_and_each_dimension_has_its_line_the_most_calls_first(lines):
    found = lines(drift(100, 60, path="y"), drift(100, 90), drift(50, 40, module="Other"))
    assert [line.partition(",")[0] for line in found] == [
        "90 % of 100 calls of Net have 3 in dimension 0 of x",
        "60 % of 100 calls of Net have 3 in dimension 0 of y",
        "80 % of 50 calls of Other have 3 in dimension 0 of x",
    ]


def test_a_file_in_which_numbers_are_missing_or_texts_says_nothing(lines):
    name, facts = drift(100, 90)
    assert lines((name, {**facts, s.DRIFT_OPT: "8"}), (name, {s.DRIFT_PATH: "x"})) == []


# --- outside ---------------------------------------------------------------------------------------------------------
def test_a_call_outside_is_said_with_the_range_and_what_to_do(lines):
    assert lines(outside(("past[0][1]", 2, 4_097, 1, 4_096))) == [
        "1 call has 4097 in dimension 2 of past[0][1], but the engine was built for 1 to 4096"
    ]


def test_calls_outside_in_one_dimension_are_one_line_with_the_range_of_their_sizes(lines):
    found = lines(outside(("x", 0, 9, 1, 8)), outside(("x", 0, 17, 1, 8), ("x", 1, 5, 4, 4)))
    assert [line.partition(":")[0] for line in found] == [
        "2 calls have 9 to 17 in dimension 0 of x, but the engine was built for 1 to 8",
        "1 call has 5 in dimension 1 of x, but the engine was built for 4 only",
    ]


def test_another_number_of_dimensions_and_a_range_without_an_end_are_said_as_such(lines):
    found = lines(outside(("x", -1, 3, 2, 2), ("y", 0, 1, 2, -1)))
    assert [line.partition(":")[0] for line in found] == [
        "1 call has 3 in the number of dimensions of x, but the engine was built for 2 only",
        "1 call has 1 in dimension 0 of y, but the engine was built for 2 and more",
    ]


def test_a_module_that_compiled_itself_again_is_said_with_the_range_of_the_engine(lines):
    facts = outside_facts(("x", 0, 5, 3, 3))
    (line,) = lines(compilation=facts)
    assert line == "compiled again: dimension 0 of x is 5, but the engine was built for 3 only"


def test_lists_of_different_lengths_or_of_texts_say_nothing(lines):
    name, facts = outside(("x", 0, 9, 1, 8))
    assert lines((name, {**facts, s.OUTSIDE_SIZES: [1, 2]}), (name, {**facts, s.OUTSIDE_AXES: ["0"]})) == []


def test_without_such_events_nothing_is_said(lines):
    assert lines() == []
