# SPDX-License-Identifier: Apache-2.0
"""Memory of the process, and of a device that the program has initialized, around work that may need much memory."""

from __future__ import annotations

import os
import queue
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchspan.base.background import Background, Wake
from torchspan.base.forks import in_each_child
from torchspan.engine import Event, Listener
from torchspan.words import semconv
from torchspan.words.phase import BUILD_ENGINE

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
class _Sampled:
    """Some memory that is sampled while one piece of work runs.

    Args:
        read: Returns how much is in use, in bytes; None if that is unknown. If it raises, it is not called again.
        most: The largest value so far.
    """

    read: Callable[[], int | None]
    most: int


class Sampler:
    """Samples memory at intervals, from one thread, while there is work.

    The thread starts with the first work and sleeps without a timeout while there is none; see `Background`.
    """

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._running: dict[int, _Sampled] = {}
        self._thread = Background(NAME, self._sample)
        in_each_child(self._forget)

    def _forget(self) -> None:
        """The work of the parent process does not end in this one."""
        self._running = {}

    def start(self, sampled: _Sampled) -> None:
        """Sample the memory until `stop`. Raises RuntimeError if no thread can be started."""
        self._running[id(sampled)] = sampled
        try:
            self._thread.wake()
        except RuntimeError:
            self.stop(sampled)
            raise

    def stop(self, sampled: _Sampled) -> None:
        """Stop sampling."""
        # The thread notices at its next sample: waking it would cost a thread switch.
        self._running.pop(id(sampled), None)

    def close(self) -> None:
        """End the thread."""
        self._thread.stop()

    def _sample(self, wake: Wake) -> None:
        while True:
            try:
                if not wake.get(timeout=self._interval_s if self._running else None):
                    return
            except queue.Empty:
                for sampled in list(self._running.values()):
                    try:
                        sampled.most = max(sampled.most, sampled.read() or 0)
                    except Exception:
                        self.stop(sampled)


class ProcessMemory(Listener):
    """Records the memory of the process before a build, and its peak.

    Linux records the peak of the memory of each process. If this peak rose during the build, it is the build's peak. If not, the
    build stayed below an earlier peak, and the largest sample is recorded instead: before, after, and in between by `Sampler`.
    The kernel's peak is never reset, because other code may use it.

    Args:
        is_exported: Whether the attributes of a build are exported. Nothing is read for other builds.
    """

    name = "reading the memory of the process"
    phases = frozenset({BUILD_ENGINE})

    def __init__(self, sampler: Sampler, is_exported: IsExported) -> None:
        self._sampler = sampler
        self._is_exported = is_exported

    def open(self, event: Event) -> tuple[_Sampled, int | None] | None:
        """See `Listener`."""
        before = resident_bytes() if self._is_exported(event) else None
        if before is None:
            return None
        event.additions[semconv.MEMORY_BEFORE] = before
        sampled = _Sampled(resident_bytes, before)
        mark = peak_resident_bytes()
        self._sampler.start(sampled)
        return sampled, mark

    def close(self, event: Event, token: tuple[_Sampled, int | None] | None) -> None:
        """See `Listener`."""
        if token is None:
            return
        sampled, mark_before = token
        self._sampler.stop(sampled)
        after, mark = resident_bytes(), peak_resident_bytes()
        rose = mark is not None and mark_before is not None and mark > mark_before
        event.additions[semconv.MEMORY_PEAK] = mark if rose else max(sampled.most, after or 0)
        event.additions[semconv.MEMORY_PEAK_SAMPLED] = not rose


def loaded_torch() -> Any:
    """torch, if the program has imported it."""
    return sys.modules.get("torch")


def _device_in_use() -> int | None:
    """The index of the current device; None unless the program itself has initialized CUDA and that device.

    The second condition matters with several devices: reading the memory of a device without a context would create one. In a
    forked child, CUDA is not initialized (`torch.cuda.is_initialized`).
    """
    torch = loaded_torch()
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    index = int(cuda.current_device())
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    return None if has_context is not None and not has_context(index) else index


def _free_and_total(index: int) -> tuple[int, int]:
    """Free and total bytes of a device that the program uses, whichever device is current in this thread."""
    free, total = loaded_torch().cuda.mem_get_info(index)
    return int(free), int(total)


class DeviceMemory(Listener):
    """Records the free memory of the build's device before and after a build, and the peak of the memory in use.

    The device is that which is current in the build's thread when the build begins.

    Args:
        sampler: Samples memory during a build. It must be closed with the engine.
        is_exported: Whether the attributes of a build are exported. Nothing is read for other builds.
        enter_thread: Called in the sampler's thread each time before it reads the memory of a device. If it returns False, that
            thread stops reading. CUDA's documents do not say whether `cudaMemGetInfo` is among the calls that make a capture of a
            CUDA graph by another thread invalid (`cudaThreadExchangeStreamCaptureMode`), so the thread needs a mode of its own.
    """

    name = "reading the memory of the device"
    phases = frozenset({BUILD_ENGINE})

    def __init__(self, sampler: Sampler, is_exported: IsExported, enter_thread: Callable[[], bool]) -> None:
        self._sampler = sampler
        self._is_exported = is_exported
        self._enter_thread = enter_thread

    def open(self, event: Event) -> tuple[_Sampled, int] | None:
        """See `Listener`."""
        index = _device_in_use() if self._is_exported(event) else None
        if index is None:
            return None
        free, total = _free_and_total(index)
        event.additions[semconv.GPU_MEMORY_FREE_BEFORE], event.additions[semconv.GPU_MEMORY_TOTAL] = free, total
        sampled = _Sampled(lambda: self._used(index), total - free)
        self._sampler.start(sampled)
        return sampled, index

    def _used(self, index: int) -> int | None:
        """Bytes of the device that are in use, read in the sampler's thread."""
        if not loaded_torch().cuda.is_initialized():
            return None
        if not self._enter_thread():
            raise RuntimeError("no mode of its own for this thread")
        free, total = _free_and_total(index)
        return total - free

    def close(self, event: Event, token: tuple[_Sampled, int] | None) -> None:
        """See `Listener`."""
        begun = token
        if begun is None:
            index = _device_in_use() if self._is_exported(event) else None
        else:
            self._sampler.stop(begun[0])
            index = begun[1] if loaded_torch().cuda.is_initialized() else None
        if index is None:
            return
        free, total = _free_and_total(index)
        event.additions[semconv.GPU_MEMORY_FREE_AFTER], event.additions[semconv.GPU_MEMORY_TOTAL] = free, total
        if begun is not None:
            event.additions[semconv.GPU_MEMORY_USED_PEAK] = max(begun[0].most, total - free)
