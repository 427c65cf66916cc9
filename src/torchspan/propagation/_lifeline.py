# SPDX-License-Identifier: Apache-2.0
"""How a started process knows that the span in which it was started is over: a byte that both see.

The byte lies in a file without a name, mapped by both, which forked processes inherit and spawned ones are handed. It is
written when the span ends in the process that opened it, so that a long-lived worker gets no stale parent.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import tempfile
import weakref
from typing import Any

from opentelemetry.trace import Span

from torchspan._base.patching import Function, Names

logger = logging.getLogger("torchspan")


class Lifeline:
    """The byte of one span, in the process that opened it (`fd` is its file) and in those that were started in it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._owner = os.getpid()
        self._byte = mmap.mmap(fd, 1)

    @classmethod
    def new(cls) -> Lifeline:
        """A new byte. Raises OSError where there is no room for temporary files."""
        with tempfile.TemporaryFile() as file:
            file.truncate(1)
            return cls(os.dup(file.fileno()))

    def is_over(self) -> bool:
        """Whether the span has ended."""
        return self._byte[0] != 0

    def end(self) -> None:
        """The span has ended. In a fork, which has a copy of the span, nothing has."""
        if os.getpid() == self._owner:
            self._byte[0] = 1

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        from multiprocessing import context, reduction

        try:
            if context.get_spawning_popen() is not None:  # else pickling would start a server of files
                return _handed_over, (reduction.DupFd(self._fd),)
        except Exception:  # whatever else starts processes; it must not fail for this
            logger.debug("A file could not be handed to a started process.", exc_info=True)
        return _handed_over, (None,)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError, TypeError):  # at the interpreter's end anything may be gone
            self.end()
            os.close(self._fd)


class Lifelines:
    """The bytes of this process's open spans in which processes were started, one a span."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._of: weakref.WeakKeyDictionary[Span, Lifeline] = weakref.WeakKeyDictionary()
        self._classes: set[type] = set()

    def of(self, span: Span) -> Lifeline | None:
        """The byte of `span`; None for one that does not record, whose end nobody can see.

        From the first call on, `end` of its class tells us of ends.
        """
        if not span.is_recording() or not hasattr(os, "fork"):
            return None
        if span not in self._of:
            self._watch(next(each for each in type(span).__mro__ if "end" in vars(each)))
            self._of[span] = Lifeline.new()
        return self._of[span]

    def _watch(self, kind: type) -> None:
        if kind not in self._classes:
            self._classes.add(kind)
            self._names.replace(kind, "end", self._ending)

    def _ending(self, original: Function) -> Function:
        def end(span: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return original(span, *args, **kwargs)
            finally:
                if self._of:
                    self._names.attempt(self._end, span)

        return end

    def _end(self, span: Span) -> None:
        lifeline = self._of.pop(span, None)
        if lifeline is not None:
            lifeline.end()


def _handed_over(handle: Any) -> Lifeline | None:
    """The same byte in a started process; None where no file came along, and the parent stays what it was."""
    try:
        return None if handle is None else Lifeline(handle.detach())
    except Exception:
        logger.debug("A file could not be taken over from the starting process.", exc_info=True)
        return None
