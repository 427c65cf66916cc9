# SPDX-License-Identifier: Apache-2.0
"""The record of the start of long work, which torchspan's own files alone have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from torchspan.words import phase
from torchspan.words.sampling.ids import IDS


def start_of(
    work: SpanContext,
    attributes: Mapping[str, Any],
    start_ns: int,
    *,
    scope: InstrumentationScope | None,
    resource: Resource | None,
) -> ReadableSpan:
    """A `torchspan.progress` of no length below the span `work`, at `start_ns` nanoseconds since 1970.

    The attributes obey the limits that the environment sets, as those of all spans do.
    """
    limits = SpanLimits()
    own_id = IDS.generate_span_id()
    return ReadableSpan(
        phase.PROGRESS.name,
        SpanContext(work.trace_id, own_id, is_remote=False, trace_flags=work.trace_flags),
        parent=work,
        resource=resource,
        attributes=BoundedAttributes(
            limits.max_span_attributes, attributes, max_value_len=limits.max_span_attribute_length
        ),
        start_time=start_ns,
        end_time=start_ns,
        instrumentation_scope=scope,
    )
