# SPDX-License-Identifier: Apache-2.0
"""Inductor's workers: work in threads and processes lies below the compilation that submitted it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from torchspan.base import reading
from torchspan.engine import Engine, Event, Observed, Placement
from torchspan.hooks.adapters.dynamo.frames import Frames
from torchspan.hooks.adapters.machinery.around import around
from torchspan.hooks.probes import Record, Target
from torchspan.words import semconv
from torchspan.words.phase import COMPILE_WORKER

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
            followed = self._engine.guard.call(name, self._followed, name, args[-1]) if args else None
            if followed is None:
                return original(*args, **kwargs)
            return original(*args[:-1], followed, **kwargs)

        return submit

    def process(self, target: Target, _action: Record, original: Any) -> Any:
        """The replacement for `SubprocPool.submit(job, ...)`, which returns a future."""
        name, guard = f"following {target}", self._engine.guard

        def begin(args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Event | None:
            return self._begin_job(args) if self._engine.active else None

        def end(event: Event, future: Any) -> None:
            future.add_done_callback(partial(guard.end, name, self._end_job, event))

        return around(guard, name, original, begin, end, self._engine.close)

    # --- threads ----------------------------------------------------------------------------------------------
    def _followed(self, name: str, task: Any) -> Callable[[], Any] | None:
        """The task for a thread to run; None to leave the task unchanged."""
        outer = self._frames.innermost() if self._engine.active else None
        if outer is None:
            return None
        submitter = threading.get_ident()

        def begin(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> Event | None:
            return None if threading.get_ident() == submitter else self._begin_task(outer, task)

        return around(  # type: ignore[no-any-return]
            self._engine.guard,
            name,
            partial(task),
            begin,
            lambda event, _result: self._end_task(event, None),
            self._end_task,
        )

    def _begin_task(self, outer: Event, task: Any) -> Event | None:
        event = self._begin("thread", outer, task)
        if event is not None:
            try:
                self._frames.enter(event)
            except BaseException as interrupt:
                self._end_task(event, interrupt)
                raise
        return event

    def _begin(self, kind: str, outer: Event, task: Any) -> Event | None:
        return self._engine.open(
            COMPILE_WORKER, {semconv.WORKER_KIND: kind}, placement=Placement(outer), observed=Observed(task, (), {})
        )

    def _end_task(self, event: Event, error: BaseException | None) -> None:
        self._frames.leave(event)
        self._engine.close(event, error)

    # --- processes --------------------------------------------------------------------------------------------
    def _begin_job(self, args: tuple[Any, ...]) -> Event | None:
        outer = self._frames.innermost()
        if outer is None or len(args) < 2 or reading.attribute(args[1], "__name__") == _READINESS:
            return None
        return self._begin("process", outer, args[1])

    def _end_job(self, event: Event, future: Future[Any]) -> None:
        if future.cancelled():
            event.is_incomplete = True
        self._engine.close(event, None if future.cancelled() else future.exception())
