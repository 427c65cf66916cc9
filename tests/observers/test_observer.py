# SPDX-License-Identifier: Apache-2.0
"""A source of events and its callbacks: what they are called with, and in which order."""

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from torchspan import observers, phase
from torchspan.callbacks import (
    DisableRecordFunctionGuard,
    RecordFunctionCallback,
    SamplingMode,
    add_global_callback,
    add_thread_local_callback,
    record_function,
)
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.observers import Observer

SCOPES = ("context", "process")


@pytest.fixture(params=SCOPES)
def observer(request):
    return Observer("point", scope=request.param)


# --- being called ---------------------------------------------------------------------------------------------
def test_adding_to_one_observer_concerns_no_other_however_many_there_are(monkeypatch, observer):
    others, informed = [Observer(str(number)) for number in range(100)], []
    changed = Observer._changed
    monkeypatch.setattr(Observer, "_changed", lambda self: (informed.append(self), changed(self)))
    with observer.add(print):
        pass
    assert informed == [observer, observer]
    assert len(others) == 100


def test_as_a_type_it_takes_that_of_its_callbacks_as_torch_tensorrts_does():
    on_module: Observer[Callable[[str], None]] = Observer[Callable[[str], None]]("on_module")
    assert (type(on_module), on_module.name) == (Observer, "on_module")


def test_callbacks_are_called_with_the_arguments_in_the_order_in_which_they_were_added(observer, note, seen):
    for name in "abc":
        observer.add(note(name))
    observer.observe(1, "two", key=3)
    assert seen == [(name, 1, "two", ("key", 3)) for name in "abc"]


def test_the_order_is_that_of_addition_also_across_scopes(note, seen):
    observer = Observer()
    for name, scope in (("a", "context"), ("b", "process"), ("c", "context"), ("d", "process")):
        observer.add(note(name), scope=scope)
    observer.observe()
    assert seen == [("a",), ("b",), ("c",), ("d",)]
    assert len(observer._get_callbacks()) == 4


def test_the_objects_themselves_are_handed_on(observer):
    thing, got = object(), []
    observer.add(lambda *args, **kwargs: got.append((args[0], kwargs["key"])))
    observer.observe(thing, key=thing)
    assert got[0][0] is got[0][1] is thing


def test_no_callback_is_called_for_another_observer_of_the_same_name(note, seen):
    one, other = Observer("same"), Observer("same")
    one.add(note("one"))
    other.observe()
    assert seen == []
    assert one != other


def test_firing_without_callbacks_does_nothing_and_returns_nothing(observer):
    assert observer.observe(1, key=2) is None
    assert not observer.is_heard


def test_what_a_callback_returns_is_ignored(observer, note, seen):
    observer.add(lambda: ValueError("returned, not raised"))
    observer.add(note("after"))
    assert observer.observe() is None
    assert seen == [("after",)]


def test_an_observer_says_its_name():
    assert repr(Observer("weights.loaded")) == "Observer('weights.loaded')"
    assert Observer().name == ""


# --- adding and removing --------------------------------------------------------------------------------------
def test_adding_registers_at_once_and_the_end_of_a_with_statement_removes(observer, note, seen):
    added = observer.add(note("a"))
    observer.observe(1)
    with added as same:
        assert same is added
        observer.observe(2)
    observer.observe(3)
    assert seen == [("a", 1), ("a", 2)]
    assert not observer.is_heard


def test_an_exception_passes_the_with_statement_and_the_callback_is_removed(observer, note, seen):
    with pytest.raises(KeyError, match="the program's"), observer.add(note("a")):
        raise KeyError("the program's")
    observer.observe()
    assert seen == []


def test_removing_twice_removes_no_other_registration_of_the_same_callback(observer, note, seen):
    callback = note("a")
    first = observer.add(callback)
    observer.add(callback)
    first.remove()
    first.remove()
    observer.observe()
    assert seen == [("a",)]


def test_a_callback_added_twice_is_called_twice(observer, note, seen):
    callback = note("a")
    observer.add(callback)
    with observer.add(callback):
        observer.observe(1)
    observer.observe(2)
    assert seen == [("a", 1), ("a", 1), ("a", 2)]


