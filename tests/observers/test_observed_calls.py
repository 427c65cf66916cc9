# SPDX-License-Identifier: Apache-2.0
"""Calls inside calls, what callbacks raise, what is kept alive, and what continues in threads."""

import asyncio
import gc
import threading
import weakref

import pytest

from torchspan import observers
from torchspan.observers import ErrorPolicy, observable


class Thing:
    """Something that can be referred to weakly."""


def fails(*_args):
    raise KeyError("the callback's")


# --- nesting --------------------------------------------------------------------------------------------------
def test_every_call_of_a_recursive_function_is_reported(seen):
    @observable()
    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    factorial.observers.pre.add(lambda call: seen.append(call.args[0]))
    factorial.observers.post.add(lambda call: seen.append(call.return_value))
    assert factorial(3) == 6
    assert seen == [3, 2, 1, 0, 1, 1, 2, 6]


def test_observed_functions_that_call_each_other_are_all_reported(seen):
    @observable()
    def inner():
        seen.append("body")

    @observable()
    def outer():
        inner()

    for each in (outer, inner):
        each.observers.pre.add(lambda call: seen.append(f"pre {call.callable.__name__}"))
        each.observers.post.add(lambda call: seen.append(f"post {call.callable.__name__}"))
    outer()
    assert seen == ["pre outer", "pre inner", "body", "post inner", "post outer"]


def test_a_function_observed_twice_tells_both_pairs(seen):
    once = observable()(lambda: "result")
    twice = observable()(once)
    for each in (once, twice):
        each.observers.post.add(lambda call, each=each: seen.append((each is once, call.return_value)))
    assert twice() == "result"
    assert seen == [(True, "result"), (False, "result")]
    assert once.observers is not twice.observers


def test_what_a_callback_itself_calls_is_not_reported(seen):
    @observable()
    def observed(value):
        return value

    def callback(call):
        seen.append((call.outcome, observed("the callback's")))

    observed.observers.pre.add(callback)
    observed.observers.post.add(callback)
    observed("the program's")
    assert seen == [(None, "the callback's"), ("returned", "the callback's")]


def test_a_callback_added_during_a_call_hears_its_end(note, seen):
    @observable()
    def observed():
        observed.observers.post.add(lambda call: seen.append(call.outcome))

    with observed.observers.pre.add(lambda _call: seen.append("pre")):
        observed()
    assert seen == ["pre", "returned"]


