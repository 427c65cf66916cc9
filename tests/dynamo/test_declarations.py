# SPDX-License-Identifier: Apache-2.0
"""What the program declares with torch.compiler's fine-grained APIs, on the span of the frame that meets it."""

from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.decorators import leaf_function

from torchspan.hooks.probes.describe import declarations
from torchspan.hooks.probes.describe.declarations import Declaration

pytestmark = pytest.mark.slow

ONES = torch.ones(3)
REASON = "unsupported operator of ulterior"
"""A reason of the program's: the first three words are PyTorch's as well."""


@torch.compiler.disable(reason=REASON)
def disabled(x):
    return x + 1


@torch.compiler.disable(recursive=False)
def disabled_here_alone(x):
    return x + 1


@torch.compiler.allow_in_graph
def allowed(x):
    return x * 2


@torch._dynamo.nonstrict_trace
def traced(x):
    return x * 2


@leaf_function
def leaf(x):
    return (x * 2,)


@leaf.register_fake
def _(x):
    return (x,)


class HasDisabled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.compiler.disable(torch.nn.ReLU())

    def forward(self, x):
        return self.inner(x) * 2


def breaks(x):
    y = x + 1
    torch._dynamo.graph_break("unsupported operator of ulterior")
    return y * 2


def breaks_without_a_reason(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def skips(x):
    y = x + 1
    torch._dynamo.skip_frame(msg=REASON)
    return y * 2


def run(function, *args, backend="eager"):
    torch.compile(function, backend=backend)(*args or (ONES,))


def line_of(function, text):
    """The number of the line in the function that has the text."""
    first = function.__code__.co_firstlineno
    with open(__file__, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return next(number for number, line in enumerate(lines, 1) if number > first and text in line)


def declared(spans, event="torch.compile.graph_break"):
    """The declarations on the first frame, by the last part of their keys."""
    (found, *_) = spans("torch.compile_frame")
    prefix = "torch.compile.declaration."
    return [
        {key.removeprefix(prefix): value for key, value in each.attributes.items() if key.startswith(prefix)}
        for each in found.events
        if each.name == event
    ]


# --- regions that are left out ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            lambda x: disabled(x) * 2,
            {"api": "torch.compiler.disable", "function": "disabled", "reason": REASON},
        ),
        (lambda x: disabled_here_alone(x) * 2, {"api": "torch.compiler.disable", "function": "disabled_here_alone"}),
        (HasDisabled(), {"api": "torch.compiler.disable"}),
        (breaks, {"api": "torch._dynamo.graph_break", "reason": REASON}),
        (breaks_without_a_reason, {"api": "torch._dynamo.graph_break"}),
        (skips, {"api": "torch._dynamo.skip_frame", "reason": REASON}),
    ],
    ids=["disable", "disable here alone", "disabled module", "graph_break", "without a reason", "skip_frame"],
)
def test_a_region_that_is_left_out_says_which_api_where_and_with_capture_text_why(
    instrument, spans, exporter, function, expected
):
    run(function)
    assert declared(spans) == [{key: value for key, value in expected.items() if key != "reason"}]
    exporter.clear()
    torch.compiler.reset()
    instrument(capture="text")
    run(function)
    assert declared(spans) == [expected]


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")
def test_a_function_that_was_disallowed_is_distinguished_from_one_that_dynamo_does_not_know(spans):
    torch._dynamo.disallow_in_graph(torch.sin)
    try:
        run(lambda x: torch.sin(x) * 2)
    finally:
        torch._dynamo.allow_in_graph(torch.sin)
    (made, *_) = spans("torch.compile_frame")
    (event,) = made.events
    assert declared(spans) == [{"api": "torch._dynamo.disallow_in_graph", "function": "torch.sin"}]
    assert event.attributes["torch.compile.graph_break.class"] == "requested"


def test_a_break_that_was_suffered_has_no_declaration(spans):
    def prints(x):
        y = x + 1
        print(end="")
        return y * 2

    run(prints)
    assert declared(spans) == [{}]


# --- regions that are kept -------------------------------------------------------------------------------------------
def kept(x):
    return leaf(traced(allowed(x)))[0]


def test_black_boxes_in_the_graph_are_events_with_the_line_that_calls_them(spans):
    run(kept)
    (made,) = spans("torch.compile_frame")
    where = {
        "code.file.path": "dynamo/test_declarations.py",
        "code.line.number": line_of(kept, "return leaf"),
        "code.function.name": "kept",
    }
    assert [dict(each.attributes) for each in made.events if each.name == "torch.compile.declaration"] == [
        {
            "torch.compile.declaration.api": "torch.compiler.allow_in_graph",
            "torch.compile.declaration.function": "allowed",
            **where,
        },
        {"torch.compile.declaration.api": "torch.compiler.nonstrict_trace", **where},
        {"torch.compile.declaration.api": "torch._dynamo.decorators.leaf_function", **where},
    ]


def test_a_black_box_that_is_called_twice_on_a_line_is_one_event(spans):
    run(lambda x: allowed(x) + allowed(x))
    assert declared(spans, "torch.compile.declaration") == [
        {"api": "torch.compiler.allow_in_graph", "function": "allowed"}
    ]


def test_a_graph_without_black_boxes_has_no_such_event(spans):
    run(lambda x: x + 1)
    assert declared(spans, "torch.compile.declaration") == []


class Hostile:
    """A callable whose every question raises."""

    def __call__(self, x):
        return x

    def __getattribute__(self, name):
        raise AssertionError(name)

    def __eq__(self, other):
        raise AssertionError("compared")

    __hash__ = object.__hash__  # torch.fx needs it


def test_what_stands_in_a_graph_is_asked_for_nothing(monkeypatch):
    graph = torch.fx.Graph()
    node = graph.call_function(torch.relu, (graph.placeholder("x"),))
    vars(node)["meta"] = {"stack_trace": Hostile()}
    hostile = Hostile()
    node.target = hostile
    holder = SimpleNamespace(_graph=graph)
    assert declarations.kept(holder) == []
    monkeypatch.setattr(torch._dynamo.trace_rules._allowed_callable_ids, "function_ids", {id(hostile)})
    assert declarations.kept(holder) == [Declaration("torch.compiler.allow_in_graph", "Hostile")]


# --- the stance ------------------------------------------------------------------------------------------------------
def test_another_stance_than_the_default_is_on_the_frame(spans):
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with torch.compiler.set_stance("eager_then_compile"):
        compiled(ONES)
        compiled(torch.ones(4))
    run(lambda x: x + 2)
    first, second = spans("torch.compile_frame")
    assert first.attributes["torch.compile.stance"] == "eager_then_compile"
    assert "torch.compile.stance" not in second.attributes


# --- the texts -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "",
        "torch.compiler.disable",
        "Call to `torch._dynamo.graph_break()` of alice",
        "Attempted to call function marked as skipped",
        "Attempted to call function marked as skipped\n  Developer debug context: module: torch, qualname: sin, skip reason: x",
        "Attempted to call function marked as skipped\n  Developer debug context: module: no.such, qualname: a.b, skip reason: x",
        "Data-dependent branching\n  Explanation: User-inserted graph break. Message: of a fake",
    ],
)
def test_a_text_that_names_no_declaration_is_none(text):
    assert declarations.of_break(text) is None


def test_a_reason_of_any_length_is_read_for_a_bounded_part():
    text = (
        "Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break. Message: " + "x" * 1_000_000
    )
    found = declarations.of_break(text)
    assert found == Declaration("torch._dynamo.graph_break", reason=found.reason)
    assert len(found.reason) < 2_000
