# SPDX-License-Identifier: Apache-2.0
"""Processes of `multiprocessing`, forked or spawned: what is propagated to them, and their end.

The context, the settings and the liveness of the span are put into the process object, which `multiprocessing` copies or
pickles anyway, and are removed from it again. So neither the program's environment nor its objects are changed.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span

from torchspan.base import reading
from torchspan.base.boundaries import ErrorBoundary, failed
from torchspan.base.by_identity import ByIdentity
from torchspan.base.context.span_ends import SpanEnds
from torchspan.base.exits import NOT_TAKEN, Patience
from torchspan.base.files.opening import Descriptor, check_size, system
from torchspan.base.forks import in_each_child
from torchspan.base.import_hooks import Undo
from torchspan.base.logs import Log
from torchspan.base.patching import Function, Patches
from torchspan.base.thread_starts import has_ended_by, start_thread
from torchspan.hooks.propagation import _carrier
from torchspan.hooks.propagation._context import from_elsewhere

if TYPE_CHECKING:
    from torchspan.start.launched.process import RunProcess

# --- whether the span that started a process is over ----------------------------------------------------------------
# It is over when a file in memory has a byte. Forked processes inherit the file, and spawned ones receive it. The byte is written when
# the span ends in the process that opened it, so that a long-lived worker gets no stale parent.
logger = Log("torchspan")

_HANDING_OVER = ErrorBoundary("A started process does not learn of the end of the span in which it was started.")


class Liveness:
    """The file of one span, in the process that opened it and in those that were started in it.

    Args:
        file: Its descriptor.
        is_own: Whether this process has opened the span.
    """

    def __init__(self, file: int, *, is_own: bool = False) -> None:
        self._file, self.is_own = Descriptor(file, None), is_own

    @classmethod
    def new(cls) -> Liveness:
        """A new file. Raises OSError where no more descriptors are available."""
        return cls(os.memfd_create("torchspan"), is_own=True)

    def is_over(self) -> bool:
        """Whether the span has ended; False if this process has closed the file."""
        status = self._file.status()
        return status is not None and status.st_size > 0

    def end(self) -> None:
        """Record that the span has ended. Does nothing in a fork, which has only a copy of the span.

        Nor where this process may write no file (RLIMIT_FSIZE): the span then stays the parent.
        """
        if self.is_own and self._file.status() is not None:
            with contextlib.suppress(OSError):
                check_size(1)
                system.write(self._file.number, b"1")

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _handed_over, (_HANDING_OVER.attempt(self._handle),)

    def _handle(self) -> Any:
        """None where no process is being started: pickling would start a server for files."""
        from multiprocessing import context, reduction

        if context.get_spawning_popen() is None or self._file.status() is None:
            return None
        return reduction.DupFd(self._file.number)

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError, TypeError):  # at the interpreter's end anything may be gone
            self.end()
            self._file.close()


class LivenessTable:
    """The files of this process's open spans in which processes were started, one for each span."""

    def __init__(self, ends: SpanEnds) -> None:
        self._ends = ends
        self._of: ByIdentity[Liveness] = ByIdentity()
        in_each_child(self._begin_in_child)

    def _begin_in_child(self) -> None:
        for _, liveness in list(self._of.held.values()):
            liveness.is_own = False

    def of(self, span: Span) -> Liveness | None:
        """The file of `span`; None for a span that does not record, because its end cannot be seen, and where there are no such files."""
        if not span.is_recording() or not hasattr(os, "memfd_create"):
            return None
        liveness = self._of.get(span)
        if liveness is None:
            new = Liveness.new()
            liveness = self._of.setdefault(span, new)  # of two threads, one makes it
            if liveness is new and not self._ends.watch(span, self._end):
                self._of.pop(span)
                return None
        return liveness

    def _end(self, span: Span) -> None:
        liveness = self._of.pop(span)
        if liveness is not None:
            liveness.end()


def _handed_over(handle: Any) -> Liveness | None:
    """The same file in a started process; None if none was passed. The span then stays the parent."""
    file = None if handle is None else _HANDING_OVER.attempt(handle.detach)
    return None if file is None else Liveness(file)


# ------------------------------------------------------------------------------------------------------------------
KEY = "torchspan"
"""The key in the process object's `_config`, a dictionary that every start method hands on."""

EXPORT_LIMIT_S = 2.0
"""How long the end of a process may wait for its records to be exported, outside of `torchspan run`."""

Export = Callable[[], object]
"""Exports some of what this process has recorded. It may take any time."""

_GAVE_UP = memoryview(mmap.mmap(-1, 8)).cast("d")
"""When an end last gave up waiting for exporters. Forked children share it."""
_GAVE_UP[0] = -math.inf
_SPAWNED: list[bool] = []
"""Not empty if this process was spawned. It runs exit handlers, as no other process of `multiprocessing` does."""
in_each_child(_SPAWNED.clear)
PATIENCE = Patience(EXPORT_LIMIT_S, partial(_GAVE_UP.__getitem__, 0), partial(_GAVE_UP.__setitem__, 0))


