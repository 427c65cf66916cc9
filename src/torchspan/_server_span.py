# SPDX-License-Identifier: Apache-2.0
"""Which SERVER span of this process the current work lies below, at any depth.

A span knows the ids of its parent, not the parent. A context does not know the one that it was derived from. So the SERVER
span is noted in the context in which it becomes current. Every context derived from that one has the note as well, also in
tasks, threads and pools to which the context is propagated. Spans become current in `attach` of OpenTelemetry's runtime context,
whichever function of the API or of an instrumentation calls it. Those functions are often imported by name before torchspan is
instrumented, so they are not wrapped. The wrapper of `attach` adds one read of the context to each call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation import _SPAN_KEY  # what the API itself asks a context for

from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.patching import Function, Patches

KEY = context_api.create_key("torchspan-server-span")
"""Under it a context has a weak reference to the SERVER span: a worker that keeps a context keeps no span alive."""

Undo = Callable[[], None]


def note_server_spans() -> Undo:
    """From now on note SERVER spans that become current in their context. Returns the undo."""
    boundary = ErrorBoundary("Noting a SERVER span failed; compilations below it are not marked as `while_serving`.")
    patches = Patches()
    runtime = getattr(context_api, "_RUNTIME_CONTEXT", None)
    if runtime is not None:
        patches.replace_shared(type(runtime), "attach", lambda original: _attaching(boundary, original))

    def undo() -> None:
        boundary.close()
        patches.undo()

    return undo


def is_below_server_span() -> bool:
    """Whether an open SERVER span of this process is current, or was current where the current context comes from.

    A span that its sampler refused does not have a kind.
    """
    if _is_open_server(trace.get_current_span()):
        return True
    noted = context_api.get_value(KEY)
    return isinstance(noted, weakref.ref) and _is_open_server(noted())


def _attaching(boundary: ErrorBoundary, original: Function) -> Function:
    server, key = SpanKind.SERVER, _SPAN_KEY

    def attach(self: Any, context: Context) -> Any:
        try:
            is_servers = getattr(context.get(key), "kind", None) is server
        except Exception:  # what is attached may be anything, and so may be the span in it
            is_servers = False
        if is_servers and boundary.is_open:
            context = boundary.attempt(_noting, context) or context
        return original(self, context)

    return attach


def _noting(context: Context) -> Context:
    span: Span = trace.get_current_span(context)
    noted = context.get(KEY)
    if type(context) is not Context or (isinstance(noted, weakref.ref) and noted() is span):
        return context
    return Context({**context, KEY: weakref.ref(span)})


def _is_open_server(span: Any) -> bool:
    return getattr(span, "kind", None) is SpanKind.SERVER and getattr(span, "end_time", None) is None
