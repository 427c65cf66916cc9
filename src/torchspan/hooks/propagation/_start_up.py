# SPDX-License-Identifier: Apache-2.0
"""The context that this process was started with: a TRACEPARENT in its environment, set by a CI job, Kubernetes or torchspan."""

from __future__ import annotations

import os
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.import_hooks import Undo
from torchspan.hooks.propagation import _carrier
from torchspan.hooks.propagation._context import StartContext, from_elsewhere

INHERITED: dict[str, str] = {}
"""The variables of a context that this process was started with, while torchspan is instrumented."""


def install(boundary: ErrorBoundary, *, as_parent: bool) -> Undo:
    """Make the inherited context the current one of this thread, unless a span is current already."""
    INHERITED.update((name, os.environ[name]) for name in _carrier.fields() if name in os.environ)
    context = boundary.attempt(_context, as_parent) if INHERITED else None
    before = context_api.get_current()
    if context is not None:
        context_api.attach(context)

    def undo() -> None:
        INHERITED.clear()
        if isinstance(context, StartContext):
            context.forget()
        if context is not None and context_api.get_current() is context:
            context_api.attach(before)

    return undo


def _context(as_parent: bool) -> Any:
    if trace.get_current_span().get_span_context().is_valid:
        return None
    return from_elsewhere(_carrier.unpack(INHERITED), lambda: not as_parent)