@pytest.mark.parametrize("callback", [None, 1, "print", [print]], ids=repr)
def test_what_cannot_be_called_is_refused_and_nothing_is_added(observer, callback):
    with pytest.raises(TypeError, match=r"callback must be callable, not .* \(for Observer\('point'\)\)"):
        observer.add(callback)
    assert len(observer._get_callbacks()) == 0


@pytest.mark.parametrize("scope", ["thread", "", 1, ["context"]], ids=repr)
def test_a_scope_that_does_not_exist_is_refused(scope):
    with pytest.raises(
        ValueError, match=r"scope must be 'context' \(the execution context of the callback\) or 'process', not"
    ):
        Observer(scope=scope)
    observer = Observer()
    with pytest.raises(ValueError, match="scope must be 'context'"):
        observer.add(print, scope=scope)
    assert not observer.is_heard


# --- the list of callbacks ------------------------------------------------------------------------------------
def test_the_callbacks_are_a_list_that_can_be_read_and_changed(observer, note, seen):
    a, b = note("a"), note("b")
    observer.add(a)
    callbacks = observer._get_callbacks()
    callbacks.append(b)
    assert list(callbacks) == [a, b]
    assert len(callbacks) == 2
    assert b in callbacks
    assert print not in callbacks
    callbacks.remove(a)
    observer.observe()
    assert seen == [("b",)]
    assert list(observer._get_callbacks()) == [b]


def test_removing_from_the_list_what_is_not_in_it_is_an_error(observer):
    with pytest.raises(ValueError, match=r"is not among the callbacks of Observer\('point'\) here"):
        observer._get_callbacks().remove(print)


def test_removing_from_the_list_removes_the_first_alone(observer, note, seen):
    a, b = note("a"), note("b")
    for each in (a, b, a):
        observer.add(each)
    observer._get_callbacks().remove(a)
    observer.observe()
    assert seen == [("b",), ("a",)]


def test_a_callback_that_was_taken_off_the_list_can_be_removed_again_by_its_registration(observer, note, seen):
    with observer.add(note("a")):
        observer._get_callbacks().remove(next(iter(observer._get_callbacks())))
        observer.observe()
    assert seen == []


def test_methods_of_one_object_are_equal_though_never_the_same(observer):
    class Listener:
        def __init__(self):
            self.heard = 0

        def hear(self):
            self.heard += 1

    listener, other = Listener(), Listener()
    observer.add(listener.hear)
    assert listener.hear in observer._get_callbacks()
    assert other.hear not in observer._get_callbacks()
    observer.observe()
    observer._get_callbacks().remove(listener.hear)
    observer.observe()
    assert (listener.heard, other.heard) == (1, 0)


# --- changes while it fires -----------------------------------------------------------------------------------
@pytest.mark.parametrize(("victim", "called"), [("a", "abc"), ("b", "abc"), ("c", "ab")])
def test_removing_one_while_it_fires_leaves_out_no_other(observer, victim, called, seen):
    # Upstream's list is iterated while it changes: the callback after the removed one is left out there.
    added = {}

    def callback(name):
        seen.append(name)
        if name == "b":
            added[victim].remove()

    for name in "abc":
        added[name] = observer.add(lambda name=name: callback(name))
    observer.observe()
    assert "".join(seen) == called
    observer.observe()
    assert "".join(seen) == called + "abc".replace(victim, "")


def test_one_added_while_it_fires_is_called_from_the_next_time_on(observer, note, seen):
    def adds():
        seen.append("adds")
        observer.add(note("added"))

    with observer.add(adds):
        observer.observe()
    assert seen == ["adds"]
    observer.observe()
    assert seen == ["adds", ("added",)]


def test_iterating_over_the_list_is_safe_while_it_changes(observer):
    for _ in range(3):
        observer.add(print)
    for each in observer._get_callbacks():
        observer._get_callbacks().remove(each)
    assert len(observer._get_callbacks()) == 0


