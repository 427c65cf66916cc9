# SPDX-License-Identifier: Apache-2.0
"""The thread that reports long work, in a time that stands still unless a test moves it."""

import contextvars
import os
import threading

import pytest
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from support.engines import extend
from support.fake_time import FakeTime
from support.own_failures import consequences
from torchspan import phase
from torchspan.engine import ActiveWork, Engine
from torchspan.output.writer import Heartbeats
from torchspan.output.writer._heartbeats import NAME


class Listener:
    """Notes what it is reported: the name of the work, the number, the seconds since the start."""

    def __init__(self):
        self.begun, self.reported, self.flushes = [], [], 0
        self.flushing, self.may_return = threading.Event(), threading.Event()
        self.may_return.set()

    def begin(self, event):
        self.begun.append((event.name, threading.current_thread().name))

    def report(self, event, number):
        self.reported.append((event.name, number, event.elapsed_ns() / 1e9))
        return True

    def flush(self):
        self.flushes += 1
        self.flushing.set()
        assert self.may_return.wait(60)

    def elapsed(self):
        return [seconds for _, _, seconds in self.reported]


@pytest.fixture
def time(monkeypatch):
    return FakeTime(monkeypatch)


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def begin(engine, listener, time):
    """Switches heartbeats on and returns them; they are off after the test."""
    started = []

    def enable(interval_s=0.5, teller=listener):
        active = ActiveWork()
        extend(engine, active)
        started.append(Heartbeats(active, teller, interval_s, engine.guard, time.new_sleep))
        extend(engine, started[-1])
        return started[-1]

    yield enable
    listener.may_return.set()
    for each in started:
        each.stop()


def threads():
    return [thread for thread in threading.enumerate() if thread.name == NAME]


@pytest.fixture(autouse=True)
def no_thread_is_left_over():
    yield
    for thread in threads():
        thread.join(60)
    assert threads() == []


def test_long_work_is_reported_at_each_interval_from_its_start_on(begin, engine, listener, time):
    begin(0.5)
    event = engine.open(phase.COMPILE, {})
    time.advance(2.2)
    assert listener.reported == [
        ("torch_tensorrt.compile", 1, 0.5),
        ("torch_tensorrt.compile", 2, 1.0),
        ("torch_tensorrt.compile", 3, 1.5),
        ("torch_tensorrt.compile", 4, 2.0),
    ]
    assert listener.flushes == 4
    engine.close(event)


def test_without_an_interval_the_gaps_grow(begin, engine, listener, time):
    begin(None)
    event = engine.open(phase.COMPILE, {})
    time.advance(200)
    assert listener.elapsed() == [2, 7, 17, 37, 77, 137, 197]
    engine.close(event)


def test_work_shorter_than_the_first_interval_is_not_reported(begin, engine, listener, time):
    begin(0.5)
    event = engine.open(phase.COMPILE, {})
    time.advance(0.4)
    engine.close(event)
    time.advance(5)
    assert listener.elapsed() == []


def test_the_start_of_long_work_is_recorded_on_the_thread_that_begins_it(begin, engine, listener):
    begin(0.5)
    compilation = engine.open(phase.COMPILE, {})
    engine.close(engine.open(phase.BUILD_ENGINE, {}))
    engine.close(engine.open(phase.LOWER, {}))
    engine.close(compilation)
    assert listener.begun == [("torch_tensorrt.compile", threading.current_thread().name)]


def test_a_start_that_cannot_be_recorded_is_logged_and_heartbeats_come(begin, engine, listener, time, caplog):
    class Failing(Listener):
        def begin(self, event):
            raise RuntimeError("disk")

    failing = Failing()
    begin(0.5, failing)
    event = engine.open(phase.COMPILE, {})
    time.advance(1)
    engine.close(event)
    assert failing.elapsed() == [0.5, 1.0]
    assert consequences(caplog) == ["starting heartbeats failed; the program continues, with less telemetry."]


@pytest.mark.parametrize("error", [None, ValueError(), KeyboardInterrupt()])
def test_after_the_end_nothing_is_reported_and_the_thread_sleeps_until_there_is_more(
    begin, engine, listener, time, error
):
    begin(0.5)
    event = engine.open(phase.COMPILE, {})
    time.advance(1)
    engine.close(event, error)
    time.settle()
    (sleep,) = time._sleeps
    assert sleep.deadline_ns is None
    time.advance(3600)
    assert listener.elapsed() == [0.5, 1.0]
    (thread,) = threads()
    engine.close(engine.open(phase.COMPILE, {}))
    assert threads() == [thread], "one thread serves all work"


def test_there_is_no_thread_before_there_is_long_work(begin, engine):
    begin()
    engine.close(engine.open(phase.EXECUTE, {}))
    engine.close(engine.open(phase.CONVERT, {}))
    assert threads() == []


def test_no_exit_waits_for_the_thread(begin, engine):
    begin()
    engine.close(engine.open(phase.COMPILE, {}))
    (thread,) = threads()
    assert thread.daemon


def test_long_work_inside_long_work_is_one_piece_of_work(begin, engine, listener, time):
    begin(0.5)
    compilation = engine.open(phase.COMPILE, {})
    time.advance(0.2)
    build = engine.open(phase.BUILD_ENGINE, {})
    time.advance(0.5)
    engine.close(build)
    engine.close(compilation)
    assert listener.reported == [("torch_tensorrt.compile", 1, 0.5)]


def test_work_in_two_threads_is_reported_separately(begin, engine, listener, time):
    begin(0.5)
    compilation = engine.open(phase.COMPILE, {})
    time.advance(0.3)
    builds = []
    other = threading.Thread(target=lambda: builds.append(engine.open(phase.BUILD_ENGINE, {})))
    other.start()
    other.join()
    time.advance(0.6)
    assert listener.reported == [("torch_tensorrt.compile", 1, 0.5), ("tensorrt.build_engine", 1, 0.5)]
    contextvars.copy_context().run(engine.close, builds[0])
    engine.close(compilation)


