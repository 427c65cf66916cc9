# SPDX-License-Identifier: Apache-2.0
"""Where a callback is heard: in the context it was added in, or in the whole process."""

import asyncio
import contextvars
import gc
import operator
import os
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import child
from torchspan import observers
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.hooks.observers._added import _HERE
from torchspan.observers import Observer


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def in_pool(function):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


def in_copied_context(function):
    contextvars.copy_context().run(function)


def in_task(function):
    async def work():
        function()

    async def main():
        await asyncio.create_task(work())

    asyncio.run(main())


def in_to_thread(function):
    asyncio.run(asyncio.to_thread(function))


FOLLOWS = [in_copied_context, in_task, in_to_thread]
STARTS_WITH_NONE = [in_thread, in_pool]
name = lambda function: function.__name__


@pytest.mark.parametrize("route", FOLLOWS, ids=name)
def test_one_of_a_context_is_heard_in_copies_of_it(route, note, seen):
    observer = Observer()
    observer.add(note("a"))
    route(observer.observe)
    assert seen == [("a",)]


@pytest.mark.skipif(
    bool(getattr(sys.flags, "thread_inherit_context", 0)),
    reason="threads of this Python copy the context they start in",
)
@pytest.mark.parametrize("route", STARTS_WITH_NONE, ids=name)
def test_one_of_a_context_is_not_heard_in_threads(route, note, seen):
    observer = Observer()
    observer.add(note("a"))
    route(observer.observe)
    assert seen == []
    observer.observe()
    assert seen == [("a",)]


@pytest.mark.parametrize("route", FOLLOWS + STARTS_WITH_NONE, ids=name)
def test_one_of_the_process_is_heard_everywhere(route, note, seen):
    observer = Observer(scope="process")
    observer.add(note("of the observer"))
    other = Observer()
    other.add(note("of its own"), scope="process")
    route(observer.observe)
    route(other.observe)
    assert seen == [("of the observer",), ("of its own",)]


@pytest.mark.parametrize("route", FOLLOWS + STARTS_WITH_NONE, ids=name)
def test_one_of_the_process_may_be_added_anywhere(route, note, seen):
    observer = Observer(scope="process")
    route(lambda: observer.add(note("a")))
    observer.observe()
    assert seen == [("a",)]


@pytest.mark.parametrize("route", FOLLOWS, ids=name)
def test_one_that_is_added_in_a_copied_context_is_not_heard_outside(route, note, seen):
    observer = Observer()

    def work():
        observer.add(note("inside"))
        observer.observe(1)

    route(work)
    observer.observe(2)
    assert seen == [("inside", 1)]
    assert len(observer._get_callbacks()) == 0


@pytest.mark.parametrize("outer", [False, True])
def test_tasks_do_not_hear_each_others(outer, note, seen):
    # Upstream's callbacks are in one dict that tasks share as soon as their parent has added any: there, with `outer`,
    # each hears both.
    observer = Observer()

    async def work(name):
        with observer.add(note(name)):
            await asyncio.sleep(0)
            observer.observe(name)
            await asyncio.sleep(0)

    async def main():
        if outer:
            observer.add(note("outer"))
        await asyncio.gather(work("a"), work("b"))

    asyncio.run(main())
    expected = {("a", "a"), ("b", "b")} | ({("outer", "a"), ("outer", "b")} if outer else set())
    assert len(seen) == len(expected)
    assert set(seen) == expected


def test_the_list_shows_those_that_are_heard_here(note):
    observer = Observer()
    here, everywhere, there = note("here"), note("everywhere"), []
    observer.add(here)
    observer.add(everywhere, scope="process")
    in_thread(lambda: there.extend(observer._get_callbacks()))
    assert list(observer._get_callbacks()) == [here, everywhere]
    assert there == [everywhere]


def test_one_can_be_removed_from_elsewhere_and_is_then_heard_nowhere_and_not_kept(seen):
    class Listener:
        def hear(self):
            seen.append("heard")

    observer, listener = Observer(), Listener()
    alive = weakref.ref(listener)
    registration = observer.add(listener.hear)
    copied = contextvars.copy_context()
    in_thread(registration.remove)
    observer.observe()
    copied.run(observer.observe)
    del listener
    gc.collect()
    assert seen == []
    assert alive() is None


