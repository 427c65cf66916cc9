# SPDX-License-Identifier: Apache-2.0
"""Pools: the context follows the work item, never the worker that happens to run it."""

from __future__ import annotations

import functools
import sys
from typing import Any

from opentelemetry import context as context_api

from torchspan._base.patching import Function, Names
from torchspan._base.threads import within
from torchspan.propagation import _carrier
from torchspan.propagation._context import EMPTY, Attached


def item(names: Names, original: Function) -> Function:
    """What replaces a method that takes a function as a work item, and may start workers on the way."""

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        carried = names.attempt(_work_item, self, args[0] if args else kwargs.get("func"))
        if carried is None:
            return original(self, *args, **kwargs)
        if args:
            args = (carried, *args[1:])
        else:
            kwargs["func"] = carried
        with Attached(EMPTY):
            return original(self, *args, **kwargs)

    return method


def workers(_names: Names, original: Function) -> Function:
    """What replaces a method that starts long-lived workers."""

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        with Attached(EMPTY):
            return original(self, *args, **kwargs)

    return method


def _work_item(pool: Any, function: Any) -> Function | None:
    """The function in the current context; None to leave it as it is, what is no function included."""
    if not callable(function):
        return None
    if _runs_in_threads(pool):
        return functools.partial(within, functools.partial(Attached, context_api.get_current()), function)
    return Parcel(function, _carrier.pack(context_api.get_current()))


class Parcel:
    """A function with the context of who submitted it, as text: what a worker process gets."""

    __slots__ = ("_carrier", "_function")

    def __init__(self, function: Function, carrier: dict[str, str]) -> None:
        self._function = function
        self._carrier = carrier

    def __reduce__(self) -> tuple[type[Parcel], tuple[Function, dict[str, str]]]:
        return type(self), (self._function, self._carrier)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in its context."""
        with Attached(_carrier.unpack(self._carrier)):
            return self._function(*args, **kwargs)


def _runs_in_threads(pool: Any) -> bool:
    """`multiprocessing.pool.ThreadPool` is a Pool."""
    return isinstance(pool, getattr(sys.modules.get("multiprocessing.pool"), "ThreadPool", ()))
