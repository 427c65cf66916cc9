# SPDX-License-Identifier: Apache-2.0
"""How a started process knows that the span in which it was started is over: a byte that both see.

The byte is in a file without a name that both processes map. Forked processes inherit it, and spawned ones receive it. It is
written when the span ends in the process that opened it, so that a long-lived worker gets no stale parent.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import threading
import weakref
from typing import Any

from opentelemetry.trace import Span

from torchspan._base.forks import renewed, uncut
from torchspan._base.logs import Log
from torchspan._context.span_ends import SpanEnds
from torchspan._files.opening import check_size

logger = Log("torchspan")


class Liveness:
    """The byte of one span, in the process that opened it (`fd` is its file) and in those that were started in it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._owner = os.getpid()
        self._byte = mmap.mmap(fd, 1)

    @classmethod
    def new(cls) -> Liveness:
        """A new byte. Raises OSError where temporary files cannot be written."""
        check_size(1)
        with uncut(), tempfile.TemporaryFile() as file:  # the first one looks for the folder, under a lock
            file.truncate(1)
            return cls(os.dup(file.fileno()))

    def is_over(self) -> bool:
        """Whether the span has ended."""
        return self._byte[0] != 0

    def end(self) -> None:
        """Record that the span has ended. Does nothing in a fork, which has only a copy of the span."""
        if os.getpid() == self._owner:
            self._byte[0] = 1

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        from multiprocessing import context, reduction

        try:
            if context.get_spawning_popen() is not None:  # otherwise pickling would start a server for files
                return _handed_over, (reduction.DupFd(self._fd),)
        except Exception:  # something else that starts processes; it must not fail because of this
            logger.debug("A file could not be handed to a started process.", exc_info=True)
        return _handed_over, (None,)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError, TypeError):  # at the interpreter's end anything may be gone
            self.end()
            os.close(self._fd)


class LivenessTable:
    """The bytes of this process's open spans in which processes were started, one for each span."""

    def __init__(self, ends: SpanEnds) -> None:
        self._ends = ends
        self._of: weakref.WeakKeyDictionary[Span, Liveness] = weakref.WeakKeyDictionary()
        self._lock = renewed(self, "_lock", threading.RLock)

    def of(self, span: Span) -> Liveness | None:
        """The byte of `span`; None for a span that does not record, because its end cannot be seen."""
        if not span.is_recording() or not hasattr(os, "fork"):
            return None
        with self._lock:  # of two bytes, only the last one would be known when the span ends
            liveness = self._of.get(span)
            if liveness is None:
                liveness = self._of[span] = Liveness.new()
                if not self._ends.watch(span, self._end):
                    del self._of[span]
                    return None
            return liveness

    def _end(self, span: Span) -> None:
        liveness = self._of.pop(span, None)
        if liveness is not None:
            liveness.end()


def _handed_over(handle: Any) -> Liveness | None:
    """The same byte in a started process; None if no file was passed. The span then stays the parent."""
    try:
        return None if handle is None else Liveness(handle.detach())
    except Exception:
        logger.debug("A file could not be taken over from the starting process.", exc_info=True)
        return None
