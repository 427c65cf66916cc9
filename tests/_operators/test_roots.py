# SPDX-License-Identifier: Apache-2.0
"""Which work PyTorch's operators are recorded below: `TORCHSPAN_OPERATORS`, sampling, and threads."""

import threading
from types import SimpleNamespace

import pytest
import torch
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, Sampler, SamplingResult

import torchspan
from support.operators import BLOCK, children, names, operators, recording, table
from torchspan.hooks.operators import OperatorRoots
from torchspan.observers import observable
from torchspan.start import instrumentor

ONES = torch.ones(4, 4)
pytestmark = pytest.mark.usefixtures("native_library")


@observable()
def predict(x):
    return x.sin()


@observable()
def normalize(x):
    return torch.nn.functional.linear(x, x)


@observable()
def outer(x):
    return predict(x.cos())


class Refusing(Sampler):
    """Drops spans by their names."""

    def __init__(self, *refused):
        self.refused = refused

    def should_sample(self, parent_context, trace_id, name, *args, **kwargs):
        return SamplingResult(Decision.DROP if name in self.refused else Decision.RECORD_AND_SAMPLE)

    def get_description(self):
        return "Refusing"


@pytest.fixture
def calls(monkeypatch, native_library):
    """What the bridge asks the library for, by name, with the numbers of roots."""
    calls = []

    def begin(*arguments):
        number = native_library.begin(*arguments)
        calls.append(("begin", number))
        return number

    def noting(name):
        def note(number, *arguments):
            calls.append((name, number))
            return getattr(native_library, name)(number, *arguments)

        return note

    spied = {name: getattr(native_library, name) for name in dir(native_library) if not name.startswith("_")}
    spied |= {"begin": begin, "end": noting("end"), "finish": noting("finish")}
    monkeypatch.setattr("torchspan.hooks.native.library", lambda: SimpleNamespace(**spied))
    return calls


def request(name="request"):
    return instrumentor.tracer_provider().get_tracer("user").start_as_current_span(name)


# --- the setting --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["off", "sampled", "on"])
def test_below_an_observed_function_operators_are_recorded_unless_the_setting_is_off(mode):
    with recording(operators=mode) as trace, request():
        predict(ONES)
    observed = trace.one("torchspan.observed predict")
    assert table(observed) == ({} if mode == "off" else {"aten.sin": 1})
    assert children(trace, observed) == ([] if mode == "off" else ["aten.sin"])


def test_the_environment_variable_sets_the_mode(monkeypatch):
    monkeypatch.setenv("TORCHSPAN_OPERATORS", "on")
    with recording() as trace, request():
        predict(ONES)
    assert table(trace.one("torchspan.observed predict")) == {"aten.sin": 1}


@pytest.mark.parametrize("mode", ["off", "sampled", "on"])
def test_operators_between_roots_are_not_recorded(mode, calls):
    with recording(operators=mode) as trace, request():
        ONES.cos()
        predict(ONES)
        ONES.cos()
    assert "torch.operators.names" not in trace.one("request").attributes
    assert [span.attributes["torch.operator.name"] for span in operators(trace)] == (
        [] if mode == "off" else ["aten.sin"]
    )


@pytest.mark.parametrize("mode", ["off", "sampled", "on"])
def test_a_block_is_a_root_in_each_mode(mode):
    with recording(operators=mode) as trace, torchspan.operators(depth=1):
        ONES.sin()
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}


def test_a_root_of_the_setting_has_two_levels_and_no_shapes():
    with recording(operators="on") as trace:
        normalize(ONES)
    observed = trace.one("torchspan.observed normalize")
    assert observed.attributes["torch.operators.depth"] == 2
    assert table(observed) == {"aten.linear": 1, "aten.t": 1, "aten.matmul": 1}
    assert not any("torch.inputs.shapes" in span.attributes for span in operators(trace))


def test_an_observed_function_inside_another_takes_the_operators_that_it_runs():
    with recording(operators="on") as trace:
        outer(ONES)
    assert table(trace.one("torchspan.observed outer")) == {"aten.cos": 1}
    assert table(trace.one("torchspan.observed predict")) == {"aten.sin": 1}


# --- sampling -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["sampled", "on"])
@pytest.mark.parametrize("refused", [("request", "torchspan.observed predict"), ("torchspan.observed predict",)])
def test_below_a_span_that_is_not_sampled_nothing_is_begun(mode, refused, calls):
    with recording(sampler=Refusing(*refused), operators=mode) as trace, request():
        assert torch.equal(predict(ONES), ONES.sin())
    assert calls == []
    assert operators(trace) == []


