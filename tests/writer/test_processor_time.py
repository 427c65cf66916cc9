# SPDX-License-Identifier: Apache-2.0
"""How long the work of a span was on the processor."""

import contextvars
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from support.engines import extend
from support.tree import named
from torchspan import phase
from torchspan.engine import DETACHED, Engine, processor_time
from torchspan.output.writer import SpanWriter

THREAD, PROCESS = "torchspan.cpu.thread_time", "torchspan.cpu.process_time"
BUSY_S = 0.05
BURN = f"import time\nwhile time.process_time() < {BUSY_S}: pass"


@pytest.fixture
def engine(provider):
    engine = Engine()
    extend(engine, SpanWriter(provider))
    return engine


@pytest.fixture
def of(engine, exporter):
    """The times of a span of a phase in which `work` ran, and the seconds that it lasted."""

    def measured(of_phase, work, **how):
        event = engine.open(of_phase, {}, **how)
        work()
        engine.close(event)
        (span,) = exporter.get_finished_spans()
        return span.attributes.get(THREAD), span.attributes.get(PROCESS), (span.end_time - span.start_time) / 1e9

    return measured


def burn():
    end = time.thread_time() + BUSY_S
    while time.thread_time() < end:
        pass


def in_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_work_has_the_time_that_its_thread_was_on_the_processor(of):
    thread, process, _ = of(phase.LOWER, burn)
    assert thread == pytest.approx(BUSY_S, rel=0.5)
    assert process is None


def test_time_in_which_the_thread_waits_does_not_count(of):
    thread, process, duration = of(phase.BUILD_ENGINE, lambda: time.sleep(0.2))
    assert duration >= 0.2
    assert (thread or 0) < 0.1
    assert (process or 0) < 0.2


def test_work_that_may_take_minutes_also_has_the_time_of_all_threads(of):
    thread, process, _ = of(phase.BUILD_ENGINE, lambda: in_a_thread(burn))
    assert (thread or 0) < BUSY_S / 2
    assert process >= BUSY_S * 0.9


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not count children")
def test_a_child_that_was_waited_for_counts_for_the_process(of):
    _, process, _ = of(phase.COMPILE_FRAME, lambda: subprocess.run([sys.executable, "-c", BURN], check=True))
    assert process >= BUSY_S * 0.9


@pytest.mark.parametrize(("work_ns", "written"), [(999_999, (None, None)), (1_000_000, (0.001, 0.001))])
def test_less_than_a_millisecond_is_not_written(of, monkeypatch, work_ns, written):
    times_ns = iter([0, 0, work_ns, work_ns])
    clocks = SimpleNamespace(thread_time_ns=times_ns.__next__, process_time_ns=times_ns.__next__)
    monkeypatch.setattr(processor_time, "time", clocks)
    assert of(phase.BUILD_ENGINE, lambda: None)[:2] == written


def test_frequent_work_is_not_measured(of):
    assert of(phase.EXECUTE, burn)[:2] == (None, None)


def test_work_that_was_opened_after_its_start_has_no_times(of):
    assert of(phase.LOWER, burn, at_ns=time.time_ns() - 10**9)[:2] == (None, None)


def test_work_that_the_thread_does_not_do_itself_has_no_times(of):
    assert of(phase.COMPILE_WORKER, burn, placement=DETACHED)[:2] == (None, None)


def test_work_that_ends_in_another_thread_has_no_time_of_a_thread(engine, exporter):
    event = contextvars.copy_context().run(engine.open, phase.BUILD_ENGINE, {})
    burn()
    in_a_thread(lambda: engine.close(event))
    attributes = named(exporter.get_finished_spans(), "tensorrt.build_engine").attributes
    assert THREAD not in attributes
    assert attributes[PROCESS] >= BUSY_S * 0.9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_work_that_a_forked_child_ends_has_no_times_there(engine):
    event = contextvars.copy_context().run(engine.open, phase.BUILD_ENGINE, {})
    burn()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def end_there():
        burn()
        answers.put(tuple(event.processor.elapsed()))

    child = context.Process(target=end_there)
    child.start()
    child.join()
    engine.close(event)
    assert answers.get() == (None, None)
