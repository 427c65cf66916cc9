# SPDX-License-Identifier: Apache-2.0
"""Memory of the process, and of a device that the program has initialized, around work that may need much memory."""

from __future__ import annotations

import os
import queue
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchspan import semconv
from torchspan._base.background import Background, Wake
from torchspan.engine import Callback, Event
from torchspan.phase import BUILD_ENGINE

NAME = "torchspan memory"
"""The thread's name."""

INTERVAL_S = 0.25
"""Seconds between two samples. A sample takes some ten microseconds."""

IsExported = Callable[[Event], bool]

STATM, STATUS = Path("/proc/self/statm"), Path("/proc/self/status")  # proc(5); absent where the system is not Linux


def resident_bytes() -> int | None:
    """Current physical memory of this process; None if it cannot be read."""
    try:
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def peak_resident_bytes() -> int | None:
    """The peak of the physical memory of this process so far (`VmHWM`); None if it cannot be read.

    `ru_maxrss` is not used, because a process inherits it from the process that started it.
    """
    try:
        match = re.search(rb"^VmHWM:\s*(\d+) kB", STATUS.read_bytes(), re.MULTILINE)
    except OSError:
        return None
    return None if match is None else int(match[1]) * 1024


@dataclass(eq=False, slots=True)
class _Running:
    """One piece of work.

    Args:
        mark: The process's peak before it.
        most: The largest value sampled since.
    """

    mark: int | None
    most: int
    pid: int = field(default_factory=os.getpid)


class Sampler:
    """Samples the process's memory at intervals, from one thread, while there is work.

    The thread starts with the first work and sleeps without a timeout while there is none; see `Background`.
    """

    def __init__(self, read: Callable[[], int | None] = resident_bytes, interval_s: float = INTERVAL_S) -> None:
        self._read = read
        self._interval_s = interval_s
        self._running: dict[int, _Running] = {}
        self._thread = Background(NAME, self._sample)

    def start(self, work: _Running) -> None:
        """Sample the memory until `stop`. Raises RuntimeError if no thread can be started."""
        self._running[id(work)] = work
        try:
            self._thread.wake()
        except RuntimeError:
            del self._running[id(work)]
            raise

    def stop(self, work: _Running) -> None:
        """Stop sampling for `work`."""
        self._running.pop(id(work), None)  # the thread notices at its next sample: waking it would cost a thread switch

    def close(self) -> None:
        """End the thread."""
        self._thread.stop()

    def _sample(self, wake: Wake) -> None:
        for key, work in list(self._running.items()):
            if work.pid != os.getpid():  # work of the parent process, which does not end in this one
                self._running.pop(key, None)
        while True:
            try:
                if not wake.get(timeout=self._interval_s if self._running else None):
                    return
            except queue.Empty:
                now = self._read() or 0
                for work in list(self._running.values()):
                    work.most = max(work.most, now)


class ProcessMemory:
    """Records the memory of the process before a build, and its peak.

    Linux records the peak of the memory of each process. If this peak rose during the build, it is the build's peak. If not, the
    build stayed below an earlier peak, and the largest sample is recorded instead: before, after, and in between by `Sampler`.
    The kernel's peak is never reset, because other code may use it.

    Args:
        is_exported: Whether the attributes of a build are exported. Nothing is read for other builds.
    """

    def __init__(self, sampler: Sampler | None = None, is_exported: IsExported | None = None) -> None:
        self._sampler = sampler or Sampler()
        self._is_exported = is_exported or _always
        self.callback = Callback("reading the memory of the process", self._start, self._end, frozenset({BUILD_ENGINE}))

    def _start(self, event: Event) -> _Running | None:
        before = resident_bytes() if self._is_exported(event) else None
        if before is None:
            return None
        event.additions[semconv.MEMORY_BEFORE] = before
        work = _Running(peak_resident_bytes(), before)
        self._sampler.start(work)
        return work

    def _end(self, event: Event, work: _Running | None) -> None:
        if work is None:
            return
        self._sampler.stop(work)
        after, mark = resident_bytes(), peak_resident_bytes()
        rose = mark is not None and work.mark is not None and mark > work.mark
        event.additions[semconv.MEMORY_PEAK] = mark if rose else max(work.most, after or 0)
        event.additions[semconv.MEMORY_PEAK_SAMPLED] = not rose


def loaded_torch() -> Any:
    """torch, if the program has imported it."""
    return sys.modules.get("torch")


def _free_and_total() -> tuple[int, int] | None:
    """Free and total bytes of the current device; None unless the program itself has initialized CUDA and that device.

    The second condition matters with several devices: reading the memory of a device without a context would create one.
    """
    torch = loaded_torch()
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    if has_context is not None and not has_context(cuda.current_device()):
        return None
    free, total = cuda.mem_get_info()
    return int(free), int(total)


def _device_before(event: Event) -> None:
    sizes = _free_and_total()
    if sizes is not None:
        event.additions[semconv.GPU_MEMORY_FREE_BEFORE], event.additions[semconv.GPU_MEMORY_TOTAL] = sizes


def _device_after(event: Event, _context: None) -> None:
    sizes = _free_and_total()
    if sizes is not None:
        event.additions[semconv.GPU_MEMORY_FREE_AFTER], event.additions[semconv.GPU_MEMORY_TOTAL] = sizes


def _always(_event: Event) -> bool:
    return True


def memory_callbacks(sampler: Sampler | None = None, is_exported: IsExported | None = None) -> tuple[Callback, ...]:
    """The callbacks that record the memory of a build. If one fails, the other still works.

    Args:
        sampler: Samples the process's memory during a build. It must be closed with the engine.
        is_exported: Whether the attributes of a build are exported. Nothing is read for other builds. Default: all
            builds.
    """
    device = Callback("reading the memory of the device", _device_before, _device_after, frozenset({BUILD_ENGINE}))
    return (ProcessMemory(sampler, is_exported).callback, device)