# --- what fires inside of a callback, and when callbacks are disabled -------------------------------------
def test_what_fires_inside_of_a_callback_reaches_none(observer, note, seen):
    inner = Observer("inner")
    inner.add(note("inner"))

    @observers.observable()
    def observed():
        return "result"

    observed.observers.pre.add(note("pre"))

    def callback():
        observer.observe()
        inner.observe()
        seen.append(observed())

    observer.add(callback)
    observer.observe()
    assert seen == ["result"]
    inner.observe()
    assert seen == ["result", ("inner",)]


def test_nothing_fires_inside_a_callback_of_a_range_either(observer, note, seen):
    observer.add(note("point"))
    add_global_callback(RecordFunctionCallback(lambda record: observer.observe(record.name)))
    with record_function("range"):
        pass
    assert seen == []


def test_where_callbacks_are_disabled_observers_are_silent_too(observer, note, seen):
    observer.add(note("a"))
    with DisableRecordFunctionGuard():
        observer.observe(1)
    observer.observe(2)
    assert seen == [("a", 2)]


@pytest.mark.parametrize("add", [add_global_callback, add_thread_local_callback])
def test_callbacks_of_ranges_that_name_no_scope_hear_nothing_of_observers(observer, add, note, seen):
    add(RecordFunctionCallback(lambda record: seen.append(record) or "context", lambda record, _: seen.append(record)))
    assert not observer.is_heard
    observer.add(note("a"))
    observer.observe()
    assert seen == [("a",)]


def test_an_observer_is_idle_while_only_others_are_sampled(observer):
    add_global_callback(RecordFunctionCallback(print, sampling_prob=0.5, sampling_mode=SamplingMode.PER_ROOT))
    assert not observer.is_heard


# --- what is kept alive ---------------------------------------------------------------------------------------
class Listener:
    """Something that can be referred to weakly."""

    def __init__(self, observer=None):
        self.observer = observer

    def hear(self, *_args):
        pass


@pytest.mark.parametrize("scope", SCOPES)
def test_an_observer_and_its_callbacks_go_without_references_to_the_observer(scope):
    made = Observer(scope=scope)
    listener = Listener(made)
    made.add(listener.hear)
    made.observe()
    alive = weakref.ref(made), weakref.ref(listener)
    del made, listener
    gc.collect()
    assert [each() for each in alive] == [None, None]


def test_a_callback_that_was_removed_is_not_kept(observer):
    listener = Listener()
    alive = weakref.ref(listener)
    added = observer.add(listener.hear)
    added.remove()
    del listener
    gc.collect()
    assert alive() is None


def test_the_arguments_are_not_kept(observer):
    observer.add(lambda *_args, **_kwargs: None)
    thing = Listener()
    alive = weakref.ref(thing)
    observer.observe(thing, key=thing)
    del thing
    gc.collect()
    assert alive() is None


def test_a_callback_stays_as_long_as_its_observer_without_another_reference(observer, seen):
    observer.add(lambda: seen.append("heard"))
    gc.collect()
    observer.observe()
    assert seen == ["heard"]


# --- threads --------------------------------------------------------------------------------------------------
def test_adding_and_removing_is_safe_while_other_threads_fire():
    observer, steady, failures = Observer(scope="process"), [], []
    observer.add(lambda _n: steady.append(1))
    until = time.monotonic() + 0.5
    fired = [0, 0]

    def fires(index):
        while time.monotonic() < until:
            observer.observe(index)
            fired[index] += 1

    def changes():
        try:
            while time.monotonic() < until:
                heard, mine = [], object()
                with observer.add(heard.append), observer.add(heard.append, scope="context"):
                    observer.observe(mine)
                assert heard.count(mine) == 2
                steady.pop()
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=fires, args=(index,)) for index in range(2)]
        threads += [threading.Thread(target=changes) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert len(steady) == sum(fired)
    assert len(observer._get_callbacks()) == 1


def test_an_official_pair_tells_once_however_many_threads_add_to_it_at_once(seen):
    barrier, pair = threading.Barrier(4), observers.torch_tensorrt.compile

    def adds():
        barrier.wait(60)
        with pair.pre.add(seen.append), pair.post.add(seen.append):
            barrier.wait(60)
            seen.append(len(REGISTRY.interest(phase.COMPILE).observers))
            barrier.wait(60)

    threads = [threading.Thread(target=adds) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 4
