# SPDX-License-Identifier: Apache-2.0
"""Spans of `run`'s own provider, as the rest of the program sees them.

They are visible until the program sets a provider. From then on they do not count as spans: without `torchspan run` they
would not exist, so they must not become parents in the program's provider. The file keeps their ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wrapt
from opentelemetry.trace import INVALID_SPAN_CONTEXT, Span, SpanContext

from torchspan.hooks.propagation.private_api import tracer_provider

if TYPE_CHECKING:
    from typing_extensions import Self


class RunSpanContext(SpanContext):
    """The ids of a span of `run`'s own provider, of this process or of the one that started it.

    Attributes:
        local_root: The id of the outermost span of this process around it, below the span in which the process was
            started. None in a separate trace. torchspan's limits count by this id, because all these spans are in
            the one trace of the run.
    """

    local_root: int | None = None

    @property
    def is_valid(self) -> bool:
        """Whether others may refer to the span. False once the program has set a provider."""
        return tracer_provider() is None and super().is_valid


_PROXY: Any = wrapt.ObjectProxy


class OwnSpan(_PROXY):  # type: ignore[misc]
    """A span of `run`'s own provider, or of another process of the run: `span` with ids that become invalid.

    Everything else of it is that of `span`.
    """

    def __init__(self, span: Span, local_root: int | None = None) -> None:
        super().__init__(span)
        self._self_ids = owned(span.get_span_context(), local_root)

    def get_span_context(self) -> SpanContext:
        """The ids, while others may refer to them."""
        return self._self_ids if self._self_ids.is_valid else INVALID_SPAN_CONTEXT

    def __enter__(self) -> Self:
        self.__wrapped__.__enter__()  # of the SDK, whose end of the block records an exception
        return self


def owned(context: SpanContext, local_root: int | None = None) -> RunSpanContext:
    """The same ids, marked as those of a span of `run`'s own provider.

    Args:
        local_root: See `RunSpanContext`.
    """
    ids = RunSpanContext(context.trace_id, context.span_id, context.is_remote, context.trace_flags, context.trace_state)
    vars(ids)["local_root"] = local_root  # the base class refuses assignments
    return ids


def is_owned(context: SpanContext) -> bool:
    """Whether `context` is that of a span of `run`'s own provider."""
    return isinstance(context, RunSpanContext)