def test_a_function_that_is_sampled_in_a_request_that_is_not_is_a_root_of_on_alone(calls):
    for mode in ("sampled", "on"):
        with recording(sampler=Refusing("request"), operators=mode) as trace, request():
            predict(ONES)
        assert [name for name, _ in calls] == ([] if mode == "sampled" else ["begin", "end", "end", "finish"])
        assert names(operators(trace)) == ([] if mode == "sampled" else ["aten.sin"])


def test_a_block_that_the_sampler_refuses_begins_nothing(calls):
    with recording(sampler=ALWAYS_OFF) as trace, torchspan.operators():
        assert torch.equal(ONES.relu(), ONES)
    assert calls == []
    assert trace.traces == []


def test_each_root_that_is_begun_is_ended_and_finished_once(calls):
    with recording(sampler=ALWAYS_ON, operators="on"), torchspan.operators():
        predict(ONES)
        with pytest.raises(ZeroDivisionError), torchspan.operators():
            raise ZeroDivisionError
    begun = [number for name, number in calls if name == "begin"]
    assert len(set(begun)) == 3
    assert sorted(number for name, number in calls if name == "finish") == sorted(begun)
    assert {number for name, number in calls if name == "end"} == set(begun)


def test_uninstrument_inside_a_block_ends_its_root_at_the_end_of_the_block(calls):
    with recording() as trace, torchspan.operators(depth=1):
        ONES.sin()
        torchspan.uninstrument()
        assert torch.equal(ONES.relu(), ONES)
    begun = [number for name, number in calls if name == "begin"]
    assert len(begun) == 1
    assert ("end", begun[0]) in calls
    assert ("finish", begun[0]) in calls
    assert {"aten.sin"} <= set(table(trace.one(BLOCK)))


def test_a_block_after_instrumenting_again_records_its_own_operators():
    with recording(), torchspan.operators(depth=1):
        torchspan.uninstrument()
    with recording() as trace, torchspan.operators(depth=1):
        ONES.sin()
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}


def test_after_a_root_operators_belong_to_no_one(native_library):
    with recording() as trace:
        with torchspan.operators(depth=1):
            ONES.sin()
        for _ in range(100):
            ONES.cos()
        late = native_library.counts()["late"]
        with torchspan.operators(depth=1):
            ONES.tan()
    assert [table(span) for span in trace.find(BLOCK)] == [{"aten.sin": 1}, {"aten.tan": 1}]
    assert native_library.counts()["late"] == late