@dataclass
class ProcessPayload:
    """What a started process receives.

    Args:
        carrier: The context as text.
        liveness: Shows whether its span is still open; None if that cannot be known.
        resume: Pickled function that enables torchspan with the settings of the starting process.
        as_parent: Whether the span in which the process is started is the parent of its roots.
    """

    carrier: dict[str, str]
    liveness: Liveness | None
    resume: bytes
    as_parent: bool

    def attach(self) -> None:
        """Make the context in which the process was started the current one, for the process's whole life."""
        context = from_elsewhere(_carrier.unpack(self.carrier), self._is_over)
        if context is not None:
            context_api.attach(context)

    def _is_over(self) -> bool:
        return not self.as_parent or (self.liveness is not None and self.liveness.is_over())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Runs in a spawned process, before its `_bootstrap`. torchspan is enabled from here on.

        The modules that the target needs are imported after this and before `_bootstrap`, so the context is attached here as well.
        """
        vars(self).update(state)
        if "--multiprocessing-fork" in sys.orig_argv:
            _SPAWNED[:] = [True]
        try:
            pickle.loads(self.resume)()  # noqa: S301 - written by the process that started this one
            self.attach()
        except Exception:
            failed("Failed to enable torchspan in a child process, which continues untraced.")


@dataclass
class Processes:
    """Propagates into processes that are started as a `multiprocessing.process.BaseProcess`. See `torchspan.hooks.propagation.install`."""

    boundary: ErrorBoundary
    resume: Callable[[], None]
    exports: Callable[[], Sequence[Export]]
    carries: Callable[[], bool]
    as_parent: bool
    run: RunProcess | None

    def install(self, process: ModuleType) -> Undo:
        """Propagate from now on. Returns the undo."""
        patches, ends = Patches(), SpanEnds()

        def undo() -> None:
            patches.undo()
            ends.close()

        try:
            patches.replace_shared(process.BaseProcess, "start", partial(self._start, LivenessTable(ends)))
            patches.replace_shared(process.BaseProcess, "_bootstrap", self._bootstrap)
        except BaseException:
            undo()
            raise
        return undo

    def _start(self, table: LivenessTable, original: Function) -> Function:
        def start(process: Any, *args: Any, **kwargs: Any) -> Any:
            config: Any = self.boundary.attempt(self._pack, table, process)
            try:
                return original(process, *args, **kwargs)
            finally:
                if config is not None:
                    config.pop(KEY, None)

        return start

    def _pack(self, table: LivenessTable, process: Any) -> Any:
        """Put into the configuration of the process what it receives. Returns the configuration; None if it was left unchanged."""
        config: Any = reading.instance_dict(process).get("_config")
        if type(config) is not dict or not _same_interpreter():
            return None
        context = context_api.get_current() if self.carries() else Context()
        liveness = self.boundary.attempt(table.of, trace.get_current_span(context))
        config[KEY] = ProcessPayload(_carrier.pack(context), liveness, pickle.dumps(self.resume), self.as_parent)
        return config

    def _bootstrap(self, original: Function) -> Function:
        """The replacement of `_bootstrap`, which runs in the started process around everything that `multiprocessing` does there."""

        def bootstrap(process: Any, *args: Any, **kwargs: Any) -> Any:
            self.boundary.attempt(_arrive, process)
            try:
                return original(process, *args, **kwargs)
            finally:
                if not _SPAWNED:
                    self.boundary.attempt(self._export_within_limit)

        return bootstrap

    def _export_within_limit(self) -> None:
        """Export at the end of a process. `multiprocessing` ends forked processes without exit handlers, so nothing else would.

        It runs in a thread, because an exporter without a collector may take minutes. If there is nothing to export, no thread is
        started.
        """
        run, due = self.run, self.exports()
        patience = PATIENCE if run is None else run.patience
        deadline = time.monotonic() + patience.limit_s()

        def export() -> None:
            for process in due:
                process()

        thread = start_thread("torchspan export", export) if due else None
        if run is not None:
            run.end()  # meanwhile, its own exporters
        if thread is not None and not has_ended_by(thread, deadline):
            patience.gave_up()
            say = logger.warning if run is None else run.fail
            say(NOT_TAKEN)
        if run is not None:
            run.report.write()


def _arrive(process: Any) -> None:
    config = reading.instance_dict(process).get("_config")
    payload = config.pop(KEY, None) if type(config) is dict else None
    if type(payload) is ProcessPayload:
        payload.attach()


def _same_interpreter() -> bool:
    """Whether the child can unpickle what is pickled here: another interpreter may not have torchspan."""
    spawn = sys.modules.get("multiprocessing.spawn")
    executable = spawn.get_executable() if spawn is not None else None
    return executable is None or os.fsdecode(executable) == sys.executable
