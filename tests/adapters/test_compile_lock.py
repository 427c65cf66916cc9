# SPDX-License-Identifier: Apache-2.0
"""Waiting for Dynamo's lock, with a lock of the test's own."""

import itertools
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from support.engines import Callback, extend
from support.stacks import innermost_frame
from torchspan import phase
from torchspan.engine import Engine
from torchspan.hooks.adapters.dynamo import compile_lock
from torchspan.hooks.adapters.dynamo.compile_lock import Waits
from torchspan.hooks.probes import Record, Target
from torchspan.words import semconv

LIMIT_S = 60
HELD = "torch._dynamo.convert_frame:compile_lock"


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.stop()


@pytest.fixture
def waited(engine, monkeypatch):
    """The events of waits that have ended. Each is long enough for an event."""
    monkeypatch.setattr(compile_lock.Waits, "long_s", 0)
    ended = []
    extend(engine, Callback("ended", lambda event: event, lambda event, _: ended.append(event), {phase.COMPILE_WAIT}))
    return ended


@pytest.fixture
def compiles(engine):
    """`compiles(id)`: the event of a frame that is being compiled; its handle is its id."""

    def begin(compile_id):
        event = engine.open(phase.COMPILE_FRAME, {semconv.COMPILE_ID: compile_id})
        event.handle = compile_id
        return event

    return begin


def nothing():
    """What continues in a thread that compiles nothing."""
    return ()


def followed(waits):
    return waits.wrap(Target(HELD), Record(phase.COMPILE_WAIT), threading.RLock())


def waiting_for(lock, function="_wait"):
    """A thread that takes the lock and gives it back; it waits in the function by now."""

    def work():
        with lock:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    end = time.monotonic() + LIMIT_S
    while innermost_frame(thread).f_code.co_name != function:
        assert time.monotonic() < end
        time.sleep(0.001)
    return thread


def test_a_wait_is_linked_to_each_compilation_that_it_lasted_through(engine, waited, compiles):
    waits = Waits(engine, nothing)
    lock = followed(waits)
    with lock:
        first = compiles("0/0")
        waits.began(first)
        thread = waiting_for(lock)
        engine.close(first)
        second = compiles("1/0")
        waits.began(second)
        engine.close(second)
    thread.join(LIMIT_S)
    (event,) = waited
    assert event.links == ("0/0", "1/0")
    assert event.additions == {semconv.WAIT_IDS: ["0/0", "1/0"]}


def test_a_wait_is_open_while_the_thread_waits_and_says_what_it_is_to_compile(engine, waited, compiles):
    begun, here = threading.Event(), (lambda: None).__code__
    started = []

    def start(event):
        started.append(event)
        begun.set()

    extend(engine, Callback("begun", start, lambda *_: None, {phase.COMPILE_WAIT}))
    waits = Waits(engine, nothing, lambda: here)
    lock = followed(waits)
    with lock:
        waits.began(compiles("0/0"))
        thread = waiting_for(lock)
        assert begun.wait(LIMIT_S)
        (event,) = started
        assert event.is_open
        assert event.attributes == {
            semconv.CODE_FUNCTION: "<lambda>",
            semconv.CODE_FILE: __file__,
            semconv.CODE_LINE: here.co_firstlineno,
            semconv.WAIT_IDS: ["0/0"],
        }
    thread.join(LIMIT_S)
    assert waited == started


def test_a_compilation_that_takes_the_lock_late_is_the_one_that_is_waited_for(engine, waited, compiles):
    backward = compiles("0/0")
    lock = followed(Waits(engine, lambda: [SimpleNamespace(event=None), SimpleNamespace(event=backward)]))
    with lock:
        thread = waiting_for(lock)
    thread.join(LIMIT_S)
    assert [event.links for event in waited] == [("0/0",)]


