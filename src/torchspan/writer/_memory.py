# SPDX-License-Identifier: Apache-2.0
"""Memory of the process, and of a device that the program has initialised, around work that may need much of it."""

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
from torchspan.engine import Callback, Event
from torchspan.phase import BUILD_ENGINE
from torchspan.writer._background import Background, Wake

NAME = "torchspan memory"
"""Of the thread."""

INTERVAL_S = 0.25
"""Between two samples: a sample takes some ten microseconds."""

IsExported = Callable[[Event], bool]

STATM, STATUS = Path("/proc/self/statm"), Path("/proc/self/status")  # proc(5); absent where the system is not Linux


def resident_bytes() -> int | None:
    """Physical memory of this process now; None where it cannot be read."""
    try:
        return int(STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def peak_resident_bytes() -> int | None:
    """The most physical memory that this process ever had (`VmHWM`); None where it cannot be read.

    Not `ru_maxrss`, which a process inherits from the one that started it.
    """
    try:
        found = re.search(rb"^VmHWM:\s*(\d+) kB", STATUS.read_bytes(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024


@dataclass(eq=False, slots=True)
class _Running:
    """One piece of work: the process's mark before it, and the most that was seen since."""

    mark: int | None
    most: int
    pid: int = field(default_factory=os.getpid)


class Sampler:
    """Looks at the process's memory at intervals, from one thread, while there is work to look at.

    The thread begins with the first work and sleeps without a timeout while there is none; see `Background`.
    """

    def __init__(self, read: Callable[[], int | None] = resident_bytes, interval_s: float = INTERVAL_S) -> None:
        self._read = read
        self._interval_s = interval_s
        self._running: dict[int, _Running] = {}
        self._thread = Background(NAME, self._sample)

    def start(self, work: _Running) -> None:
        """Look at the memory until `stop`. Raises RuntimeError where no thread can be started."""
        self._running[id(work)] = work
        try:
            self._thread.wake()
        except RuntimeError:
            del self._running[id(work)]
            raise

    def stop(self, work: _Running) -> None:
        """No longer."""
        self._running.pop(
            id(work), None
        )  # the thread finds out at its next look: to wake it would cost a switch of threads

    def close(self) -> None:
        """Have the thread end."""
        self._thread.stop()

    def _sample(self, wake: Wake) -> None:
        for key, work in list(self._running.items()):
            if work.pid != os.getpid():  # of the parent process: it does not end here
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
    """What the process had before a build, and at its peak.

    Linux keeps a mark of the most that a process ever had. If that rose, it rose in the build and is its peak. If not, the build
    stayed below an earlier peak, and the most that was seen is recorded instead: before, after, and in between by `Sampler`.
    The mark is never reset, which would take it from others.

    is_exported: whether what is recorded of a build goes anywhere; nothing is read of others.
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
    """torch, where the program has imported it."""
    return sys.modules.get("torch")


def _free_and_total() -> tuple[int, int] | None:
    """Bytes of the current device; None unless the program itself has initialised CUDA, and that device.

    The second question matters with several devices: asking one that has no context yet would make it one.
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
    found = _free_and_total()
    if found is not None:
        event.additions[semconv.GPU_MEMORY_FREE_BEFORE], event.additions[semconv.GPU_MEMORY_TOTAL] = found


def _device_after(event: Event, _context: None) -> None:
    found = _free_and_total()
    if found is not None:
        event.additions[semconv.GPU_MEMORY_FREE_AFTER], event.additions[semconv.GPU_MEMORY_TOTAL] = found


def _always(_event: Event) -> bool:
    return True


def memory_callbacks(sampler: Sampler | None = None, is_exported: IsExported | None = None) -> tuple[Callback, ...]:
    """What a pipeline needs to record the memory of a build; a failure of one leaves the other.

    sampler: looks at the process's memory during a build; to be closed with the engine.
    is_exported: whether what is recorded of a build goes anywhere; nothing is read of others. Default: of all.
    """
    device = Callback("reading the memory of the device", _device_before, _device_after, frozenset({BUILD_ENGINE}))
    return (ProcessMemory(sampler, is_exported).callback, device)
