# SPDX-License-Identifier: Apache-2.0
"""Time on the processor: of a thread, and of a process with the children that it has waited for."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from torchspan.base.forks import ThisProcess
from torchspan.words.phase import Phase

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


class ProcessorTime(NamedTuple):
    """Seconds on the processor between two moments.

    Attributes:
        thread_s: Of the thread; None if the moments were in different threads or processes.
        process_s: Of all threads and of the children that were waited for meanwhile; None if it was not read.
    """

    thread_s: float | None = None
    process_s: float | None = None


UNMEASURED = ProcessorTime()
"""One for all events, since most of them are runs, which are not measured."""


class ProcessorClock:
    """The readings at the start of an event, in the thread that creates the object.

    The clock of the thread is read for work that is kept, and that of the process for work that may take minutes: such work
    starts threads and processes. On Windows, children are not counted.
    """

    __slots__ = ("_process", "_process_ns", "_thread_id", "_thread_ns")

    def __init__(self, phase: Phase) -> None:
        self._thread_id, self._process = threading.get_ident(), ThisProcess.generation
        self._process_ns = _process_ns() if phase.is_long else None
        self._thread_ns = time.thread_time_ns()

    def elapsed(self) -> ProcessorTime:
        """The time since then. Nothing in another process: a forked child has clocks of its own."""
        thread_ns = time.thread_time_ns()
        if self._process != ThisProcess.generation:
            return UNMEASURED
        is_same = threading.get_ident() == self._thread_id
        return ProcessorTime(
            (thread_ns - self._thread_ns) / 1e9 if is_same else None,
            None if self._process_ns is None else (_process_ns() - self._process_ns) / 1e9,
        )


def _process_ns() -> int:
    children = None if resource is None else resource.getrusage(resource.RUSAGE_CHILDREN)
    waited_s = 0.0 if children is None else children.ru_utime + children.ru_stime
    return time.process_time_ns() + round(waited_s * 1e9)
