# SPDX-License-Identifier: Apache-2.0
"""While the bridge is enabled: each call of an observed function is a span, as far as there is room."""

import asyncio
import contextvars
import gc
import sys
import threading

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.trace import StatusCode

from support.tree import S, assert_times_nest, assert_trees, named, outline, trees
from torchspan.callbacks import RecordFunctionCallback, add_global_callback
from torchspan.observers import ErrorPolicy, observable, observe_function

HERE = __name__


@observable()
def leaf(value=None):
    if isinstance(value, BaseException):
        raise value
    return value


@observable()
def branch(value=None):
    leaf()
    return leaf(value)


@observable()
async def serve(turns):
    for _ in range(turns):
        await asyncio.sleep(0)
        leaf()
    return turns


@observable()
def steps(count):
    for index in range(count):
        leaf()
        yield index


@observable()
async def async_steps(count):
    for index in range(count):
        await asyncio.sleep(0)
        leaf()
        yield index


@pytest.fixture
def spans(exporter):
    return exporter.get_finished_spans


def called(name, *children, **attributes):
    """A span of an observed function of this file."""
    return S(f"torchspan.observed {name}", {"code.function.name": f"{HERE}.{name}", **attributes}, *children)


# --- spans ----------------------------------------------------------------------------------------------------
def test_a_call_is_a_span_below_the_current_one(instrument, tracer, spans):
    instrument()
    with tracer.start_as_current_span("request"):
        assert leaf("result") == "result"
    assert_trees(spans(), [S("request", {}, called("leaf"))])
    assert spans()[0].status.status_code is StatusCode.UNSET


def test_calls_inside_a_call_are_below_its_span(instrument, tracer, spans):
    instrument()
    with tracer.start_as_current_span("request"):
        branch()
    assert_trees(spans(), [S("request", {}, called("branch", called("leaf"), called("leaf")))])
    assert_times_nest(spans())


def test_the_users_own_spans_inside_a_call_are_below_its_span(instrument, tracer, spans):
    instrument()

    @observable()
    def observed():
        with tracer.start_as_current_span("the user's"):
            leaf()

    observed()
    (root,) = trees(spans())
    assert [line.split()[-1].rpartition(".")[2] for line in root.lines()] == ["observed", "user's", "leaf"]
    assert [len(line) - len(line.lstrip()) for line in root.lines()] == [0, 2, 4]


def test_a_method_is_named_with_its_class_and_another_packages_function_after_its_module(instrument, tracer, spans):
    instrument()

    class Engine:
        @observable()
        def warm_up(self):
            pass

    with tracer.start_as_current_span("request"), observe_function("textwrap:dedent"):
        import textwrap

        Engine().warm_up()
        textwrap.dedent("text")
    first, second, _ = spans()
    assert first.name.endswith("<locals>.Engine.warm_up")
    assert second.name == "torchspan.observed dedent"
    assert second.attributes["code.function.name"] == "textwrap.dedent"


def test_a_call_that_raises_is_an_error_with_one_event_at_the_innermost(instrument, tracer, spans):
    instrument()
    failure = KeyError("the program's")
    with tracer.start_as_current_span("request"), pytest.raises(KeyError) as raised:
        branch(failure)
    assert raised.value is failure
    quiet, failed, around, _ = spans()
    assert quiet.status.status_code is StatusCode.UNSET
    assert [each.status.status_code for each in (failed, around)] == [StatusCode.ERROR] * 2
    assert [each.attributes["error.type"] for each in (failed, around)] == ["KeyError"] * 2
    assert [[event.name for event in each.events] for each in (failed, around)] == [["exception"], []]
    assert failed.events[0].attributes["code.function.name"] == f"{HERE}.leaf"


def test_the_place_of_what_a_function_of_c_raises_is_the_line_that_called_it(instrument, spans):
    instrument()
    with observe_function("math:sqrt"):
        import math

        with pytest.raises(ValueError, match=r"math domain error|nonnegative input"):
            math.sqrt(-1.0)
    (span,) = spans()
    here, place = sys._getframe().f_code, span.events[0].attributes
    assert place["code.function.name"] == f"{HERE}.{here.co_name}"
    assert place["code.line.number"] == here.co_firstlineno + 6


def test_a_cause_with_other_arguments_is_not_taken_for_the_exception(instrument, spans):
    instrument()

    @observable()
    def converted():
        try:
            leaf(KeyError("inner"))
        except KeyError as error:
            raise ValueError("outer") from error

    with pytest.raises(ValueError, match="outer"):
        converted()
    place = next(event for span in spans() if "converted" in span.name for event in span.events).attributes
    assert (place["exception.type"], place["code.function.name"].rpartition(".")[2]) == ("ValueError", "converted")


def test_an_exception_that_was_handled_inside_is_not_that_of_the_outer_call(instrument, tracer, spans):
    instrument()

    @observable()
    def outer():
        with pytest.raises(KeyError):
            leaf(KeyError("handled"))
        raise ValueError("the outer's")

    with tracer.start_as_current_span("request"), pytest.raises(ValueError):
        outer()
    assert [[event.attributes["exception.type"] for event in each.events] for each in spans()[:2]] == [
        ["KeyError"],
        ["ValueError"],
    ]


def test_callbacks_run_inside_the_span_and_without_spans_of_their_own(instrument, tracer, spans):
    instrument()
    current = []

    def callback(_call):
        current.append(trace.get_current_span().name)
        leaf()

    with branch.observers.pre.add(callback), branch.observers.post.add(callback):
        with tracer.start_as_current_span("request"):
            branch()
    assert current == ["torchspan.observed branch"] * 2
    assert_trees(spans(), [S("request", {}, called("branch", called("leaf"), called("leaf")))])


