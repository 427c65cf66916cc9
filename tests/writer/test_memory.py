# SPDX-License-Identifier: Apache-2.0
"""Memory of this very process, read by us and, as an oracle, from the kernel's walk over its pages and from getrusage."""

import queue
import resource
import sys
import threading
import time
from pathlib import Path

import pytest

from support.engines import extend
from support.forked import in_forked_child
from torchspan import phase
from torchspan._base.background import Background
from torchspan.engine import Engine
from torchspan.writer import _memory
from torchspan.writer._memory import ProcessMemory, Sampler, memory_callbacks, peak_resident_bytes, resident_bytes

MIB = 1 << 20
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read on Linux only")
DEADLINE_S = 60


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def threads():
    return [each for each in threading.enumerate() if each.name == _memory.NAME]


@pytest.fixture(autouse=True)
def no_thread_is_left_over(monkeypatch):
    """Samplers that a test makes on the way are closed after it."""
    made, make = [], Sampler.__init__

    def making(self, *args, **kwargs):
        make(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Sampler, "__init__", making)
    yield
    for each in made:
        each.close()
    wait_until(lambda: not threads())


def engine_with(*callbacks):
    engine = Engine()
    for callback in callbacks:
        extend(engine, callback)
    return engine


def resident_by_pages():
    """What the kernel adds up page by page, where we read a counter."""
    (line,) = [each for each in Path("/proc/self/smaps_rollup").read_text().splitlines() if each.startswith("Rss:")]
    return int(line.split()[1]) * 1024


def allocated(size):
    """Memory that is really there: every page is written to."""
    return b"\x01" * size


@linux
def test_what_is_read_is_what_the_oracles_read():
    highest = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # Beyond any mark, because getrusage's may be that of the process which started this one.
    block = allocated(highest() - resident_bytes() + 64 * MIB)
    assert abs(resident_bytes() - resident_by_pages()) < 8 * MIB
    del block
    assert abs(peak_resident_bytes() - highest()) < 8 * MIB


@linux
def test_memory_beyond_every_earlier_peak_is_reported_exactly():
    engine = engine_with(ProcessMemory().callback)
    size = peak_resident_bytes() - resident_bytes() + 128 * MIB
    before = resident_by_pages()
    event = engine.open(phase.BUILD_ENGINE, {})
    block = allocated(size)
    during = resident_by_pages()
    del block
    engine.close(event)
    assert abs(event.additions["tensorrt.build.memory.before"] - before) < 16 * MIB
    assert abs(event.additions["tensorrt.build.memory.peak"] - during) < 16 * MIB
    assert event.additions["tensorrt.build.memory.peak_sampled"] is False


@linux
def test_memory_below_an_earlier_peak_is_sampled():
    earlier = allocated(peak_resident_bytes() - resident_bytes() + 256 * MIB)
    del earlier
    sampled = threading.Event()

    def read():
        sampled.set()
        return resident_bytes()

    engine = engine_with(ProcessMemory(Sampler(read, interval_s=0.005)).callback)
    event = engine.open(phase.BUILD_ENGINE, {})
    block = allocated(128 * MIB)
    during = resident_by_pages()
    sampled.clear()
    assert sampled.wait(DEADLINE_S)
    sampled.clear()
    assert sampled.wait(DEADLINE_S)  # the sample before this one has been taken while the block was there
    del block
    engine.close(event)
    assert abs(event.additions["tensorrt.build.memory.peak"] - during) < 16 * MIB
    assert event.additions["tensorrt.build.memory.peak_sampled"] is True


@linux
def test_where_the_kernel_keeps_no_mark_the_peak_is_the_most_that_was_seen(monkeypatch):
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"VmRSS:\t  17 kB\n" if path.name == "status" else read(path))
    engine = engine_with(ProcessMemory().callback)
    event = engine.open(phase.BUILD_ENGINE, {})
    engine.close(event)
    assert event.additions["tensorrt.build.memory.peak"] >= event.additions["tensorrt.build.memory.before"] > MIB
    assert event.additions["tensorrt.build.memory.peak_sampled"] is True


def test_where_memory_cannot_be_read_nothing_is_reported_and_no_thread_is_started(monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", lambda path: path.with_name("nowhere").open("rb"))
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self.name))
    engine = engine_with(*memory_callbacks())
    event = engine.open(phase.BUILD_ENGINE, {})
    engine.close(event)
    assert (event.additions, started, peak_resident_bytes()) == ({}, [], None)


def test_only_builds_are_looked_at():
    engine = engine_with(*memory_callbacks())
    event = engine.open(phase.COMPILE, {})
    engine.close(event)
    assert event.additions == {}


