# SPDX-License-Identifier: Apache-2.0
"""Notifies of the end of spans that another part of the program opened.

OpenTelemetry's API has no event for that, and a span processor belongs to a provider that may be the user's. So `end` is
replaced on the class of a watched span, once for all of torchspan, while a span is watched. Nothing here imports
OpenTelemetry: any object with `is_recording()` and `end()` is a span.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from torchspan.base import forks
from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.by_identity import ByIdentity
from torchspan.base.logs import Log
from torchspan.base.patching import Function, Patches

logger = Log("torchspan")

Callback = Callable[[Any], object]

_CONSEQUENCE = "A callback before the end of a span failed; the span ends as usual."
_ENDING = ErrorBoundary(_CONSEQUENCE)

CLASSES_LIMIT = 100
"""Classes of spans that are remembered: a program may make classes at run time. The `end` of further ones is not replaced."""


class SpanEnds:
    """Calls back just before a span ends, while attributes can still be written.

    It keeps no span alive: one that is released without an end is forgotten. Every method may be called from any thread.
    """

    def __init__(self) -> None:
        self._boundary = ErrorBoundary(_CONSEQUENCE)

    def watch(self, span: Any, callback: Callback) -> bool:
        """Call `callback(span)` once, when `span.end` is called and before it does anything. Returns whether that will happen.

        It will not happen for a span that does not record, for one whose class cannot be changed, for one that cannot be
        referenced weakly, and after `close`. Several callbacks of one span run in the order of these calls. An exception of a
        callback is logged once and does not reach the caller of `end`. A span that another thread is ending meanwhile may be missed.
        A callback that refers to the span keeps it alive.
        """
        if not (self._boundary.is_open and span.is_recording()):
            return False
        try:
            _replace_end(type(span), self)
            callbacks = _WATCHED.setdefault(span, deque())
        except (TypeError, AttributeError, StopIteration):
            logger.debug("The end of a %s cannot be watched.", type(span), exc_info=True)
            return False
        callbacks.append((self, callback))
        return True

    def close(self) -> None:
        """Call nothing from now on. `end` is restored when the last `SpanEnds` that watched is closed."""
        self._boundary.close()
        with forks.SWITCHING:
            _EndsState.users.discard(self)
            if not _EndsState.users:
                _WATCHED.held.clear()
                _EndsState.classes.clear()
                _EndsState.patches.undo()

    def call(self, callback: Callback, span: Any) -> None:
        """Call `callback(span)`, whatever it raises. Does nothing after `close`."""
        self._boundary.attempt(callback, span)


_WATCHED: ByIdentity[deque[tuple[SpanEnds, Callback]]] = ByIdentity()
"""The callbacks of each span that is watched."""


class _EndsState:
    """One for the process. Changed only under the lock."""

    users: set[SpanEnds] = set()  # noqa: RUF012 - one for the process
    classes: set[type] = set()  # noqa: RUF012
    """Classes that are known to have a replaced `end`, of their own or inherited."""
    patches = Patches()


def _replace_end(kind: type, user: SpanEnds) -> None:
    """Replace `end` on `kind`, or on the class from which `kind` inherits it, unless that has been done."""
    if kind in _EndsState.classes and user in _EndsState.users:
        return
    with forks.SWITCHING:
        _EndsState.users.add(user)
        holder = next(base for base in kind.__mro__ if "end" in vars(base))
        if holder not in _EndsState.classes:
            if len(_EndsState.classes) >= CLASSES_LIMIT:
                raise TypeError(f"the ends of {CLASSES_LIMIT} classes are watched already")
            _EndsState.patches.replace_shared(holder, "end", _ending)
        if len(_EndsState.classes) < CLASSES_LIMIT:
            _EndsState.classes.update((holder, kind))


def _ending(original: Function) -> Function:
    def end(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if id(self) in _WATCHED.held:
            _ENDING.attempt(_notify, self)
        return original(self, *args, **kwargs)

    return end


def _notify(span: Any) -> None:
    callbacks = _WATCHED.pop(span)
    while callbacks:
        user, callback = callbacks.popleft()
        user.call(callback, span)