# --- threads ------------------------------------------------------------------------------------------------------------
def test_each_thread_records_its_own_operators_below_its_own_root():
    functions = [torch.sin, torch.cos, torch.tan, torch.exp, torch.log1p, torch.tanh, torch.abs, torch.neg]
    barrier = threading.Barrier(8)

    def work(function):
        barrier.wait(60)
        for _ in range(5):
            with torchspan.operators(depth=1, min_duration=0):
                for _ in range(20):
                    function(ONES)

    with recording() as trace:
        threads = [threading.Thread(target=work, args=(function,)) for function in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    tables = sorted(tuple(table(span).items()) for span in trace.find(BLOCK))
    assert tables == sorted(((f"aten.{function.__name__}", 20),) for function in functions for _ in range(5))
    for span in trace.find(BLOCK):
        assert children(trace, span) == [*table(span)] * 20
    assert len({span.span_id for span in operators(trace)}) == 8 * 5 * 20


def test_a_thread_that_the_block_starts_records_nothing_of_its_own():
    with recording() as trace, torchspan.operators(depth=1):
        thread = threading.Thread(target=ONES.cos)
        thread.start()
        thread.join()
        ONES.sin()
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:FutureWarning")
def test_a_forked_function_of_torchscript_belongs_to_the_root_and_says_its_thread():
    @torch.jit.script
    def forked(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @torch.jit.script
    def fork(x: torch.Tensor) -> torch.Tensor:
        future = torch.jit.fork(forked, x)
        here = x.cos()
        return here + torch.jit.wait(future)

    fork(ONES)  # compiled before
    with recording() as trace, torchspan.operators(depth=20, min_duration=0):
        result = fork(ONES)
    assert torch.equal(result, ONES.sin() + ONES.cos())
    counted = table(trace.one(BLOCK))
    assert (counted["aten.sin"], counted["aten.cos"], counted["aten.add.Tensor"]) == (1, 1, 1)
    by_name = {span.attributes["torch.operator.name"]: span.attributes for span in operators(trace)}
    assert by_name["aten.sin"]["thread.id"] != threading.get_ident()
    assert "thread.id" not in by_name["aten.cos"]


# --- autograd -----------------------------------------------------------------------------------------------------------
def links(trace):
    """The names of linked spans, by the names of those that link to them."""
    spans = {(span.trace_id, span.span_id): span.attributes["torch.operator.name"] for span in operators(trace)}
    return {
        span.attributes["torch.operator.name"]: [spans[link.trace_id, link.span_id] for link in span.links]
        for span in operators(trace)
        if span.links
    }


BACKWARD = {
    "ReluBackward0": ["aten.relu"],
    "MulBackward0": ["aten.mul.Tensor"],
    "SumBackward0": ["aten.sum"],
}


def loss(x):
    return (x.relu() * 3).sum()


def test_backward_functions_are_linked_to_the_operators_of_the_forward_pass():
    x = ONES.clone().requires_grad_()
    with recording() as trace, torchspan.operators(min_duration=0):
        loss(x).backward()
    assert links(trace) == BACKWARD
    assert torch.equal(x.grad, torch.full((4, 4), 3.0))
    scopes = {
        span.attributes["torch.operator.name"]: span.attributes.get("torch.operator.scope") for span in operators(trace)
    }
    assert scopes["ReluBackward0"] == "backward_function"
    assert scopes["autograd.engine.evaluate_function.ReluBackward0"] is None


def test_backward_functions_are_below_their_evaluation_by_the_engine():
    x = ONES.clone().requires_grad_()
    with recording() as trace, torchspan.operators(min_duration=0):
        loss(x).backward()
    spans = {span.span_id: span for span in operators(trace)}
    (backward,) = [span for span in operators(trace) if span.attributes["torch.operator.name"] == "MulBackward0"]
    around = spans[backward.parent_id]
    assert around.attributes["torch.operator.name"] == "autograd.engine.evaluate_function.MulBackward0"
    assert around.parent_id == trace.one(BLOCK).span_id


def test_a_backward_pass_in_another_trace_links_to_the_trace_of_its_forward_pass():
    x = ONES.clone().requires_grad_()
    with recording() as trace:
        with torchspan.operators(min_duration=0):
            forward = loss(x)
        with torchspan.operators(min_duration=0):
            forward.backward()
    first, second = sorted(trace.find(BLOCK), key=lambda span: span.start_ns)
    assert first.trace_id != second.trace_id
    assert links(trace) == BACKWARD
    linking = [span for span in operators(trace) if span.links]
    assert {span.trace_id for span in linking} == {second.trace_id}
    assert {link.trace_id for span in linking for link in span.links} == {first.trace_id}
    assert not any("Backward" in name for name in table(first))


def test_a_backward_pass_in_another_thread_links_as_well():
    x = ONES.clone().requires_grad_()

    def backward():
        with torchspan.operators(min_duration=0):
            forward.backward()

    with recording() as trace:
        with torchspan.operators(min_duration=0):
            forward = loss(x)
        thread = threading.Thread(target=backward)
        thread.start()
        thread.join()
    assert links(trace) == BACKWARD


def test_a_forward_operator_without_a_span_is_not_linked_to():
    x = ONES.clone().requires_grad_()
    with recording() as trace:
        with torchspan.operators(min_duration=3600):
            forward = loss(x)
        with torchspan.operators(min_duration=0):
            forward.backward()
    assert links(trace) == {}


def test_a_backward_pass_outside_the_block_is_not_recorded():
    x = ONES.clone().requires_grad_()
    with recording() as trace:
        with torchspan.operators(min_duration=0):
            forward = loss(x)
        forward.backward()
    assert "aten.relu" in table(trace.one(BLOCK))
    assert not any("Backward" in name for name in table(trace.one(BLOCK)))


class Reentrant(torch.autograd.Function):
    """Calls autograd's engine inside its backward pass, which continues on other threads at some depth."""

    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.depth:
            with torch.enable_grad():
                x = torch.ones(1, requires_grad=True)
                Reentrant.apply(x, ctx.depth - 1).sum().backward()
        return gradient, None


def test_operators_on_threads_of_autograd_belong_to_the_root_and_say_their_thread():
    x = torch.ones(1, requires_grad=True)
    with recording() as trace, torchspan.operators(depth=255, min_duration=0):
        Reentrant.apply(x, 70).sum().backward()
    assert trace.one(BLOCK).attributes["torch.operators.count"] > 70
    elsewhere = {span.attributes["thread.id"] for span in operators(trace) if "thread.id" in span.attributes}
    assert elsewhere
    assert threading.get_ident() not in elsewhere
    assert {span.trace_id for span in operators(trace)} == {trace.one(BLOCK).trace_id}


def test_operators_that_an_earlier_instrumentation_lost_are_not_counted_again():
    counts = {"ring": 5, "late": 2}
    roots = OperatorRoots(lambda: SimpleNamespace(counts=counts.copy), "on", "none")
    assert roots.lost("ring") == 0
    roots.prepare()
    assert (roots.lost("ring"), roots.lost("late")) == (0, 0)
    counts["ring"] += 3
    assert (roots.lost("ring"), roots.lost("late")) == (3, 0)
    counts.update(ring=1, late=0)  # in a forked child
    assert roots.lost("ring") == 0
