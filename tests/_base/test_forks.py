# SPDX-License-Identifier: Apache-2.0
"""Locks that another thread holds while a process forks: the child has that thread no more."""

import gc
import importlib
import itertools
import os
import signal
import sys
import threading
import time
import types
import weakref

import pytest
import wrapt

from support import child
from support.forked import held_elsewhere, in_forked_child
from torchspan.base import errors, forks, import_hooks
from torchspan.base.errors import Guard, UserCallback
from torchspan.base.forks import renewed

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # from 3.12 on; it is what is tested
]


class Holder:
    def __init__(self):
        self._lock = renewed(threading.Lock())
        self.other = renewed(threading.RLock())


def test_a_forked_child_has_its_locks_free():
    holder = Holder()

    def child():
        return holder._lock.acquire(blocking=False), holder.other.acquire(blocking=False)

    with held_elsewhere(holder._lock, holder.other):
        assert in_forked_child(child) == "(True, True)"


def test_the_parents_lock_stays_held():
    holder = Holder()
    with held_elsewhere(holder._lock):
        in_forked_child(lambda: None)
        assert holder._lock.locked()


def test_a_fork_inside_the_lock_leaves_it_well():
    holder = Holder()

    def child():
        with holder.other:
            return "held again"

    with holder.other:
        assert in_forked_child(child) == "'held again'"
    assert not holder.other._is_owned()


def test_a_holder_that_is_gone_is_forgotten():
    holder = Holder()
    locks = len(forks._LOCKS)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert (gone(), len(forks._LOCKS)) == (None, locks - 2)


def test_a_child_counts_failures_whatever_thread_counted_at_the_fork():
    guard, before = Guard(), UserCallback.total

    def child():
        guard.call("work", lambda: 1 / 0)
        UserCallback("work").call(lambda: 1 / 0)
        return guard.total, UserCallback.total - before

    with held_elsewhere(guard._lock), held_elsewhere(errors._COUNTING):
        assert in_forked_child(child) == "(1, 1)"


@pytest.mark.fault("processes", "a fork while another thread imports")
def test_a_fork_waits_for_an_import_in_another_thread(monkeypatch):
    may_end, over = threading.Event(), threading.Event()
    begun = threading.Event()

    def imports():
        with forks.uncut():
            begun.set()
            may_end.wait(60)
        over.set()

    def poll(_seconds):
        may_end.set()
        over.wait(60)

    monkeypatch.setattr(forks.time, "sleep", poll)
    thread = threading.Thread(target=imports)
    thread.start()
    assert begun.wait(60)
    assert in_forked_child(forks.was_cut) == "False"
    assert over.is_set()
    thread.join()


@pytest.fixture
def module(monkeypatch, tmp_path):
    """The name of a module that has not been imported."""
    (tmp_path / "imported_in_a_test.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield "imported_in_a_test"
    sys.modules.pop("imported_in_a_test", None)


def test_a_fork_waits_for_an_import_at_whose_end_a_hook_runs(monkeypatch, module):
    begun, may_end, over = threading.Event(), threading.Event(), threading.Event()

    def imports():
        with forks.uncut():
            begun.set()
            may_end.wait(60)
            importlib.import_module(module)
        over.set()

    def poll(_seconds):
        may_end.set()
        over.wait(20)

    monkeypatch.setattr(forks.time, "sleep", poll)
    undo = import_hooks.when_imported(module, lambda _late: lambda: None)
    thread = threading.Thread(target=imports)
    thread.start()
    assert begun.wait(60)
    assert in_forked_child(forks.was_cut) == "False"
    thread.join()
    undo()


def test_a_child_imports_whatever_thread_imported_at_the_fork(module):
    import_hooks.when_imported(module, lambda _late: lambda: None)

    def child():
        signal.alarm(20)
        return importlib.import_module(module).__name__

    with held_elsewhere(wrapt.importer._post_import_hooks_lock):
        assert in_forked_child(child) == "'imported_in_a_test'"


def test_a_child_knows_that_its_fork_has_cut_an_import(monkeypatch):
    seconds = itertools.count(0, forks.WAIT_S)
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _seconds: None)
    monkeypatch.setattr(forks, "time", clock)
    with held_elsewhere(forks.uncut()):
        assert in_forked_child(forks.was_cut) == "True"
    assert not forks.was_cut()


def test_a_fork_does_not_wait_for_an_import_of_its_own_thread(monkeypatch):
    monkeypatch.setattr(forks.time, "sleep", None)
    with forks.uncut():
        assert in_forked_child(forks.was_cut) == "False"


def test_an_import_that_a_fork_waits_for_may_take_the_lock_that_forks_hold():
    lock, importing, taken = forks.SWITCHING, threading.Event(), []

    def imports():
        with forks.uncut():
            importing.set()
            time.sleep(0.2)  # until the fork waits
            taken.append(lock.acquire(timeout=5))
            lock.release()

    thread = threading.Thread(target=imports)
    thread.start()
    importing.wait()
    assert in_forked_child(lock._is_owned) == "False"
    thread.join()
    assert taken == [True]


def test_each_forked_child_has_another_generation():
    before = forks.ThisProcess.generation
    assert in_forked_child(lambda: forks.ThisProcess.generation) == str(before + 1)
    assert forks.ThisProcess.generation == before


def test_an_action_that_fails_keeps_no_other_from_running():
    actions, ran = forks.Actions("An action failed."), []
    for action in (lambda: 1 / 0, lambda: ran.append("the other")):
        actions.add(action)
    actions.run()
    assert ran == ["the other"]


def test_what_is_registered_for_forks_goes_with_its_object():
    class Resetting:
        def reset(self):
            pass

    before = len(forks._IN_EACH_CHILD._references)
    for _ in range(100):
        forks.in_each_child(Resetting().reset)
    gc.collect()
    forks.in_each_child(Resetting().reset)
    assert len(forks._IN_EACH_CHILD._references) <= before + 1


def test_forks_and_thread_local_callbacks_do_not_wait_for_each_other(tmp_path):
    def program():
        import faulthandler
        import os
        import threading

        from torchspan import callbacks

        faulthandler.dump_traceback_later(60, exit=True)
        over = threading.Event()

        def toggle():
            while not over.is_set():
                with callbacks.DisableRecordFunctionGuard():
                    pass

        thread = threading.Thread(target=toggle)
        thread.start()
        for _ in range(100):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        over.set()
        thread.join()
        return "ended"

    assert child.run(program, folder=tmp_path, timeout=120, measured=False).value == "ended"