def test_what_was_compiled_before_is_not_waited_for(engine, waited, compiles):
    waits = Waits(engine, nothing)
    lock = followed(waits)
    with lock:
        before = compiles("0/0")
        waits.began(before)
        engine.close(before)
    with lock:
        thread = waiting_for(lock)
    thread.join(LIMIT_S)
    assert [event.links for event in waited] == [()]


def test_a_short_wait_is_not_an_event(engine, waited, monkeypatch):
    monkeypatch.setattr(compile_lock.Waits, "long_s", LIMIT_S)
    lock = followed(Waits(engine, nothing))
    with lock:
        thread = waiting_for(lock, "_take")
    thread.join(LIMIT_S)
    assert waited == []


def test_a_lock_is_taken_and_given_back_whatever_torchspan_raises(engine, waited):
    lock = followed(Waits(engine, lambda: ["no event"]))
    for _ in range(5):
        with lock:
            thread = waiting_for(lock)
        thread.join(LIMIT_S)
    assert lock.acquire(blocking=False) is True
    lock.release()


def test_a_lock_that_is_free_costs_three_calls_of_python(engine, waited):
    lock, called = followed(Waits(engine, nothing)), []
    sys.setprofile(lambda frame, event, _arg: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        with lock:
            pass
    finally:
        sys.setprofile(None)
    assert called == ["__enter__", "_take", "nothing"]


class Interrupted:
    """Raises KeyboardInterrupt in torchspan's part of a `with` statement, at one of the places where CPython can.

    CPython looks for signals when a Python function begins and after each call. A profile function runs there.
    tried: called with the name of each C function that has returned.
    """

    def __init__(self, place, tried=lambda _name: None):
        self.left, self.tried = place, tried

    def profile(self, frame, event, called):
        if frame.f_code.co_filename == __file__ or event not in ("call", "c_return"):
            return
        if event == "c_return":
            self.tried(called.__name__)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def enters(self, lock):
        """Whether the lock was taken without an interruption. It is given back either way."""
        sys.setprofile(self.profile)
        try:
            with lock:
                return True
        except KeyboardInterrupt:
            return False
        finally:
            sys.setprofile(None)


def is_free(lock):
    """Whether another thread can take the lock."""

    def takes():
        if taken := lock.acquire(blocking=False):
            lock.release()
        return taken

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(takes).result()


@pytest.mark.fault("hooks and callbacks", "Ctrl-C while Dynamo's lock is taken")
@pytest.mark.parametrize("open_here", [nothing, lambda: [SimpleNamespace(event=None)]], ids=["idle", "compiling"])
def test_ctrl_c_while_a_free_lock_is_taken_leaves_it_free(engine, open_here):
    lock = followed(Waits(engine, open_here))
    for place in itertools.count(1):
        entered = Interrupted(place).enters(lock)
        assert is_free(lock), place
        if entered:
            break
    assert place > 4


def test_ctrl_c_while_a_lock_is_taken_again_leaves_it_with_its_owner_until_it_is_given_back(engine):
    lock = followed(Waits(engine, nothing))
    for place in itertools.count(1):
        with lock:
            entered = Interrupted(place).enters(lock)
            assert lock._is_owned()
        assert is_free(lock), place
        if entered:
            break
    assert place > 1


def test_ctrl_c_while_a_thread_waits_for_the_lock_leaves_it_free(engine, waited):
    lock = followed(Waits(engine, nothing))
    for place in itertools.count(1):
        holds, gives_back = threading.Event(), threading.Event()

        def hold(holds=holds, gives_back=gives_back):
            with lock:
                holds.set()
                assert gives_back.wait(LIMIT_S)

        thread = threading.Thread(target=hold)
        thread.start()
        assert holds.wait(LIMIT_S)
        entered = Interrupted(place, lambda name, gives_back=gives_back: name == "acquire" and gives_back.set()).enters(
            lock
        )
        gives_back.set()
        thread.join(LIMIT_S)
        assert is_free(lock), place
        if entered:
            break
    assert place > 10
