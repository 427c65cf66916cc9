# SPDX-License-Identifier: Apache-2.0
"""Threads: each sees the context in which it was started, whatever its class overrides."""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import Any

from opentelemetry import context as context_api
from opentelemetry.context import Context

from torchspan.propagation._context import Attached, at_start
from torchspan.propagation._names import Function, Names


def starting(names: Names, original: Function) -> Function:
    """What replaces `threading.Thread.start`, and with it that of every subclass, Timer among them."""
    if sys.version_info >= (3, 14):
        return _start_with_own_context(names, original)
    waiting: dict[int, Context] = {}
    """What a thread that is being started will see, by the id of its object: no attribute is put on it."""
    names.replace(threading.Thread, "_bootstrap_inner", lambda original: _bootstrap(waiting, original))
    return _start(names, waiting, original)


def _start(names: Names, waiting: dict[int, Context], original: Function) -> Function:
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        context = names.attempt(at_start)
        if context is None:
            return original(self, *args, **kwargs)
        waiting[id(self)] = context
        try:
            # Current meanwhile: another instrumentation that carries what is current then carries this.
            with Attached(context):
                return original(self, *args, **kwargs)
        finally:
            waiting.pop(id(self), None)

    return start


def _bootstrap(waiting: dict[int, Context], original: Function) -> Function:
    def bootstrap(self: Any) -> Any:
        context = waiting.pop(id(self), None)
        if context is not None:
            context_api.attach(context)  # for the thread's whole life: it ends with the thread
            del context
        return original(self)

    return bootstrap


def _start_with_own_context(names: Names, original: Function) -> Function:
    """Since Python 3.14 a thread has a `contextvars.Context` of its own, in which `run` is called.

    It is a copy of the caller's where `thread_inherit_context` is set, and then what is current here arrives by itself; else
    it is empty, and made here. One that the program gave is left as it is.
    """

    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        context = names.attempt(at_start)
        if context is None:
            return original(self, *args, **kwargs)
        given: contextvars.Context | None = None
        if getattr(self, "_context", self) is None and not getattr(sys.flags, "thread_inherit_context", False):
            self._context = given = contextvars.Context()
            given.run(context_api.attach, context)
        try:
            with Attached(context):
                return original(self, *args, **kwargs)
        except BaseException:
            if given is not None and self._context is given:
                self._context = None
            raise

    return start