@pytest.fixture
def sampler():
    """A sampler that finds 7 bytes at a look, and looks often."""
    return Sampler(lambda: 7, interval_s=0.001)


@linux
def test_builds_one_after_the_other_and_at_the_same_time_share_one_thread(sampler):
    engine = engine_with(ProcessMemory(sampler).callback)
    first = engine.open(phase.BUILD_ENGINE, {})
    (thread,) = threads()
    second = engine.open(phase.BUILD_ENGINE, {})
    engine.close(second)
    engine.close(first)
    engine.close(engine.open(phase.BUILD_ENGINE, {}))
    assert threads() == [thread]
    assert thread.daemon


def test_before_the_first_build_there_is_no_thread(sampler):
    engine = engine_with(ProcessMemory(sampler).callback)
    engine.close(engine.open(phase.COMPILE, {}))
    assert threads() == []


def test_between_builds_the_thread_sleeps_without_a_timeout():
    timeouts = []

    class Recorded(queue.SimpleQueue):
        def get(self, *, timeout):
            timeouts.append(timeout)
            return super().get(timeout=timeout)

    sampler = Sampler(lambda: 7, interval_s=0.001)
    sampler._thread = Background(_memory.NAME, sampler._sample, Recorded)
    work = _memory._Running(None, 0)
    sampler.start(work)
    wait_until(lambda: work.most)
    sampler.stop(work)
    wait_until(lambda: timeouts[-1] is None)
    assert timeouts.count(None) == 1, "after its work, which was there before it began"
    assert set(timeouts) == {None, 0.001}


def test_work_that_starts_while_the_thread_sleeps_is_looked_at(sampler):
    for _ in range(3):
        work = _memory._Running(None, 0)
        sampler.start(work)
        wait_until(lambda seen=work: seen.most == 7)
        sampler.stop(work)


def test_closing_ends_the_thread_at_once_even_with_work_left():
    sampler = Sampler(lambda: 7, interval_s=DEADLINE_S)
    sampler.start(_memory._Running(None, 0))
    (thread,) = threads()
    sampler.close()
    thread.join(DEADLINE_S / 2)  # it does not wait for its interval to pass
    assert not thread.is_alive()


def test_work_that_starts_after_closing_starts_no_thread(sampler):
    """A build that began while another thread disabled torchspan kept a thread for the life of the process."""
    sampler.close()
    sampler.start(_memory._Running(None, 0))
    assert threads() == []


def test_closing_while_work_starts_ends_the_thread(sampler):
    def closed_meanwhile():
        sampler.close()
        return queue.SimpleQueue()

    sampler._thread = Background(_memory.NAME, sampler._sample, closed_meanwhile)
    sampler.start(_memory._Running(None, 0))
    wait_until(lambda: threads() == [])


def test_closing_what_never_began_is_nothing():
    Sampler().close()
    assert threads() == []


def test_the_programs_threads_start_no_thread_in_a_build_but_the_first(sampler, monkeypatch):
    sampler.start(_memory._Running(None, 0))
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self.name))
    for _ in range(3):
        work = _memory._Running(None, 0)
        sampler.start(work)
        sampler.stop(work)
    assert started == []


def test_where_no_thread_can_be_started_the_work_is_forgotten(monkeypatch):
    def refuse(_self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    sampler = Sampler()
    with pytest.raises(RuntimeError):
        sampler.start(_memory._Running(None, 0))
    assert sampler._running == {}


@linux
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # which is the point
def test_a_forked_child_samples_for_itself(sampler):
    inherited = _memory._Running(None, 0)
    sampler.start(inherited)
    wait_until(lambda: inherited.most)

    def child():
        inherited.most = 0
        sampler.stop(inherited)  # the thread is not here
        own = _memory._Running(None, 0)
        sampler.start(own)
        wait_until(lambda: own.most)
        return own.most, len(threads())

    assert in_forked_child(child) == repr((7, 1))
    sampler.stop(inherited)


@linux
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # which is the point
def test_a_forked_child_does_not_look_at_work_that_ends_in_its_parent(sampler):
    inherited = _memory._Running(None, 0)
    sampler.start(inherited)
    wait_until(lambda: inherited.most)

    def child():
        inherited.most = 0
        own = _memory._Running(None, 0)
        sampler.start(own)
        wait_until(lambda: own.most)
        sampler.stop(own)
        return inherited.most, sampler._running

    assert in_forked_child(child) == repr((0, {}))
    sampler.stop(inherited)
