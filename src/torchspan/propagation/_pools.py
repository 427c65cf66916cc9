# SPDX-License-Identifier: Apache-2.0
"""Pools of processes: the context is propagated with the work item, never to the worker that happens to run it.

Items of pools of threads are propagated by `torchspan._context.threads`.
"""

from __future__ import annotations

import sys
from typing import Any

from opentelemetry import context as context_api

from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.patching import Function
from torchspan._base.reading import is_a
from torchspan._context.threads import Inside
from torchspan.propagation import _carrier
from torchspan.propagation._context import CONSEQUENCE, inside, outside

_WORKER = ErrorBoundary(CONSEQUENCE)


def item(boundary: ErrorBoundary, original: Function) -> Function:
    """The replacement of a method that takes a function as a work item, and may start workers while doing so."""

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        payload = boundary.attempt(_payload, self, args[0] if args else kwargs.get("func"))
        if payload is None:
            return original(self, *args, **kwargs)
        if args:
            return start(self, payload, *args[1:], **kwargs)
        return start(self, **{**kwargs, "func": payload})

    start = workers(boundary, original)
    return method


def workers(boundary: ErrorBoundary, original: Function) -> Function:
    """The replacement of a method that starts long-lived workers."""

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        left = boundary.attempt(outside)
        try:
            return original(self, *args, **kwargs)
        finally:
            if left is not None:
                boundary.end(left.leave)

    return method


def _payload(pool: Any, function: Any) -> Function | None:
    """The function with the current context; None to leave it unchanged, also if it is not a function."""
    if not callable(function) or _runs_in_threads(pool):
        return None
    return ItemPayload(function, _carrier.pack(context_api.get_current()))


class ItemPayload:
    """A function with the context of its submitter, as text. The worker process receives this object."""

    __slots__ = ("_carrier", "_function")

    def __init__(self, function: Function, carrier: dict[str, str]) -> None:
        self._function = function
        self._carrier = carrier

    def __reduce__(self) -> tuple[type[ItemPayload], tuple[Function, dict[str, str]]]:
        return type(self), (self._function, self._carrier)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in its context."""
        entered = _WORKER.attempt(self._enter)
        try:
            return self._function(*args, **kwargs)
        finally:
            if entered is not None:
                _WORKER.end(entered.leave)

    def _enter(self) -> Inside:
        return inside(_carrier.unpack(self._carrier))


def _runs_in_threads(pool: Any) -> bool:
    """`multiprocessing.pool.ThreadPool` is a Pool."""
    return is_a(pool, getattr(sys.modules.get("multiprocessing.pool"), "ThreadPool", ()))
