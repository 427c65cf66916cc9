# SPDX-License-Identifier: Apache-2.0
"""Inductor's workers: what a compilation leaves to threads and to processes lies below what left it to them."""

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
from torchspan.engine import Below, Engine, Event, Observed
from torchspan.phase import COMPILE_WORKER
from torchspan.probes import Record, Target

_READINESS = "_get_ready"
"""The job by which Inductor learns that its processes have started. It does nothing."""


class Workers:
    """Makes an event of each piece of work that Inductor gives to a thread or a process while a frame or a backward graph is compiled."""

    def __init__(self, engine: Engine, frames: Frames) -> None:
        self._engine = engine
        self._frames = frames

    def thread(self, target: Target, _action: Record, original: Any) -> Any:
        """What takes the place of `AsyncCompile.submit(task)`, which may as well run the task at once."""
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
        """What takes the place of `SubprocPool.submit(job, ...)`, which returns a future."""
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
        """The task as it is to be run by a thread; None to leave it as it is."""
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
            COMPILE_WORKER, {semconv.WORKER_KIND: kind}, placement=Below(around), observed=Observed(task, (), {})
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
