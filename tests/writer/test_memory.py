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
from torchspan.base.background import Background
from torchspan.engine import Engine
from torchspan.output.writer import _memory
from torchspan.output.writer._memory import DeviceMemory, ProcessMemory, Sampler, peak_resident_bytes, resident_bytes

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


def process_memory(sampler=None):
    return ProcessMemory(sampler or Sampler(), lambda _event: True)


def device_memory(sampler, enter_thread=lambda: False):
    return DeviceMemory(sampler, lambda _event: True, enter_thread)


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
    engine = engine_with(process_memory())
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
def test_memory_below_an_earlier_peak_is_sampled(monkeypatch):
    earlier = allocated(peak_resident_bytes() - resident_bytes() + 256 * MIB)
    del earlier
    sampled = threading.Event()

    def read():
        sampled.set()
        return resident_bytes()

    monkeypatch.setattr(_memory, "resident_bytes", read)
    engine = engine_with(process_memory(Sampler(interval_s=0.005)))
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
    engine = engine_with(process_memory())
    event = engine.open(phase.BUILD_ENGINE, {})
    engine.close(event)
    assert event.additions["tensorrt.build.memory.peak"] >= event.additions["tensorrt.build.memory.before"] > MIB
    assert event.additions["tensorrt.build.memory.peak_sampled"] is True


@pytest.mark.stand_in_only("the memory of a real GPU can be read")
def test_where_memory_cannot_be_read_nothing_is_reported_and_no_thread_is_started(monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", lambda path: path.with_name("nowhere").open("rb"))
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self.name))
    engine = engine_with(process_memory(), device_memory(Sampler()))
    event = engine.open(phase.BUILD_ENGINE, {})
    engine.close(event)
    assert (event.additions, started, peak_resident_bytes()) == ({}, [], None)


def test_only_builds_are_looked_at():
    engine = engine_with(process_memory(), device_memory(Sampler()))
    event = engine.open(phase.COMPILE, {})
    engine.close(event)
    assert event.additions == {}


@pytest.fixture
def sampler():
    """A sampler that looks often."""
    return Sampler(interval_s=0.001)


def seven_bytes():
    """What finds 7 bytes at a look."""
    return _memory._Sampled(lambda: 7, 0)


@linux
def test_builds_one_after_the_other_and_at_the_same_time_share_one_thread(sampler):
    engine = engine_with(process_memory(sampler))
    first = engine.open(phase.BUILD_ENGINE, {})
    (thread,) = threads()
    second = engine.open(phase.BUILD_ENGINE, {})
    engine.close(second)
    engine.close(first)
    engine.close(engine.open(phase.BUILD_ENGINE, {}))
    assert threads() == [thread]
    assert thread.daemon


def test_before_the_first_build_there_is_no_thread(sampler):
    engine = engine_with(process_memory(sampler))
    engine.close(engine.open(phase.COMPILE, {}))
    assert threads() == []


def test_between_builds_the_thread_sleeps_without_a_timeout():
    timeouts = []

    class Recorded(queue.SimpleQueue):
        def get(self, *, timeout):
            timeouts.append(timeout)
            return super().get(timeout=timeout)

    sampler = Sampler(interval_s=0.001)
    sampler._thread = Background(_memory.NAME, sampler._sample, Recorded)
    work = seven_bytes()
    sampler.start(work)
    wait_until(lambda: work.most)
    sampler.stop(work)
    wait_until(lambda: timeouts[-1] is None)
    assert timeouts[1:].count(None) == 1, "after its work, which was there before it began"
    assert set(timeouts) == {None, 0.001}


def test_work_that_starts_while_the_thread_sleeps_is_looked_at(sampler):
    for _ in range(3):
        work = seven_bytes()
        sampler.start(work)
        wait_until(lambda seen=work: seen.most == 7)
        sampler.stop(work)


def test_closing_ends_the_thread_at_once_even_with_work_left():
    sampler = Sampler(interval_s=DEADLINE_S)
    sampler.start(seven_bytes())
    (thread,) = threads()
    sampler.close()
    thread.join(DEADLINE_S / 2)  # it does not wait for its interval to pass
    assert not thread.is_alive()


def test_work_that_starts_after_closing_starts_no_thread(sampler):
    """A build that began while another thread disabled torchspan kept a thread for the life of the process."""
    sampler.close()
    sampler.start(seven_bytes())
    assert threads() == []


def test_closing_while_work_starts_ends_the_thread(sampler):
    def closed_meanwhile():
        sampler.close()
        return queue.SimpleQueue()

    sampler._thread = Background(_memory.NAME, sampler._sample, closed_meanwhile)
    sampler.start(seven_bytes())
    wait_until(lambda: threads() == [])


def test_closing_what_never_began_is_nothing():
    Sampler().close()
    assert threads() == []


