# SPDX-License-Identifier: Apache-2.0
"""Which work of this process lies below an open SERVER span, at any depth.

A span knows the ids of its parent, not the parent. So a span processor of torchspan's remembers, for each open span below a SERVER
span, which one that is. It is added to a provider once, for the life of the process, because a provider cannot remove one. After
`stop` it does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanContext, SpanKind

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.by_identity import ByIdentity

REMEMBERED = 10_000
"""Maximum number of open spans that are remembered. Spans that begin beyond that count as outside every request."""

_Ids = tuple[int, int]


class ServerSpans:
    """The open SERVER spans of this process, and the open spans below them.

    Of spans that began before their provider was watched, or whose provider takes no span processor, only the current one is
    recognized. A span that its sampler refused has no kind.
    """

    def __init__(self) -> None:
        self.processor: Any = None
        """The span processor; None before the first provider is watched."""
        self._watched: ByIdentity[bool] = ByIdentity()
        """The providers: one may have no hash, as that of Logfire, which is a dataclass."""
        self._servers: dict[_Ids, _Ids] = {}
        """The ids of an open span -> those of the SERVER span around it, or of itself."""
        self._is_active = False
        self._boundary = _boundary()

    def start(self) -> Callable[[], None]:
        """Remember from now on. Returns the function that stops it."""
        self._is_active, self._boundary = True, _boundary()
        return self.stop

    def stop(self) -> None:
        """Remember nothing any more."""
        self._is_active = False
        self._servers.clear()

    def watch(self, provider: Any) -> None:
        """Remember the spans of `provider`, if it is one of the SDK."""
        if self._is_active and "opentelemetry.sdk.trace" in sys.modules:
            self._boundary.attempt(self._add_to, provider)

    def is_around(self) -> bool:
        """Whether the current span is an open SERVER span, or lies below one."""
        span = trace.get_current_span()
        if getattr(span, "kind", None) is SpanKind.SERVER:
            return getattr(span, "end_time", None) is None
        server = self._servers.get(_ids(span.get_span_context()))
        return server is not None and server in self._servers

    def _add_to(self, provider: Any) -> None:
        if self._watched.get(provider) or not hasattr(provider, "add_span_processor"):
            return
        if self.processor is None:
            self.processor = self._make_processor()
        self._watched[provider] = True
        provider.add_span_processor(self.processor)

    def _make_processor(self) -> Any:
        from opentelemetry.sdk.trace import SpanProcessor

        class ServerSpanProcessor(SpanProcessor):
            """Passes the start and the end of each span on."""

            def on_start(_self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002, N805
                if self._is_active and (self._servers or span.kind is SpanKind.SERVER):
                    self._boundary.attempt(self._started, span)

            def on_end(_self, span: Any) -> None:  # noqa: N805
                if self._servers:
                    self._boundary.attempt(self._ended, span)

        return ServerSpanProcessor()

    def _started(self, span: Any) -> None:
        ids = _ids(span.get_span_context())
        if span.kind is SpanKind.SERVER:
            server: _Ids | None = ids
        else:
            server = None if span.parent is None else self._servers.get(_ids(span.parent))
        if server is not None and len(self._servers) < REMEMBERED:
            self._servers[ids] = server

    def _ended(self, span: Any) -> None:
        self._servers.pop(_ids(span.get_span_context()), None)


def _boundary() -> ErrorBoundary:
    return ErrorBoundary("Remembering a SERVER span failed; compilations below it are not marked as `while_serving`.")


def _ids(context: SpanContext) -> _Ids:
    return context.trace_id, context.span_id


SERVER_SPANS = ServerSpans()
"""The one instance of the process."""
