# SPDX-License-Identifier: Apache-2.0
"""A thread of torchspan's that sleeps until there is work."""

import queue
import threading

import pytest

from torchspan.base.background import Background
from torchspan.base.boundaries import Failures

NAME = "torchspan test"


class Work:
    """What the thread does: it raises the errors, one at each call, and then waits. thread: the one of the last call."""

    def __init__(self, *errors):
        self._errors = list(errors)
        self.begun, self.may_fail = queue.SimpleQueue(), threading.Event()
        self.may_fail.set()

    def run(self, wake):
        self.begun.put(threading.current_thread())
        if self._errors:
            assert self.may_fail.wait(60)
            raise self._errors.pop()
        while wake.get():
            pass


@pytest.fixture
def printed(monkeypatch):
    """What Python would print of an exception that ends a thread."""
    printed = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: printed.append(failure.exc_type))
    return printed


def stopped(background, thread):
    background.stop()
    thread.join(60)
    return not thread.is_alive()


def test_a_thread_that_fails_is_counted_and_continues_with_the_next_work(printed):
    work, before = Work(MemoryError()), Failures.total
    background = Background(NAME, work.run)
    background.wake()
    thread = work.begun.get(timeout=60)
    assert background.wake()
    assert work.begun.get(timeout=60) is thread
    assert (printed, Failures.total - before) == ([], 1)
    assert stopped(background, thread)


def test_work_that_comes_while_a_thread_fails_is_done(printed):
    work = Work(MemoryError())
    work.may_fail.clear()
    background = Background(NAME, work.run)
    background.wake()
    thread = work.begun.get(timeout=60)
    background.wake()
    work.may_fail.set()
    assert work.begun.get(timeout=60) is thread
    assert stopped(background, thread)


def test_a_thread_that_always_fails_does_so_once_for_each_work():
    work = Work(*(MemoryError() for _ in range(10)))
    background = Background(NAME, work.run)
    for _ in range(3):
        background.wake()
        thread = work.begun.get(timeout=60)
    assert stopped(background, thread)
    assert work.begun.empty()


def test_after_what_is_not_an_exception_the_next_work_starts_another_thread(printed):
    work = Work(GeneratorExit())
    background = Background(NAME, work.run)
    background.wake()
    thread = work.begun.get(timeout=60)
    thread.join(60)
    background.wake()
    other = work.begun.get(timeout=60)
    assert (printed, other is thread) == ([GeneratorExit], False)
    assert stopped(background, other)


@pytest.mark.parametrize("has_started", [False, True])
def test_an_interrupt_while_a_thread_is_started_leaves_the_next_work_one(monkeypatch, has_started):
    work, start = Work(), threading.Thread.start
    background = Background(NAME, work.run)

    def interrupted(thread):
        if has_started:
            start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            background.wake()
    assert work.begun.empty()
    background.wake()
    thread = work.begun.get(timeout=60)
    assert [thread] == [thread for thread in threading.enumerate() if thread.name == NAME]
    assert stopped(background, thread)
