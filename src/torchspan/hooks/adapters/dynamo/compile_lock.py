# SPDX-License-Identifier: Apache-2.0
"""Dynamo's lock: the wait of a thread for another thread's compilation is an event, with links to that compilation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from torchspan.base import dynamo_safety
from torchspan.engine import DETACHED, Engine, Event, Observed
from torchspan.hooks.probes import Record, Target
from torchspan.hooks.probes.describe import frames
from torchspan.words import semconv
from torchspan.words.phase import COMPILE_WAIT

LINKS_LIMIT = 8
"""Maximum number of compilations that one wait is linked to."""


class _Wait:
    """A thread that waits. compiled: the compilations of other threads meanwhile, by id, each with what represents its event in links."""

    __slots__ = ("compiled", "event")

    def __init__(self) -> None:
        self.compiled: dict[str, Any] = {}
        self.event: Event | None = None

    def add(self, compiled: dict[str, Any]) -> None:
        if len(self.compiled) < LINKS_LIMIT:
            self.compiled.update(compiled)

    def facts(self) -> dict[str, Any]:
        """The ids of the compilations, in their order."""
        return {semconv.WAIT_IDS: list(self.compiled)} if self.compiled else {}


class Waits:
    """The thread that compiles under Dynamo's lock, and the threads that wait for the lock. The state changes in steps that the GIL
    makes atomic: a separate lock would be another one that a compilation could wait for.

    Args:
        open_here: Returns the work that runs in the calling thread, innermost last, each with its `event` if it has one. It must
            not raise an exception.
        code_here: Returns the code that the calling thread is about to compile; None if that is not known.
    """

    long_s = 0.001
    """A shorter wait has no event."""

    def __init__(
        self,
        engine: Engine,
        open_here: Callable[[], Sequence[Any]],
        code_here: Callable[[], CodeType | None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._code_here = code_here
        self._open_here = open_here
        self._waiting: list[_Wait] = []
        self._compiled: dict[str, Any] = {}
        """The compilation of the thread that has the lock, as in `_Wait`."""
        self._is_owned: Callable[[], bool] = lambda: False

    def wrap(self, target: Target, _action: Record, original: Any) -> Any:
        """The replacement for the lock. It uses the same lock, so threads that hold the lock already count."""
        self._is_owned = original._is_owned
        return _FollowedLock(self, f"following {target}", original)

    def began(self, event: Event) -> None:
        """Record that the calling thread begins to compile; it may hold the lock."""
        if self._is_owned():
            self._compiles(event)

    def continues(self) -> None:
        """Record that the calling thread, which now holds the lock, is already compiling: a backward graph takes the lock late."""
        for wait in reversed(self._open_here()):
            if wait.event is not None and semconv.COMPILE_ID in wait.event.attributes:
                self._compiles(wait.event)
                return

    def begin(self, wait: _Wait, acquire: Any) -> None:
        """Begin a wait of the calling thread, which has already lasted `long_s`."""
        self._waiting.append(wait)
        wait.add(self._compiled)
        around = self._engine.current
        now_ns = time.time_ns() if around is None else around.anchor.now_ns()
        wait.event = self._engine.open(
            COMPILE_WAIT,
            {**frames.function(self._code_here()), **wait.facts()},
            placement=DETACHED,
            observed=Observed(acquire, (), {}),
            links=tuple(wait.compiled.values()),
            at_ns=now_ns - round(self.long_s * 1e9),
        )

    def end(self, wait: _Wait) -> None:
        """End a wait, which an exception may have kept from beginning."""
        if wait in self._waiting:
            self._waiting.remove(wait)
        if wait.event is not None:
            wait.event.additions.update(wait.facts())
            wait.event.links = tuple(wait.compiled.values())
            self._engine.close(wait.event)

    def _compiles(self, event: Event) -> None:
        compile_id = event.attributes.get(semconv.COMPILE_ID)
        if event.handle is None or compile_id is None:
            return
        self._compiled = {compile_id: event.handle}
        for wait in list(self._waiting):
            wait.add(self._compiled)


class _FollowedLock:
    """A reentrant lock that does the same as `original`, and records the threads that have to wait in a `with` statement.

    Ctrl-C may raise an exception at the beginning of any Python function, and after any call in one. So `original` itself releases the
    lock and takes it once more, and the function that takes it first releases it if it is interrupted.

    No guard is around these functions, so they are short, and call through one.
    """

    __slots__ = ("__exit__", "_name", "_original", "_waits")

    def __init__(self, waits: Waits, name: str, original: Any) -> None:
        self._waits = waits
        self._name = name
        self._original = original
        self.__exit__ = original.__exit__

    @property
    def __enter__(self) -> Callable[[], bool]:
        return self._original.__enter__ if self._original._is_owned() else self._take

    def _take(self) -> bool:
        try:
            is_taken = self._original.acquire(timeout=self._waits.long_s) or self._wait()
            self._waits._compiled = {}
            if self._waits._open_here():
                self._guarded(self._waits.continues)
            return is_taken
        except BaseException:
            self._give_back()
            raise

    def _give_back(self) -> None:
        if self._original._is_owned():
            self._original.release()

    def _wait(self) -> bool:
        wait = _Wait()
        try:
            self._guarded(self._waits.begin, wait, self._original.acquire)
            return bool(self._original.acquire())
        finally:
            self._guarded(self._waits.end, wait)

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Any:
        return dynamo_safety.undisturbed(self._waits._engine.guard.call, self._name, function, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