def test_calls_that_overlap_in_tasks_are_reported_each_with_its_own_end(seen):
    @observable()
    async def serve(name, turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        return name

    async def main():
        await asyncio.gather(serve("long", 3), serve("short", 1))

    serve.observers.post.add(lambda call: seen.append((call.args, call.return_value)))
    asyncio.run(main())
    assert seen == [(("short", 1), "short"), (("long", 3), "long")]


def test_a_call_in_another_thread_is_reported_to_callbacks_of_the_process_alone(note, seen):
    @observable()
    def observed():
        pass

    observed.observers.pre.add(lambda _call: seen.append("context"))
    observed.observers.pre.add(lambda _call: seen.append("process"), scope="process")
    thread = threading.Thread(target=observed)
    thread.start()
    thread.join()
    assert seen == ["process"]


# --- what callbacks raise -------------------------------------------------------------------------------------
def test_what_a_callback_raises_changes_neither_the_call_nor_what_it_raises(seen):
    @observable()
    def observed(error=None):
        if error:
            raise error
        return "result"

    observed.observers.pre.add(fails)
    observed.observers.post.add(fails)
    observed.observers.post.add(lambda call: seen.append(call.outcome))
    assert observed() == "result"
    failure = ValueError("the program's")
    with pytest.raises(ValueError) as raised:
        observed(failure)
    assert raised.value is failure
    assert failure.__context__ is None
    assert seen == ["returned", "raised"]


@pytest.mark.parametrize("by_flag", [False, True])
def test_rethrown_before_the_call_there_is_no_call(by_flag, seen):
    @observable(policy=ErrorPolicy(rethrow=not by_flag))
    def observed():
        seen.append("body")

    observers.RETHROW_CALLBACK_EXCEPTION = by_flag
    observed.observers.pre.add(fails)
    observed.observers.pre.add(lambda _call: seen.append("pre"))
    observed.observers.post.add(lambda _call: seen.append("post"))
    with pytest.raises(KeyError, match="the callback's"):
        observed()
    assert seen == ["pre"]


def test_rethrown_after_the_call_it_takes_the_place_of_the_result(seen):
    @observable(policy=ErrorPolicy(rethrow=True))
    def observed():
        seen.append("body")
        return "result"

    observed.observers.post.add(fails)
    with pytest.raises(KeyError, match="the callback's"):
        observed()
    assert seen == ["body"]


def test_rethrown_after_a_call_that_raised_the_programs_exception_is_its_context():
    failure = ValueError("the program's")

    @observable(policy=ErrorPolicy(rethrow=True))
    def observed():
        raise failure

    observed.observers.post.add(fails)
    with pytest.raises(KeyError, match="the callback's") as raised:
        observed()
    assert raised.value.__context__ is failure


@pytest.mark.parametrize("moment", ["pre", "post"])
def test_rethrown_from_a_coroutine_or_a_generator_it_comes_out_where_that_runs(moment):
    @observable(policy=ErrorPolicy(rethrow=True))
    async def coroutine():
        return "result"

    @observable(policy=ErrorPolicy(rethrow=True))
    def generator():
        yield "value"

    for each in (coroutine, generator):
        getattr(each.observers, moment).add(fails)
    made = coroutine()
    with pytest.raises(KeyError, match="the callback's"):
        asyncio.run(made)
    steps = generator()
    with pytest.raises(KeyError, match="the callback's"):
        list(steps)


def test_an_interrupt_in_a_callback_passes_and_later_calls_are_reported(seen):
    @observable()
    def observed():
        seen.append("body")

    def interrupts(_call):
        raise KeyboardInterrupt

    with observed.observers.pre.add(interrupts), pytest.raises(KeyboardInterrupt):
        observed()
    observed.observers.pre.add(lambda _call: seen.append("pre"))
    observed()
    assert seen == ["pre", "body"]


# --- what is kept alive ---------------------------------------------------------------------------------------
def returned(observed, thing):
    observed(thing, key=thing)


def raised(observed, thing):
    with pytest.raises(TypeError):
        observed(thing, thing, wrong=thing)


@pytest.mark.parametrize("way", [returned, raised], ids=lambda way: way.__name__)
def test_arguments_and_result_go_when_the_call_has_ended(way):
    @observable()
    def observed(value, key=None):
        return [value]

    observed.observers.pre.add(lambda _call: None)
    observed.observers.post.add(lambda _call: None)
    thing = Thing()
    alive = weakref.ref(thing)
    way(observed, thing)
    del thing
    gc.collect()
    assert alive() is None


def test_what_a_generator_was_called_with_goes_with_it():
    @observable()
    def observed(value):
        yield value

    observed.observers.post.add(lambda _call: None)
    thing = Thing()
    alive = weakref.ref(thing)
    assert len(list(observed(thing))) == 1
    del thing
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("scope", ["context", "process"])
def test_an_observed_function_goes_with_its_callbacks_without_further_references(scope):
    def make():
        @observable()
        def observed():
            return observed

        observed.observers.pre.add(lambda _call: observed, scope=scope)
        return observed

    observed = make()
    observed()
    alive = weakref.ref(observed), weakref.ref(observed.orig_func)
    del observed
    gc.collect()
    assert [each() for each in alive] == [None, None]


# --- interrupts -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_one_post_callback_passes_when_the_others_have_run(error, seen):
    @observable()
    def observed():
        return "result"

    def interrupts(_call):
        raise error

    observed.observers.post.add(lambda call: seen.append("before"))
    observed.observers.post.add(interrupts)
    observed.observers.post.add(lambda call: seen.append("after"))
    with pytest.raises(error):
        observed()
    assert seen == ["before", "after"]


def test_an_interrupt_comes_before_what_a_policy_has_come_out(seen):
    @observable(policy=ErrorPolicy(rethrow=True))
    def observed():
        return "result"

    def fails(_call):
        raise KeyError("the callback's")

    def interrupts(_call):
        raise KeyboardInterrupt

    observed.observers.post.add(fails)
    observed.observers.post.add(interrupts)
    with pytest.raises(KeyboardInterrupt):
        observed()
