# SPDX-License-Identifier: Apache-2.0
import asyncio
import functools
import gc
import inspect
import pickle
import sys
import threading
import traceback
import types
import warnings
import weakref
from concurrent.futures import Future

import pytest

from torchspan import callbacks
from torchspan.callbacks import (
    RecordFunction,
    RecordFunctionCallback,
    RecordScope,
    add_global_callback,
    record_function,
)


class Thing:
    """Something that can be referred to weakly."""


@record_function("function")
def function(a, b=2, *rest, key=None):
    """What it does."""
    return a


class Methods:
    @record_function("method")
    def method(self, value):
        return self, value

    @record_function("static")
    @staticmethod
    def static(value):
        return value

    @record_function("class")
    @classmethod
    def of_class(cls, value):
        return cls, value

    @property
    @record_function("property")
    def attribute(self):
        return "value"


@record_function("coroutine")
async def coroutine(value):
    await asyncio.sleep(0)
    return value


@record_function("generator")
def generator(count):
    received = []
    for index in range(count):
        received.append((yield index))
    return received


@record_function("async generator")
async def async_generator(count):
    for index in range(count):
        await asyncio.sleep(0)
        yield index


OWN = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 makes by a flag what later ones make by the code"
)


def kind(function):
    """What frameworks ask before they call a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of asyncio's question, from Python 3.14 on
        return (
            inspect.iscoroutinefunction(function),
            inspect.isgeneratorfunction(function),
            inspect.isasyncgenfunction(function),
            asyncio.iscoroutinefunction(function),
        )


def every_event(seen, **settings):
    return add_global_callback(
        RecordFunctionCallback(
            lambda record: seen.append(f"start {record.name}"),
            lambda record, _context: seen.append(
                f"end {record.name}" + (f" {type(record.error).__name__}" if record.error else "")
            ),
            **settings,
        )
    )


# --- what is decorated stays what it was ----------------------------------------------------------------------
def test_a_decorated_function_keeps_name_signature_documentation_and_kind():
    assert function.__name__ == "function"
    assert function.__doc__ == "What it does."
    assert str(inspect.signature(function)) == "(a, b=2, *rest, key=None)"
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(async_generator)
    assert not inspect.iscoroutinefunction(function)
    assert pickle.loads(pickle.dumps(function)) is function


def test_attributes_of_the_function_are_kept_but_not_those_that_dynamo_puts_on_it():
    def original():
        """Marked."""

    original.mark = "mine"
    original._torchdynamo_disable = True
    original.get_compiler_config = print
    decorated = record_function("range")(original)
    assert decorated.mark == "mine"
    assert not hasattr(decorated, "_torchdynamo_disable")
    assert not hasattr(decorated, "get_compiler_config")
    assert vars(original).keys() == {"mark", "_torchdynamo_disable", "get_compiler_config"}


def test_a_class_is_refused():
    with pytest.raises(TypeError, match="decorate the methods of Thing"):
        record_function("class")(Thing)


@pytest.mark.parametrize("listening", [False, True])
def test_results_and_arguments_pass_through(listening, seen):
    if listening:
        every_event(seen)
    thing, methods = Thing(), Methods()
    assert function(thing) is thing
    assert function(thing, 3, 4, key=5) is thing
    assert methods.method(1) == (methods, 1)
    assert Methods.static(2) == methods.static(2) == 2
    assert Methods.of_class(3) == methods.of_class(3) == (Methods, 3)
    assert methods.attribute == "value"
    assert asyncio.run(coroutine(thing)) is thing
    assert len(seen) == (18 if listening else 0)


def test_a_wrong_call_raises_what_the_bare_function_raises(seen):
    with pytest.raises(TypeError) as bare:
        function.__wrapped__()
    every_event(seen)
    with pytest.raises(TypeError) as recorded:
        function()
    assert str(recorded.value) == str(bare.value)
    assert seen == ["start function", "end function TypeError"]


# --- kinds of functions ---------------------------------------------------------------------------------------
def test_a_coroutine_is_one_range_across_its_awaits(seen):
    every_event(seen)

    async def main():
        task = asyncio.create_task(coroutine(1))
        await asyncio.sleep(0)
        seen.append("meanwhile")
        return await task

    assert asyncio.run(main()) == 1
    assert seen == ["start coroutine", "meanwhile", "end coroutine"]


def test_canceling_a_coroutine_ends_its_range_and_passes(seen):
    every_event(seen)

    @record_function("waits")
    async def waits():
        await asyncio.sleep(3600)

    async def main():
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["start waits", "end waits CancelledError"]


def test_the_range_of_a_generator_is_from_its_first_step_to_its_end(seen):
    every_event(seen)
    steps = generator(2)
    assert seen == []
    assert next(steps) == 0
    seen.append("the consumer's")
    assert steps.send("sent") == 1
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == ["sent", None]
    assert seen == ["start generator", "the consumer's", "end generator"]


@pytest.mark.parametrize("listening", [False, True])
def test_what_is_thrown_into_a_generator_reaches_it(listening, seen):
    if listening:
        every_event(seen)

    @record_function("catches")
    def catches():
        try:
            yield 1
        except KeyError as error:
            yield error

    failure = KeyError("thrown in")
    steps = catches()
    next(steps)
    assert steps.throw(failure) is failure
    steps.close()
    assert seen == (["start catches", "end catches"] if listening else [])


@pytest.mark.parametrize("listening", [False, True])
def test_closing_a_generator_runs_its_cleanup_and_is_not_an_error(listening, seen):
    if listening:
        every_event(seen)

    @record_function("cleans up")
    def cleans_up():
        try:
            yield 1
        finally:
            seen.append("cleaned up")

    steps = cleans_up()
    next(steps)
    del steps
    gc.collect()
    assert seen == (["start cleans up", "cleaned up", "end cleans up"] if listening else ["cleaned up"])


def test_a_generator_that_raises_ends_its_range_with_the_error(seen):
    every_event(seen)

    @record_function("raises")
    def raises():
        yield 1
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        list(raises())
    assert seen == ["start raises", "end raises KeyError"]


@pytest.mark.parametrize("listening", [False, True])
def test_an_async_generator_yields_receives_and_closes_as_the_bare_one(listening, seen):
    if listening:
        every_event(seen)

    @record_function("async")
    async def echo():
        received = yield "first"
        try:
            yield received
        except KeyError as error:
            yield error
        finally:
            seen.append("cleaned up")

    async def main():
        steps = echo()
        assert await steps.__anext__() == "first"
        assert await steps.asend("sent") == "sent"
        failure = KeyError("thrown in")
        assert await steps.athrow(failure) is failure
        await steps.aclose()
        return [each async for each in async_generator(3)]

    assert asyncio.run(main()) == [0, 1, 2]
    if listening:
        assert seen == ["start async", "cleaned up", "end async", "start async generator", "end async generator"]


def test_an_async_generator_that_raises_ends_its_range_with_the_error(seen):
    every_event(seen)

    @record_function("raises")
    async def raises():
        yield 1
        raise KeyError("inside")

    async def main():
        return [each async for each in raises()]

    with pytest.raises(KeyError, match="inside"):
        asyncio.run(main())
    assert seen == ["start raises", "end raises KeyError"]


# --- with -----------------------------------------------------------------------------------------------------
def test_a_with_statement_is_a_range_and_one_object_may_be_nested_in_itself(seen):
    every_event(seen)
    again = record_function("again")
    with again as outer:
        assert outer is again
        with again:
            seen.append("inside")
    with again:
        pass
    assert seen == ["start again", "start again", "inside", "end again", "end again", "start again", "end again"]


def test_an_exception_passes_the_with_statement_and_is_reported(seen):
    every_event(seen)
    with pytest.raises(KeyError), record_function("range"):
        raise KeyError
    assert seen == ["start range", "end range KeyError"]


def test_a_with_statement_in_a_coroutine_ends_where_it_stands(seen):
    every_event(seen)

    async def work(name):
        with record_function(name):
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(work("a"), work("b"))

    asyncio.run(main())
    assert seen == ["start a", "start b", "end a", "end b"]


def test_a_with_statement_begun_before_a_registration_reports_no_end(seen):
    with record_function("outer"):
        every_event(seen)
        with record_function("inner"):
            pass
    assert seen == ["start inner", "end inner"]


# --- what looks at them from outside --------------------------------------------------------------------------
@pytest.mark.parametrize("decorated", [function, coroutine, generator, async_generator])
def test_frameworks_see_of_a_decorated_function_what_they_see_of_the_original(decorated):
    original = decorated.__wrapped__
    assert kind(decorated) == kind(original)
    assert kind(functools.partial(decorated, 1)) == kind(functools.partial(original, 1))
    assert sum(kind(decorated)[:3]) == (decorated is not function)


@pytest.mark.parametrize("name", ["method", "static", "of_class"])
def test_frameworks_see_of_a_decorated_method_what_they_see_of_the_original(name):
    class Handlers:
        async def method(self):
            """A coroutine function."""

        @staticmethod
        async def static():
            yield

        @classmethod
        def of_class(cls):
            yield

    class Recorded:
        """With one of them."""

    setattr(Recorded, name, record_function(name)(vars(Handlers)[name]))
    assert kind(getattr(Recorded, name)) == kind(getattr(Handlers, name))
    assert kind(getattr(Recorded(), name)) == kind(getattr(Handlers(), name))
    assert any(kind(getattr(Recorded(), name)))


def test_what_is_put_around_a_coroutine_function_is_not_taken_for_one():
    @functools.wraps(coroutine)
    def main():
        """Runs it: no coroutine function, though it has all attributes of one."""

    assert not inspect.iscoroutinefunction(main)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="inspect.markcoroutinefunction is new in Python 3.12")
@pytest.mark.parametrize("listening", [False, True])
def test_a_function_that_is_only_marked_as_a_coroutine_function_becomes_one(listening, seen):
    if listening:
        every_event(seen)

    def later(value):
        return asyncio.get_running_loop().run_in_executor(None, str, value)  # a future, which create_task does not take

    decorated = record_function("later")(inspect.markcoroutinefunction(later))

    async def main():
        return await asyncio.create_task(decorated(1))

    assert asyncio.run(main()) == "1"
    assert inspect.iscoroutinefunction(decorated)


@pytest.mark.parametrize("listening", [False, True])
def test_a_generator_that_may_be_awaited_still_may_be(listening, seen):
    if listening:
        every_event(seen)

    @record_function("wait")
    @types.coroutine
    def wait():
        yield
        return "value"

    async def main():
        return await wait()

    assert asyncio.run(main()) == "value"
    assert seen == (["start wait", "end wait"] if listening else [])


@pytest.mark.parametrize("listening", [False, True])
def test_a_call_gives_a_real_coroutine_or_generator_with_the_name_of_the_users(listening, seen):
    if listening:
        every_event(seen)
    made = [coroutine(1), generator(1), async_generator(1)]
    assert [*map(type, made)] == [types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType]
    assert [each.__name__ for each in made] == ["coroutine", "generator", "async_generator"]
    assert [each.__qualname__ for each in made] == ["coroutine", "generator", "async_generator"]
    made[0].close()


@OWN
def test_while_nothing_is_registered_a_call_gives_the_functions_own():
    made = coroutine(1)
    assert made.cr_code is coroutine.__wrapped__.__code__
    assert generator(1).gi_code is generator.__wrapped__.__code__
    assert async_generator(count=1).ag_code is async_generator.__wrapped__.__code__
    made.close()


@OWN
@pytest.mark.parametrize("decorated", [coroutine, generator, async_generator])
def test_while_nothing_is_registered_a_wrong_call_fails_where_it_stands(decorated):
    with pytest.raises(TypeError) as bare:
        decorated.__wrapped__()
    with pytest.raises(TypeError) as recorded:
        decorated()
    assert str(recorded.value) == str(bare.value)


@OWN
def test_while_nothing_is_registered_the_traceback_of_a_coroutine_is_that_of_the_bare_one():
    async def fails():
        raise KeyError

    async def main(fails):
        await fails()

    found = []
    for each in (fails, record_function("fails")(fails)):
        with pytest.raises(KeyError) as failure:
            asyncio.run(main(each))
        found.append([frame.name for frame in traceback.extract_tb(failure.tb)])
    assert found[0] == found[1]
    assert found[0][-2:] == ["main", "fails"]


@OWN
def test_while_nothing_is_registered_a_tracer_sees_one_call_more_than_of_the_bare_generator():
    def events(steps):
        found = []

        def note(frame, event, _argument):
            if frame.f_code.co_name in {"generator", "recorded"}:  # what is collected meanwhile is another object's
                found.append((frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, event))
            return note

        before = sys.gettrace()
        sys.settrace(note)
        try:
            made = steps(2)
            for _ in made:
                pass
        finally:
            sys.settrace(before)
        return found

    torchspans = events(generator)
    assert [each for each in torchspans if each[0] != "recorded"] == events(generator.__wrapped__)
    assert [event for name, _, event in torchspans if name == "recorded" and event != "line"] == ["call", "return"]


@pytest.mark.parametrize("listening", [False, True])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_coroutine_that_is_never_awaited_is_warned_about_by_the_users_name(listening, seen):
    if listening:
        every_event(seen)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        coroutine(1)
        gc.collect()
    assert [str(each.message) for each in caught] == ["coroutine 'coroutine' was never awaited"]
    assert seen == []


@pytest.mark.parametrize("decorated", [coroutine, generator, async_generator])
def test_source_and_pickles_are_those_of_the_users_function(decorated):
    assert inspect.getsource(decorated) == inspect.getsource(decorated.__wrapped__)
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_a_range_needs_listeners_at_the_call_and_at_the_first_step(seen):
    handle = every_event(seen)
    steps, awaits = generator(1), coroutine(1)
    callbacks.remove_callback(handle)
    assert list(steps) == [0]
    assert asyncio.run(awaits) == 1
    assert seen == []


@pytest.mark.parametrize("debug", [False, True])
def test_a_task_of_a_decorated_coroutine_says_whose_it_is(debug):
    async def main():
        task = asyncio.create_task(coroutine(1))
        assert "coro=<coroutine() " in repr(task)
        return await task

    assert asyncio.run(main(), debug=debug) == 1


# --- inputs and outputs ---------------------------------------------------------------------------------------
def test_inputs_come_where_they_are_needed_and_only_during_start(seen):
    def end(record, _context):
        with pytest.raises(RuntimeError, match="outside RecordFunction start callback"):
            _ = record.inputs
        with pytest.raises(RuntimeError, match="outside RecordFunction start callback"):
            _ = record.kwinputs
        seen.append(record.num_inputs)

    add_global_callback(
        RecordFunctionCallback(
            lambda record: seen.append((record.inputs, dict(record.kwinputs), record.num_inputs)),
            end,
            needs_inputs=True,
        )
    )
    function(1, 2, key=3)
    with record_function("range", inputs=("given",)):
        pass
    assert seen == [((1, 2), {"key": 3}, 3), 3, (("given",), {}, 1), 1]


def test_inputs_no_callback_needs_are_missing(seen):
    add_global_callback(
        RecordFunctionCallback(lambda record: seen.append((record.inputs, record.kwinputs, record.needs_inputs)))
    )
    function(1)
    assert seen == [((), {}, False)]


def test_inputs_are_kept_alive_no_longer_than_the_start(seen):
    records = []
    add_global_callback(RecordFunctionCallback(lambda r: records.append((r, len(r.inputs))), needs_inputs=True))
    thing = Thing()
    alive = weakref.ref(thing)
    record = RecordFunction(RecordScope.USER_SCOPE)
    record.before("range", (thing,))
    del thing
    assert records == [(record, 1)]
    assert alive() is None
    record.end()


def test_outputs_are_set_before_the_end_and_release_now_after_it(seen):
    add_global_callback(
        RecordFunctionCallback(
            lambda record: record, lambda record, context: seen.append((record.outputs, context)), needs_outputs=True
        )
    )
    assert function("one") == "one"
    assert function(("a", "pair")) == ("a", "pair")
    with record_function("range") as given:
        given.set_outputs(["a list is one output"])
    assert [outputs for outputs, _ in seen] == [("one",), ("a", "pair"), (["a list is one output"],)]
    assert [record.num_outputs for _, record in seen] == [0, 0, 0]


def test_outputs_no_callback_needs_are_not_kept(seen):
    add_global_callback(
        RecordFunctionCallback(lambda _record: None, lambda record, _context: seen.append(record.outputs))
    )
    function("one")
    with record_function("range") as given:
        given.set_outputs("other")
    assert seen == [(), ()]


def test_setting_outputs_while_nothing_is_registered_does_nothing():
    with record_function("range") as given:
        given.set_outputs("other")
        assert given.record is None


# --- what a record says ---------------------------------------------------------------------------------------
def test_a_record_has_the_words_of_the_header(seen):
    words = (
        "name",
        "scope",
        "sequence_nr",
        "forward_thread_id",
        "debug_handle",
        "operator_name",
        "is_async",
        "thread_id",
    )
    add_global_callback(RecordFunctionCallback(lambda record: seen.append({w: getattr(record, w) for w in words})))
    with record_function("plain"):
        pass
    with record_function(
        "MulBackward0",
        scope=RecordScope.BACKWARD_FUNCTION,
        sequence_nr=7,
        forward_thread_id=3,
        debug_handle=11,
        operator_name="aten::mul.Tensor",
    ):
        pass
    here = callbacks.current_thread_id()
    assert seen == [
        dict(zip(words, ("plain", RecordScope.USER_SCOPE, -1, 0, -1, None, False, here), strict=True)),
        dict(
            zip(
                words,
                ("MulBackward0", RecordScope.BACKWARD_FUNCTION, 7, 3, 11, "aten::mul.Tensor", False, here),
                strict=True,
            )
        ),
    ]


def test_handles_of_ranges_are_unique_where_needed_and_0_elsewhere(seen):
    quiet = add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.handle)))
    function(1)
    assert seen == [0]
    callbacks.remove_callback(quiet)
    add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.handle), needs_ids=True))
    function(1)
    function(1)
    assert 0 not in seen[1:]
    assert len(set(seen)) == 3


def test_thread_ids_are_small_and_never_another_threads():
    ids = [callbacks.current_thread_id()]
    for _ in range(3):
        thread = threading.Thread(target=lambda: ids.append(callbacks.current_thread_id()))
        thread.start()
        thread.join()
    assert len(set(ids)) == 4
    assert 0 < min(ids) <= max(ids) < 10_000


def test_the_default_node_id_is_what_was_set_or_the_rank(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert callbacks.get_default_node_id() == -1
    monkeypatch.setenv("RANK", "3")
    assert callbacks.get_default_node_id() == 3
    callbacks.set_default_node_id(5)
    assert callbacks.get_default_node_id() == 5


# --- the header's own form ------------------------------------------------------------------------------------
def test_a_range_may_end_on_another_thread(seen):
    threads = []
    add_global_callback(
        RecordFunctionCallback(
            lambda record: threads.append((record.thread_id, callbacks.current_thread_id())),
            lambda record, _context: threads.append((record.thread_id, callbacks.current_thread_id(), record.is_async)),
        )
    )
    record = RecordFunction()
    record.before("asynchronous", sequence_nr=1)
    thread = threading.Thread(target=record.end)
    thread.start()
    thread.join()
    (start_id, here), (same_id, there, is_async) = threads
    assert start_id == here == same_id == callbacks.current_thread_id()
    assert there != here
    assert is_async


def test_a_range_may_end_with_a_future(seen):
    every_event(seen)
    future = Future()
    record = RecordFunction(RecordScope.USER_SCOPE)
    record.before("asynchronous")
    record.set_async()
    future.add_done_callback(lambda _future: record.end())
    assert record.is_async
    assert seen == ["start asynchronous"]
    future.set_result(None)
    assert seen == ["start asynchronous", "end asynchronous"]


def test_a_second_end_does_nothing(seen):
    every_event(seen)
    record = RecordFunction(RecordScope.USER_SCOPE)
    record.before("once")
    record.end()
    record.end()
    assert seen == ["start once", "end once"]


def test_a_range_without_a_reference_ends(seen):
    every_event(seen)
    record = RecordFunction(RecordScope.USER_SCOPE)
    record.before("forgotten")
    del record
    gc.collect()
    assert seen == ["start forgotten", "end forgotten"]


def test_a_range_without_callbacks_is_not_active(seen):
    record = RecordFunction(RecordScope.USER_SCOPE)
    every_event(seen)
    assert not record.is_active
    record.before("inactive", (1,))
    record.set_outputs(1)
    record.end()
    assert seen == []


def test_a_range_that_begins_inside_a_callback_leaves_the_callback_protected():
    called, waiting = [], []

    def start(record):
        called.append(record.name)
        if waiting:
            waiting.pop().before("inner")
            with record_function("fired inside the callback"):
                pass

    add_global_callback(RecordFunctionCallback(start=start))
    waiting.append(RecordFunction())
    with record_function("outer"):
        pass
    assert called == ["outer", "inner"]
