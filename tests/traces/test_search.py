# SPDX-License-Identifier: Apache-2.0
"""Questions about the spans of a file by name."""

import io
import json

import pytest

from torchspan import traces

TRACE = "ab" * 16


def file(*spans):
    """A file with spans, each given by its name, its parent's name, and its start and end in nanoseconds."""
    ids = {name: f"{number:016x}" for number, (name, *_) in enumerate(spans, start=1)}
    written = [
        {
            "traceId": TRACE,
            "spanId": f"{number:016x}",
            "parentSpanId": ids.get(parent, ""),
            "name": name,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
        }
        for number, (name, parent, start, end) in enumerate(spans, start=1)
    ]
    request = {"resourceSpans": [{"scopeSpans": [{"spans": written}]}]}
    return traces.read(io.BytesIO(json.dumps(request).encode()))


COMPILATION = file(
    ("compile", None, 1_000, 9_000),
    ("lower", "compile", 2_000, 3_000),
    ("build", "compile", 4_000, 8_000),
    ("phase", "build", 5_000, 7_000),
)


def named(spans):
    return [each.name for each in spans]


def test_the_only_span_of_a_name_is_found():
    assert COMPILATION.one("build").start_ns == 4_000


def test_every_span_of_a_name_is_found_in_the_order_of_the_tree():
    found = file(("step", None, 5, 6), ("step", None, 1, 2)).find("step")
    assert [each.start_ns for each in found] == [1, 5]


def test_a_name_that_no_span_has_finds_nothing():
    assert COMPILATION.find("buil") == []


def test_one_span_of_an_unknown_name_is_an_error_that_says_which_was_meant():
    with pytest.raises(traces.SpanNotFoundError) as raised:
        COMPILATION.one("buil")
    assert str(raised.value) == (
        "No span is named 'buil'. Did you mean 'build'? There are: build, compile, lower, phase."
    )


def test_one_span_among_several_is_an_error_that_names_find():
    with pytest.raises(
        traces.SpanNotFoundError, match=r"^2 spans are named 'a', but one\(\) expects exactly one. Use find\(\)"
    ):
        file(("a", None, 1, 2), ("a", None, 3, 4)).one("a")


def test_one_span_of_an_empty_file_is_an_error_that_names_it():
    with pytest.raises(LookupError, match="there are no spans at all"):
        file().one("a")


def test_an_error_lists_twenty_names_and_counts_the_others():
    with pytest.raises(traces.SpanNotFoundError, match=r"There are: .* and 5 more\.$"):
        file(*((f"{number:02}", None, 1, 2) for number in range(25))).one("none")


def test_below_a_span_is_everything_inside_it_without_itself():
    assert named(COMPILATION.below(COMPILATION.one("compile"))) == ["lower", "build", "phase"]
    assert COMPILATION.below(COMPILATION.one("phase")) == []


def test_a_span_of_another_file_is_refused():
    other = file(("compile", None, 1, 2)).one("compile")
    with pytest.raises(traces.SpanNotFoundError, match=r"'compile' is not a span of this trace\. Pass a span that its"):
        COMPILATION.below(other)


def test_the_time_of_a_span_itself_is_without_that_of_its_children():
    assert [COMPILATION.self_time(COMPILATION.one(name)) for name in ("compile", "build", "phase")] == [
        3_000,
        2_000,
        2_000,
    ]


def test_an_outline_is_the_indented_names():
    assert COMPILATION.outline() == "compile\n  lower\n  build\n    phase"


def test_a_trace_whose_spans_nest_ten_thousand_deep_has_an_outline():
    deep = file(
        *((f"{depth}", None if depth == 0 else f"{depth - 1}", depth, 30_000 - depth) for depth in range(10_000))
    )
    assert deep.outline().count("\n") == 9_999
    assert len(deep.below(deep.one("0"))) == 9_999


def test_a_file_a_trace_and_a_node_are_printed_in_one_line():
    (trace,) = COMPILATION.traces
    assert [repr(thing) for thing in (COMPILATION, trace, trace.roots[0])] == [
        "<TraceFile of 4 spans>",
        f"<Trace {TRACE} of 4 spans>",
        "<Node of 'compile' with 2 children>",
    ]


def test_finding_a_span_does_not_look_at_the_others(monkeypatch):
    spans = COMPILATION.find("phase")
    COMPILATION.self_time(spans[0])  # what is found is known from now on
    monkeypatch.setattr(traces.Trace, "nodes", None)
    assert COMPILATION.self_time(spans[0]) == 2_000
