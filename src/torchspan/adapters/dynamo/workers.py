# SPDX-License-Identifier: Apache-2.0
"""Inductor's workers: work in threads and processes lies below the compilation that submitted it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from torchspan import semconv
from torchspan._base import reading
from torchspan.adapters.dynamo.frames import Frames
from torchspan.engine import Engine, Event, Observed, Placement
from torchspan.phase import COMPILE_WORKER
from torchspan.probes import Record, Target

_READINESS = "_get_ready"
"""The job by which Inductor checks that its processes have started. It does nothing."""


class Workers:
    """Makes an event of each task that Inductor submits to a thread or a process while it compiles a frame or a backward graph."""

    def __init__(self, engine: Engine, frames: Frames) -> None:
        self._engine = engine
        self._frames = frames

    def thread(self, target: Target, _action: Record, original: Any) -> Any:
        """The replacement for `AsyncCompile.submit(task)`, which may also run the task immediately."""
        name = f"following {target}"

        @functools.wraps(original)
        def submit(*args: Any, **kwargs: Any) -> Any:
            if self._engine.active and args:
                followed = self._engine.guard.call(name, self._followed, name, args[-1])
                if followed is not None:
                    return original(*args[:-1], followed, **kwargs)
            return original(*args, **kwargs)

        return submit

    def process(self, target: Target, _action: Record, original: Any) -> Any:
        """The replacement for `SubprocPool.submit(job, ...)`, which returns a future."""
        name, guard = f"following {target}", self._engine.guard

        @functools.wraps(original)
        def submit(*args: Any, **kwargs: Any) -> Any:
            event = guard.call(name, self._begin_job, args) if self._engine.active else None
            if event is None:
                return original(*args, **kwargs)
            try:
                future = original(*args, **kwargs)
            except BaseException as error:
                self._engine.close(event, error)
                raise
            guard.call(name, future.add_done_callback, partial(guard.finish, name, self._end_job, event))
            return future

        return submit

    # --- threads ----------------------------------------------------------------------------------------------
    def _followed(self, name: str, task: Any) -> Callable[[], Any] | None:
        """The task for a thread to run; None to leave the task unchanged."""
        around = self._frames.innermost()
        return None if around is None else partial(self._run, name, around, threading.get_ident(), task)

    def _run(self, name: str, around: Event, submitter: int, task: Callable[[], Any]) -> Any:
        if threading.get_ident() == submitter:
            return task()
        guard = self._engine.guard
        event = guard.call(name, self._begin, "thread", around, task)
        if event is None:
            return task()
        try:
            result = task()
        except BaseException as error:
            guard.finish(name, self._end_task, event, error)
            raise
        guard.finish(name, self._end_task, event, None)
        return result

    def _begin(self, kind: str, around: Event, task: Any) -> Event | None:
        event = self._engine.open(
            COMPILE_WORKER, {semconv.WORKER_KIND: kind}, placement=Placement(around), observed=Observed(task, (), {})
        )
        if event is not None and kind == "thread":
            self._frames.enter(event)
        return event

    def _end_task(self, event: Event, error: BaseException | None) -> None:
        self._frames.leave(event)
        self._engine.close(event, error)

    # --- processes --------------------------------------------------------------------------------------------
    def _begin_job(self, args: tuple[Any, ...]) -> Event | None:
        around = self._frames.innermost()
        if around is None or len(args) < 2 or reading.attribute(args[1], "__name__") == _READINESS:
            return None
        return self._begin("process", around, args[1])

    def _end_job(self, event: Event, future: Future[Any]) -> None:
        if future.cancelled():
            event.is_incomplete = True
        self._engine.close(event, None if future.cancelled() else future.exception())
