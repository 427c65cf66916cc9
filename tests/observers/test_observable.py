# SPDX-License-Identifier: Apache-2.0
"""What a decorated function is, and which calls its pair of observers receives."""

import asyncio
import copy
import functools
import gc
import inspect
import operator
import pickle

import pytest

from torchspan import observers
from torchspan.callbacks import DisableRecordFunctionGuard, RecordFunctionCallback, add_global_callback
from torchspan.hooks.observers._observable import ObservableSite
from torchspan.observers import CallableObservers, ObserveContext, Observer, observable


@observable()
def function(a, b=2, *rest, key=None):
    """What it does."""
    return a


@observable()
async def coroutine(value):
    await asyncio.sleep(0)
    if isinstance(value, BaseException):
        raise value
    return value


@observable()
def generator(count):
    received = []
    for index in range(count):
        received.append((yield index))
    return received


@observable()
async def async_generator(count):
    for index in range(count):
        await asyncio.sleep(0)
        yield index


class Methods:
    @observable()
    def method(self, value):
        return value

    @observable()
    @staticmethod
    def static(value):
        return value

    @staticmethod
    @observable()
    def static_below(value):
        return value

    @observable()
    @classmethod
    def of_class(cls, value):
        return value

    @classmethod
    @observable()
    def of_class_below(cls, value):
        return value


@pytest.fixture
def watch(seen):
    """Notes the calls of a function: before with the arguments, after with how it ended."""
    watched = []

    def note(call):
        if call.outcome is None:
            seen.append(("pre", call.args, call.kwargs))
        else:
            seen.append(("post", call.outcome, call.return_value, call.exception))

    def begin(observed):
        watched.extend([observed.observers.pre.add(note), observed.observers.post.add(note)])

    yield begin
    for each in watched:
        each.remove()


# --- what is decorated stays what it was ----------------------------------------------------------------------
def test_name_signature_documentation_and_kind_are_kept():
    assert (function.__name__, function.__qualname__, function.__module__) == ("function", "function", __name__)
    assert function.__doc__ == "What it does."
    assert str(inspect.signature(function)) == "(a, b=2, *rest, key=None)"
    assert inspect.isfunction(function)
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(async_generator)
    assert isinstance(vars(Methods)["static"], staticmethod)
    assert isinstance(vars(Methods)["of_class"], classmethod)


@pytest.mark.parametrize("observed", [function, coroutine, generator, Methods.method], ids=lambda each: each.__name__)
def test_it_is_pickled_and_copied_by_its_name(observed):
    assert pickle.loads(pickle.dumps(observed)) is observed
    assert copy.deepcopy(observed) is observed


@pytest.mark.parametrize(
    "observed",
    [function, coroutine, generator, async_generator, Methods.method, Methods.static, Methods.of_class],
    ids=lambda each: each.__name__,
)
def test_it_has_a_pair_of_observers_and_the_function_itself(observed):
    assert isinstance(observed.observers, CallableObservers)
    assert isinstance(observed.observers.pre, Observer)
    assert observed.observers.pre is not observed.observers.post
    assert observed.orig_func is observed.__wrapped__
    assert not hasattr(observed.orig_func, "observers")


def test_each_function_has_a_pair_of_its_own_named_after_it():
    assert repr(function.observers.pre) == "Observer('function.pre')"
    assert repr(Methods.method.observers.post) == "Observer('Methods.method.post')"
    with pytest.raises(AttributeError):
        function.observers.pre = Observer()


def test_a_class_and_what_cannot_be_called_are_refused():
    with pytest.raises(TypeError, match="only a function can be observed, not <class"):
        observable()(Methods)
    with pytest.raises(TypeError, match="only a function can be observed"):
        observable()(property(len))
    with pytest.raises(TypeError, match="only a function can be observed"):
        observers._make_observable(None)


@pytest.mark.parametrize(
    "foreign",
    [len, operator.itemgetter(0), functools.partial(max), functools.lru_cache(len)],
    ids=lambda f: type(f).__name__,
)
def test_whatever_can_be_called_can_be_observed(foreign, watch, seen):
    observed = observers._make_observable(foreign)
    bare = foreign((3,))
    watch(observed)
    assert observed((3,)) == bare
    assert observed.orig_func is foreign
    assert seen == [("pre", ((3,),), {}), ("post", "returned", bare, None)]


# --- what callbacks receive ----------------------------------------------------------------------------------
def test_before_a_call_they_get_the_function_and_the_arguments():
    got = []
    with function.observers.pre.add(got.append):
        function(1, 3, 4, key="value")
    assert got == [ObserveContext(function.orig_func, (1, 3, 4), {"key": "value"})]
    assert got[0].callable is function.orig_func
    assert (got[0].return_value, got[0].outcome, got[0].exception) == (None, None, None)


def test_after_it_what_it_returned():
    got, result = [], object()
    with function.observers.post.add(got.append):
        assert function(result, key=1) is result
    assert got == [ObserveContext(function.orig_func, (result,), {"key": 1}, result, "returned", None)]


def test_or_what_it_raised_which_passes_unchanged():
    got, failure = [], KeyError("the program's")

    @observable()
    def fails(error):
        raise error

    with fails.observers.post.add(got.append), pytest.raises(KeyError) as raised:
        fails(failure)
    assert raised.value is failure
    assert failure.__context__ is None
    assert got == [ObserveContext(fails.orig_func, (failure,), {}, None, "raised", failure)]


def test_what_is_reported_cannot_be_changed():
    with function.observers.pre.add(lambda call: setattr(call, "args", ()), policy=observers.ErrorPolicy(rethrow=True)):
        with pytest.raises(AttributeError):
            function(1)


