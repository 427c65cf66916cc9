# SPDX-License-Identifier: Apache-2.0
"""Dynamo's lock: the wait of a thread for another thread's compilation is an event, with links to that compilation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from torchspan import _dynamo_safety, semconv
from torchspan.engine import DETACHED, Engine, Event, Observed
from torchspan.phase import COMPILE_WAIT
from torchspan.probes import Record, Target

LONG_NS = 1_000_000
"""A shorter wait has no event."""

LINKS_LIMIT = 8
"""Maximum number of compilations that one wait is linked to."""


class _Compiled(NamedTuple):
    """A compilation of the thread that has the lock. handle: represents its event in links."""

    handle: Any
    compile_id: str


class _Wait:
    """A thread that waits. compiled: the compilations of other threads meanwhile."""

    __slots__ = ("compiled", "start_ns")

    def __init__(self) -> None:
        self.compiled: list[_Compiled] = []
        self.start_ns = time.perf_counter_ns()

    def add(self, compiled: _Compiled) -> None:
        if compiled not in self.compiled and len(self.compiled) < LINKS_LIMIT:
            self.compiled.append(compiled)


class Open(Protocol):
    """Work that runs in a thread, with its event if it has one."""

    event: Event | None


class Waits:
    """The thread that compiles under Dynamo's lock, and the threads that wait for the lock. The state changes in steps that the GIL
    makes atomic: a separate lock would be another one that a compilation could wait for.

    open_here: returns the work that runs in the calling thread, innermost last. It must not raise an exception.
    """

    def __init__(self, engine: Engine, open_here: Callable[[], Sequence[Open]]) -> None:
        self._engine = engine
        self._open_here = open_here
        self._waiting: list[_Wait] = []
        self._compiled: _Compiled | None = None
        self._owner: int | None = None

    def wrap(self, target: Target, _action: Record, original: Any) -> Any:
        """The replacement for the lock. It uses the same lock, so threads that hold the lock already count."""
        return _FollowedLock(self, f"following {target}", original)

    def began(self, event: Event) -> None:
        """Record that the calling thread begins to compile; it may hold the lock."""
        if self._owner == threading.get_ident():
            self._compiles(event)

    def continues(self) -> None:
        """Record that the calling thread, which now holds the lock, is already compiling: a backward graph takes the lock late."""
        for each in reversed(self._open_here()):
            if each.event is not None and semconv.COMPILE_ID in each.event.attributes:
                self._compiles(each.event)
                return

    def begin(self) -> _Wait:
        """Begin a wait of the calling thread."""
        wait = _Wait()
        self._waiting.append(wait)
        compiled = self._compiled
        if compiled is not None:
            wait.add(compiled)
        return wait

    def end(self, wait: _Wait, acquire: Any) -> None:
        """End a wait."""
        taken_ns = time.perf_counter_ns() - wait.start_ns
        self._waiting.remove(wait)
        if taken_ns < LONG_NS:
            return
        around = self._engine.current
        now_ns = time.time_ns() if around is None else around.anchor.now_ns()
        event = self._engine.open(
            COMPILE_WAIT,
            {},
            placement=DETACHED,
            observed=Observed(acquire, (), {}),
            links=tuple(each.handle for each in wait.compiled),
            at_ns=now_ns - taken_ns,
        )
        if event is not None:
            if wait.compiled:
                event.additions[semconv.WAIT_IDS] = [each.compile_id for each in wait.compiled]
            self._engine.close(event)

    def _compiles(self, event: Event) -> None:
        compile_id = event.attributes.get(semconv.COMPILE_ID)
        if event.handle is None or compile_id is None:
            return
        self._compiled = _Compiled(event.handle, compile_id)
        for each in list(self._waiting):
            each.add(self._compiled)


class _FollowedLock:
    """A reentrant lock that does the same as `original`, and records threads that have to wait.

    Every frame takes the lock, and few have to wait. Without a wait, nothing is called that may raise and would need a guard.
    """

    __slots__ = ("_depth", "_name", "_original", "_try", "_waits")

    def __init__(self, waits: Waits, name: str, original: Any) -> None:
        self._waits = waits
        self._name = name
        self._original = original
        self._try = original.acquire
        self._depth = 0
        """Number of times that the owner has taken the lock. Only the owner changes it."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As `threading.RLock.acquire`."""
        taken: bool = self._try(False)
        if not taken and blocking:
            taken = self._wait(timeout)
        if taken:
            self._depth += 1
            if self._depth == 1:
                waits = self._waits
                waits._owner = threading.get_ident()
                if waits._open_here():
                    self._guarded(waits.continues)
        return taken

    def release(self) -> None:
        """As `threading.RLock.release`."""
        waits = self._waits
        if self._depth == 1 and waits._owner == threading.get_ident():
            waits._owner = waits._compiled = None
        self._depth -= 1
        try:
            self._original.release()
        except BaseException:  # from a thread that does not hold the lock
            self._depth += 1
            raise

    def _wait(self, timeout: float) -> bool:
        wait = self._guarded(self._waits.begin)
        try:
            return bool(self._original.acquire(True, timeout))
        finally:
            if wait is not None:
                self._guarded(self._waits.end, wait, self._original.acquire)

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Any:
        return _dynamo_safety.undisturbed(self._waits._engine.guard.call, self._name, function, *args)

    __enter__ = acquire

    def __exit__(self, *_exception: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