def test_threads_that_start_work_at_the_same_moment_share_one_thread(begin, engine):
    begin()
    barrier = threading.Barrier(16)

    def work():
        barrier.wait()
        engine.close(engine.open(phase.COMPILE, {}))

    workers = [threading.Thread(target=work) for _ in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(threads()) == 1


def test_a_thread_that_starts_work_while_another_is_about_to_start_some_comes_first(begin, engine, time):
    new_sleep, others = time.new_sleep, []

    def new_sleep_while_another_starts():
        if not others:
            others.append(threading.Thread(target=lambda: engine.close(engine.open(phase.COMPILE, {}))))
            others[0].start()
            others[0].join()
        return new_sleep()

    time.new_sleep = new_sleep_while_another_starts
    begin()
    engine.close(engine.open(phase.COMPILE, {}))
    assert len(threads()) == 1


@pytest.mark.fault("clock", "leaps forward between heartbeats")
def test_an_export_that_hangs_holds_nothing_up_and_what_was_missed_is_left_out(begin, engine, listener, time):
    listener.may_return.clear()
    begin(0.5)
    first = engine.open(phase.COMPILE, {})
    time.settle()
    time.jump(0.5)
    assert listener.flushing.wait(60)
    time.jump(9.7)
    # The export hangs; the program's threads start and end work as if nothing were the matter.
    for _ in range(3):
        engine.close(engine.open(phase.BUILD_ENGINE, {}))
    engine.close(first)
    second = engine.open(phase.COMPILE, {})
    time.jump(10.0)
    assert listener.elapsed() == [0.5]
    listener.may_return.set()
    time.settle()
    assert listener.elapsed() == [0.5, 10.0], "the first has ended, the second is reported once, late"
    time.advance(0.5)
    assert listener.elapsed() == [0.5, 10.0, 10.5]
    engine.close(second)


def test_a_teller_that_raises_is_logged_and_other_work_continues(begin, engine, listener, time, caplog):
    class Failing(Listener):
        def report(self, event, number):
            if number == 2 and not caplog.messages:
                raise RuntimeError("torchspans")
            return super().report(event, number)

    failing = Failing()
    begin(0.5, failing)
    event = engine.open(phase.COMPILE, {})
    time.advance(2)
    engine.close(event)
    assert [(number, seconds) for _, number, seconds in failing.reported] == [(1, 0.5), (2, 1.5), (3, 2.0)]
    assert consequences(caplog) == ["reporting progress failed; the program continues, with less telemetry."]


def test_an_export_that_raises_is_logged_and_the_next_is_tried(begin, engine, listener, time, caplog):
    class Failing(Listener):
        def flush(self):
            super().flush()
            raise RuntimeError("collector")

    failing = Failing()
    begin(0.5, failing)
    event = engine.open(phase.COMPILE, {})
    time.advance(1)
    engine.close(event)
    assert failing.flushes == 2
    assert consequences(caplog) == ["writing progress failed; the program continues, with less telemetry."]


def test_stopping_ends_the_thread_and_waits_for_no_export(begin, engine, listener, time):
    listener.may_return.clear()
    heartbeats = begin()
    event = engine.open(phase.COMPILE, {})
    time.settle()
    time.jump(0.5)
    assert listener.flushing.wait(60)
    (thread,) = threads()
    heartbeats.stop()
    assert thread.is_alive()
    listener.may_return.set()
    thread.join(60)
    assert not thread.is_alive()
    engine.close(event)
    assert listener.elapsed() == [0.5]


def test_stopping_what_never_began_is_nothing(begin):
    begin().stop()
    assert threads() == []


def test_nothing_of_the_callers_context_is_there_to_be_handed_down_to_the_thread(begin, engine, monkeypatch):
    """As `opentelemetry-instrumentation-threading` does: our thread would keep one of the program's spans for good."""
    variable = contextvars.ContextVar("variable", default="nothing")
    variable.set("the caller's")
    start, seen = threading.Thread.start, []

    def handing_down(thread):
        seen.append(variable.get())
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", handing_down)
    begin()
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == ["nothing"]


def test_the_thread_has_none_of_the_callers_context_and_nothing_in_it_is_traced(begin, engine, time):
    variable = contextvars.ContextVar("variable", default="nothing")
    variable.set("the caller's")

    class Curious(Listener):
        def report(self, event, number):
            self.reported.append((variable.get(), is_instrumentation_enabled()))
            return True

    curious = Curious()
    begin(0.5, curious)
    event = engine.open(phase.COMPILE, {})
    time.advance(0.5)
    engine.close(event)
    assert curious.reported == [("nothing", False)]
    assert is_instrumentation_enabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # from 3.12 on; it is what is tested
def test_a_forked_child_reports_its_own_work_alone_with_a_thread_of_its_own(begin, engine, listener, time):
    begin(0.5)
    event = engine.open(phase.COMPILE, {})
    time.advance(0.5)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            time._sleeps.clear()  # the thread that sleeps there is the parent's
            own = contextvars.Context().run(engine.open, phase.BUILD_ENGINE, {})
            time.advance(0.5)
            contextvars.Context().run(engine.open, phase.EXECUTE, {})
            os.write(writer, repr([*listener.reported[1:], len(threads()), own.is_open]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert answer.read() == repr([("tensorrt.build_engine", 1, 0.5), 1, True])
    os.waitpid(pid, 0)
    time.advance(0.5)
    engine.close(event)
    assert listener.elapsed() == [0.5, 1.0], "the parent continues"