def test_a_callback_dies_with_its_context_and_the_observer_is_idle_again():
    class Listener:
        def hear(self):
            pass

    observer, listener = Observer(), Listener()
    alive = weakref.ref(listener)
    context = contextvars.copy_context()
    kept = context.run(observer.add, listener.hear)
    del listener
    gc.collect()
    assert alive() is not None
    assert observer.is_heard
    del context
    gc.collect()
    REGISTRY.update()
    assert alive() is None
    assert not observer.is_heard
    kept.remove()


def test_contexts_that_come_and_go_leave_nothing_behind(note):
    observer = Observer()
    for _ in range(100):
        contextvars.copy_context().run(observer.add, note("a"))
    gc.collect()
    assert not observer._callbacks().exist()
    assert not observer.is_heard


def test_adding_again_and_again_in_one_context_leaves_nothing_behind_there(note):
    def held():
        return sum(
            len(value)
            for variable, value in contextvars.copy_context().items()
            if variable.name == "torchspan_observers"
        )

    before = held()
    for _ in range(100):
        Observer().add(note("dropped with its observer"))
        with Observer().add(note("removed")):
            pass
    gc.collect()
    Observer().add(note("last"))
    assert held() <= before + 1


def test_an_observer_that_takes_the_place_of_one_that_is_gone_has_none_of_its_callbacks(note, seen):
    contexts = []
    for name in "abc":
        observer = Observer(name)
        observer.add(note(name))
        contexts.append(contextvars.copy_context())
        del observer
    gc.collect()
    for name in "def":
        observer = Observer(name)
        contexts[0].run(observer.add, note(name))
        for context in contexts:
            context.run(observer.observe)
        observer.observe()
        assert seen == [(name,)]
        seen.clear()


def test_a_copy_of_a_context_hears_what_was_added_before_it_was_made_and_not_after(note, seen):
    observer = Observer()
    observer.add(note("before"))
    copied = contextvars.copy_context()
    removed = observer.add(note("after"))
    copied.run(observer.add, note("in the copy"))
    copied.run(observer.observe)
    assert seen == [("before",), ("in the copy",)]
    removed.remove()
    observer.observe()
    assert seen[2:] == [("before",)]


def test_official_pairs_are_heard_everywhere_if_nothing_else_is_said():
    pairs = [operator.attrgetter(name)(observers) for name in observers.PHASES]
    assert {pair.pre._scope for pair in pairs} == {"process"}
    assert {pair.post._scope for pair in pairs} == {"process"}


def in_forked_child():
    import os
    import threading
    import warnings

    from torchspan.observers import Observer, observable

    warnings.simplefilter("ignore", DeprecationWarning)  # since Python 3.12: this process has threads
    process, context, seen = Observer(scope="process"), Observer(), []
    process.add(lambda what: seen.append(f"process {what}"))
    context.add(lambda what: seen.append(f"context {what}"))

    @observable()
    def observed():
        return "result"

    observed.observers.post.add(lambda call: seen.append(call.return_value))
    stop = threading.Event()

    def changes():
        while not stop.is_set():
            with Observer(scope="process").add(print):
                pass

    thread = threading.Thread(target=changes)
    thread.start()
    statuses = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            process.observe("in the child")
            context.observe("in the child")
            observed()
            with process.add(lambda what: seen.append(f"added {what}")):
                process.observe("later")
            expected = ["process in the child", "context in the child", "result", "process later", "added later"]
            os._exit(0 if seen == expected else 1)
        statuses.append(os.waitpid(pid, 0)[1])
    stop.set()
    thread.join()
    process.observe("in the parent")
    return [statuses, seen]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_observers_work_in_a_forked_process_whatever_another_thread_was_doing(tmp_path):
    statuses, seen = child.run(in_forked_child, folder=tmp_path, timeout=60, measured=False).value
    assert statuses == [0] * 20
    assert seen == ["process in the parent"]


# --- however many there are -----------------------------------------------------------------------------------
def test_a_context_holds_what_is_left_of_what_was_added_to_it(note):
    others = [Observer(str(number)) for number in range(100)]
    added = [each.add(note("other")) for each in others]
    observer = Observer()
    keys = {each._callbacks()._key for each in (*others, observer)}
    with observer.add(note("a")), observer.add(note("b")):
        assert len(_HERE.get()[observer._callbacks()._key]) == 2
        assert keys <= _HERE.get().keys()
    for each in added:
        each.remove()
    assert not keys & _HERE.get().keys()


def test_of_observers_that_come_and_go_a_context_holds_the_last_one_at_most(note):
    gc.collect()
    Observer().add(note("first"))
    held = len(_HERE.get())
    for _ in range(100):
        Observer().add(note("dropped with its observer"))
    assert len(_HERE.get()) <= held