def test_what_a_policy_rethrows_before_the_call_ends_the_span_as_an_error(instrument, tracer, spans):
    instrument()
    with leaf.observers.pre.add(lambda _call: 1 / 0, policy=ErrorPolicy(rethrow=True)):
        with tracer.start_as_current_span("request"), pytest.raises(ZeroDivisionError):
            leaf()
    assert named(spans(), "torchspan.observed leaf").status.status_code is StatusCode.ERROR


def test_callbacks_of_phases_receive_the_calls_too(instrument, tracer, seen):
    from torchspan import phase

    instrument()
    add_global_callback(
        RecordFunctionCallback(lambda record: seen.append((record.name, record.inputs)), scopes={phase.OBSERVED})
    )
    with tracer.start_as_current_span("request"):
        leaf(1)
    assert [name for name, _ in seen] == ["torchspan.observed leaf"]


# --- threads, coroutines, generators --------------------------------------------------------------------------
def test_in_a_thread_the_parent_is_the_span_that_it_was_started_in(instrument, tracer, spans):
    instrument()

    def work():
        thread = threading.Thread(target=branch)
        thread.start()
        thread.join()

    with tracer.start_as_current_span("request"):
        observable()(work)()
    tree = outline(spans())[0].splitlines()
    assert [line.rpartition(" ")[2].rpartition(".")[2] for line in tree] == [
        "request",
        "work",
        "branch",
        "leaf",
        "leaf",
    ]
    assert [len(line) - len(line.lstrip()) for line in tree] == [0, 2, 4, 6, 6]


def test_coroutines_that_take_turns_have_each_their_own_calls_below_them(instrument, tracer, spans):
    instrument()

    async def main():
        await asyncio.gather(serve(3), serve(1))
        leaf()

    with tracer.start_as_current_span("request"):
        asyncio.run(main())
    three, one = called("serve", called("leaf"), called("leaf"), called("leaf")), called("serve", called("leaf"))
    assert_trees(spans(), [S("request", {}, three, one, called("leaf"))])


def test_a_coroutine_that_awaits_another_is_around_it(instrument, tracer, spans):
    instrument()

    @observable()
    async def outer():
        await serve(1)
        leaf()

    with tracer.start_as_current_span("request"):
        asyncio.run(outer())
    assert [line.strip().rpartition(" ")[2].rpartition(".")[2] for line in outline(spans())[0].splitlines()] == [
        "request",
        "outer",
        "serve",
        "leaf",
        "leaf",
    ]


def test_a_coroutine_that_ends_in_another_context_leaves_what_is_current_there(instrument, tracer, spans, caplog):
    # As when a task that was forgotten is collected while something else runs.
    instrument()
    forgotten = serve(1)
    contextvars.Context().run(forgotten.send, None)

    @observable()
    def other():
        nonlocal forgotten
        forgotten.close()
        leaf()

    with tracer.start_as_current_span("request"):
        other()
        assert trace.get_current_span().name == "request"
        leaf()
    assert [len(line) - len(line.lstrip()) for line in outline(spans())[1].splitlines()] == [0, 2, 4, 2]
    assert outline(spans())[0] == "torchspan.observed serve"
    assert [each.getMessage() for each in caplog.records] == []


def test_the_span_of_a_generator_is_nobodys_current_span(instrument, tracer, spans):
    instrument()
    with tracer.start_as_current_span("request"):
        for _ in steps(2):
            assert trace.get_current_span().name == "request"
            branch()
    step = called("leaf"), called("branch", called("leaf"), called("leaf"))
    assert_trees(spans(), [S("request", {}, called("steps"), *step, *step)])
    generator = named(spans(), "torchspan.observed steps")
    assert all(each.end_time <= generator.end_time for each in spans() if each.name != "request")


def test_so_is_that_of_an_async_generator(instrument, tracer, spans):
    instrument()

    async def main():
        async for _ in async_steps(2):
            assert trace.get_current_span().name == "request"

    with tracer.start_as_current_span("request"):
        asyncio.run(main())
    assert_trees(spans(), [S("request", {}, called("async_steps"), called("leaf"), called("leaf"))])


def test_a_generator_that_is_dropped_ends_its_span_without_an_error(instrument, tracer, spans):
    instrument()
    with tracer.start_as_current_span("request"):
        started = steps(2)
        next(started)
        del started
        gc.collect()
    assert named(spans(), "torchspan.observed steps").status.status_code is StatusCode.UNSET
    assert_trees(spans(), [S("request", {}, called("steps"), called("leaf"))])


# --- when there are none --------------------------------------------------------------------------------------
def test_without_the_bridge_there_are_no_spans_and_callbacks_are_called(tracer, spans, note, seen):
    with tracer.start_as_current_span("request"), leaf.observers.pre.add(lambda call: seen.append(call.args)):
        leaf(1)
    assert seen == [(1,)]
    assert outline(spans()) == ["request"]


def test_disabled_again_there_are_none_either(instrument, tracer, spans, seen):
    instrument().uninstrument()
    with tracer.start_as_current_span("request"), leaf.observers.pre.add(lambda call: seen.append(call.args)):
        leaf(1)
    assert seen == [(1,)]
    assert outline(spans()) == ["request"]


def test_disabled_during_a_call_its_span_ends(instrument, spans):
    instrumentor = instrument()
    observable()(lambda: instrumentor.uninstrument())()
    assert [each.name.rpartition(".")[2] for each in spans()] == ["<lambda>"]


def test_where_instrumentation_is_suppressed_there_are_none(instrument, tracer, spans, seen):
    instrument()
    with tracer.start_as_current_span("request"), suppress_instrumentation():
        with leaf.observers.pre.add(lambda call: seen.append(call.args)):
            leaf(1)
    assert seen == [(1,)]
    assert outline(spans()) == ["request"]
