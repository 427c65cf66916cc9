# SPDX-License-Identifier: Apache-2.0
"""What this process was started with: a TRACEPARENT in its environment, as a CI job, Kubernetes or our own side sets it."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace

from torchspan.imports import Undo
from torchspan.propagation import _carrier
from torchspan.propagation._context import StartContext, from_elsewhere
from torchspan.propagation._names import Function, Names

INSTRUMENTATIONS = "opentelemetry.instrumentation"
SERVING = "_start_internal_or_server_span"
"""What server instrumentations (ASGI, WSGI, …) call for each request. Below a current span they take the request for
internal work, and what its own headers say is not read."""


def variables() -> dict[str, str]:
    """The variables of a context in our environment, by name; empty in nearly every process."""
    return {name: os.environ[name] for name in _carrier.fields() if name in os.environ}


def install(names: Names, inherited: dict[str, str], *, as_parent: bool) -> Undo:
    """Make the inherited context the current one of this thread, unless a span is current already."""
    context = names.attempt(_context, inherited, not as_parent) if inherited else None
    if context is None:
        return _nothing
    before = context_api.get_current()
    context_api.attach(context)

    def undo() -> None:
        if isinstance(context, StartContext):
            context.forget()
        if context_api.get_current() is context:
            context_api.attach(before)

    return undo


def _context(inherited: dict[str, str], is_over: bool) -> Any:
    if trace.get_current_span().get_span_context().is_valid:
        return None
    return from_elsewhere(_carrier.unpack(inherited), lambda: is_over)


def watch_servers(names: Names, utils: ModuleType) -> None:
    """What begins to serve requests is a long-lived worker: its start is the parent of none, nor of what follows.

    utils: OpenTelemetry's module that defines `SERVING`; other instrumentations may have taken the name from it.
    """
    original = getattr(utils, SERVING, None)
    for name, module in list(sys.modules.items()):
        if original is not None and name.startswith(INSTRUMENTATIONS) and vars(module).get(SERVING) is original:
            names.replace(module, SERVING, lambda original: _serving(names, original))


def _serving(names: Names, original: Function) -> Function:
    def begin() -> None:
        context = context_api.get_current()
        if isinstance(context, StartContext):
            context.end()

    def start_span(*args: Any, **kwargs: Any) -> Any:
        names.attempt(begin)
        return original(*args, **kwargs)

    return start_span


def _nothing() -> None:
    pass