def test_the_programs_threads_start_no_thread_in_a_build_but_the_first(sampler, monkeypatch):
    sampler.start(seven_bytes())
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda self: started.append(self.name))
    for _ in range(3):
        work = seven_bytes()
        sampler.start(work)
        sampler.stop(work)
    assert started == []


def test_where_no_thread_can_be_started_the_work_is_forgotten(monkeypatch):
    def refuse(_self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    sampler = Sampler()
    with pytest.raises(RuntimeError):
        sampler.start(seven_bytes())
    assert sampler._running == {}


@linux
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # which is the point
def test_a_forked_child_samples_for_itself(sampler):
    inherited = seven_bytes()
    sampler.start(inherited)
    wait_until(lambda: inherited.most)

    def child():
        inherited.most = 0
        sampler.stop(inherited)  # the thread is not here
        own = seven_bytes()
        sampler.start(own)
        wait_until(lambda: own.most)
        return own.most, len(threads())

    assert in_forked_child(child) == repr((7, 1))
    sampler.stop(inherited)


@linux
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # which is the point
def test_a_forked_child_does_not_look_at_work_that_ends_in_its_parent(sampler):
    inherited = seven_bytes()
    sampler.start(inherited)
    wait_until(lambda: inherited.most)

    def child():
        inherited.most = 0
        own = seven_bytes()
        sampler.start(own)
        wait_until(lambda: own.most)
        sampler.stop(own)
        return inherited.most, sampler._running

    assert in_forked_child(child) == repr((0, {}))
    sampler.stop(inherited)


def test_memory_whose_reading_fails_is_not_looked_at_again_and_other_memory_is(sampler):
    failed = []

    def fail():
        failed.append(None)
        raise RuntimeError("CUDA error")

    sampler.start(_memory._Sampled(fail, 5))
    other = seven_bytes()
    sampler.start(other)
    wait_until(lambda: other.most == 7)
    other.most = 0
    wait_until(lambda: other.most == 7)
    assert (len(failed), list(sampler._running.values())) == (1, [other])


# --- the device -------------------------------------------------------------------------------------------------------
class Cuda:
    """Stands in for torch in a program that uses a device: notes which thread reads, and how often."""

    def __init__(self):
        self.cuda = self._C = self
        self.calls, self.is_initialized = [], lambda: True

    def current_device(self):
        return 0

    def _cuda_hasPrimaryContext(self, _device):
        return True

    def mem_get_info(self, _device):
        self.calls.append(f"read by {'sampler' if threading.current_thread().name == _memory.NAME else 'build'}")
        return 3, 10


@pytest.fixture
def cuda(monkeypatch):
    stand_in = Cuda()
    monkeypatch.setattr(_memory, "loaded_torch", lambda: stand_in)
    return stand_in


def test_the_samplers_thread_enters_its_mode_each_time_before_it_reads_a_device(sampler, cuda):
    engine = engine_with(device_memory(sampler, enter_thread=lambda: cuda.calls.append("entered") is None))
    event = engine.open(phase.BUILD_ENGINE, {})
    wait_until(lambda: len(cuda.calls) > 4)
    engine.close(event)
    assert cuda.calls[:5] == ["read by build", "entered", "read by sampler", "entered", "read by sampler"]


def test_a_samplers_thread_that_cannot_enter_its_mode_reads_no_device(sampler, cuda):
    def fail():
        cuda.calls.append("failed")
        return False

    engine = engine_with(device_memory(sampler, enter_thread=fail))
    event = engine.open(phase.BUILD_ENGINE, {})
    wait_until(lambda: not sampler._running)
    engine.close(event)
    assert cuda.calls == ["read by build", "failed", "read by build"]
    assert event.additions["tensorrt.build.gpu_memory.used.peak"] == 7


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # which is the point
def test_a_build_that_ends_in_a_forked_child_asks_no_device_there(sampler, cuda):
    engine = engine_with(device_memory(sampler, enter_thread=lambda: True))
    event = engine.open(phase.BUILD_ENGINE, {})

    def child():
        cuda.is_initialized = lambda: (
            False
        )  # torch.cuda.is_initialized in a child of a process that has initialized CUDA
        cuda.calls.clear()
        sampler.start(seven_bytes())
        engine.close(event)
        return cuda.calls, sorted(event.additions)

    keys = ["tensorrt.build.gpu_memory.free.before", "tensorrt.build.gpu_memory.total"]
    assert in_forked_child(child) == repr(([], keys))
    engine.close(event)


def test_a_device_that_the_program_initialized_during_the_build_has_its_memory_after_it(sampler, cuda):
    engine = engine_with(device_memory(sampler))
    cuda.is_initialized = lambda: False
    event = engine.open(phase.BUILD_ENGINE, {})
    cuda.is_initialized = lambda: True
    engine.close(event)
    assert event.additions == {"tensorrt.build.gpu_memory.free.after": 3, "tensorrt.build.gpu_memory.total": 10}
