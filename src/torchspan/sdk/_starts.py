# SPDX-License-Identifier: Apache-2.0
"""The record of the start of long work, which torchspan's own files alone have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from torchspan import phase
from torchspan._base.ids import IDS


def start_of(
    work: SpanContext,
    attributes: Mapping[str, Any],
    start_ns: int,
    *,
    scope: InstrumentationScope | None,
    resource: Resource | None,
) -> ReadableSpan:
    """A `torchspan.progress` of no length below the span `work`, at `start_ns` nanoseconds since 1970."""
    own_id = IDS.generate_span_id()
    return ReadableSpan(
        phase.PROGRESS.name,
        SpanContext(work.trace_id, own_id, is_remote=False, trace_flags=work.trace_flags),
        parent=work,
        resource=resource,
        attributes=attributes,
        start_time=start_ns,
        end_time=start_ns,
        instrumentation_scope=scope,
    )