def test_the_order_is_before_the_call_the_body_and_after_the_call(note, seen):
    @observable()
    def body():
        seen.append("body")

    for name in "ab":
        body.observers.pre.add(lambda _call, name=name: seen.append(f"pre {name}"))
        body.observers.post.add(lambda _call, name=name: seen.append(f"post {name}"))
    body()
    assert seen == ["pre a", "pre b", "body", "post a", "post b"]


def test_a_wrong_call_raises_what_the_bare_function_raises(watch, seen):
    with pytest.raises(TypeError) as bare:
        function.orig_func()
    watch(function)
    with pytest.raises(TypeError) as observed:
        function()
    assert str(observed.value) == str(bare.value)
    assert [each[:2] for each in seen] == [("pre", ()), ("post", "raised")]


@pytest.mark.parametrize("name", ["method", "static", "static_below", "of_class", "of_class_below"])
@pytest.mark.parametrize("holder", [Methods(), Methods], ids=["instance", "class"])
def test_methods_are_reported_with_what_they_are_bound_to(name, holder, watch, seen):
    observed = getattr(holder, name)
    watch(observed)
    bound = {"method": (holder,), "of_class": (Methods,), "of_class_below": (Methods,)}.get(name, ())
    if name == "method" and holder is Methods:
        assert observed("self", "value") == "value"
        bound = ("self",)
    else:
        assert observed("value") == "value"
    assert seen == [("pre", (*bound, "value"), {}), ("post", "returned", "value", None)]


# --- coroutines and generators --------------------------------------------------------------------------------
def test_a_coroutine_is_reported_when_it_starts_to_run_and_when_it_has_been_awaited(watch, seen):
    watch(coroutine)

    async def main():
        task = asyncio.create_task(coroutine("value"))
        seen.append("made")
        await asyncio.sleep(0)
        seen.append("meanwhile")
        return await task

    assert asyncio.run(main()) == "value"
    assert seen == ["made", ("pre", ("value",), {}), "meanwhile", ("post", "returned", "value", None)]


def test_what_a_coroutine_raises_is_reported_a_cancellation_too(watch, seen):
    watch(coroutine)
    failure = KeyError("the program's")
    with pytest.raises(KeyError):
        asyncio.run(coroutine(failure))

    @observable()
    async def waits():
        await asyncio.sleep(3600)

    async def main():
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    watch(waits)
    asyncio.run(main())
    assert seen[1] == ("post", "raised", None, failure)
    assert seen[3][1] == "raised"
    assert isinstance(seen[3][3], asyncio.CancelledError)


def test_a_generators_call_is_from_its_first_step_to_its_end(watch, seen):
    watch(generator)
    steps = generator(2)
    assert seen == []
    assert next(steps) == 0
    seen.append("the consumer's")
    assert steps.send("sent") == 1
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == ["sent", None]
    assert seen == [("pre", (2,), {}), "the consumer's", ("post", "returned", ["sent", None], None)]


@pytest.mark.parametrize("end", [lambda steps: steps.close(), lambda _steps: gc.collect()], ids=["closed", "dropped"])
def test_a_generator_of_which_its_consumer_had_enough_has_returned(end, watch, seen):
    watch(generator)
    steps = generator(2)
    next(steps)
    end(steps)
    del steps
    gc.collect()
    assert seen == [("pre", (2,), {}), ("post", "returned", None, None)]


def test_a_generator_that_raises_has_raised(watch, seen):
    failure = KeyError("inside")

    @observable()
    def raises():
        yield 1
        raise failure

    watch(raises)
    with pytest.raises(KeyError, match="inside"):
        list(raises())
    assert seen == [("pre", (), {}), ("post", "raised", None, failure)]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_async_generator_that_is_exhausted_has_returned(count, watch, seen):
    watch(async_generator)

    async def main():
        return [each async for each in async_generator(count)]

    assert asyncio.run(main()) == list(range(count))
    assert seen == [("pre", (count,), {}), ("post", "returned", None, None)]


def test_an_async_generator_that_is_closed_early_has_returned(watch, seen):
    watch(async_generator)

    async def main():
        steps = async_generator(3)
        await steps.__anext__()
        await steps.aclose()

    asyncio.run(main())
    assert seen == [("pre", (3,), {}), ("post", "returned", None, None)]


# --- while nothing is registered -------------------------------------------------------------------------------------
def consume(observed):
    async def exhaust():
        return [each async for each in async_generator(2)]

    kinds = {
        function: lambda: function(1),
        coroutine: lambda: asyncio.run(coroutine(1)),
        generator: lambda: list(generator(2)),
        async_generator: lambda: asyncio.run(exhaust()),
    }
    return kinds[observed]()


@pytest.mark.parametrize("observed", [function, coroutine, generator, async_generator], ids=lambda each: each.__name__)
def test_while_nothing_is_registered_nothing_is_done(observed, monkeypatch, note):
    with observed.observers.pre.add(note("pre")):
        consume(observed)

    def refuse(*_args, **_kwargs):
        raise AssertionError("a callback was asked")

    monkeypatch.setattr(ObservableSite, "_begun", refuse)
    monkeypatch.setattr(Observer, "_call", refuse)
    other = Observer()
    other.add(note("another's"))
    consume(observed)


def test_pairs_of_recordfunction_that_name_no_scope_do_not_listen_to_observed_functions(monkeypatch, seen):
    add_global_callback(RecordFunctionCallback(seen.append))
    monkeypatch.setattr(ObservableSite, "_begun", None)
    function(1)
    assert seen == []


def test_where_callbacks_are_disabled_nothing_is_reported(watch, seen):
    watch(function)
    with DisableRecordFunctionGuard():
        function(1)
    assert seen == []
