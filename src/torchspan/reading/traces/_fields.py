# SPDX-License-Identifier: Apache-2.0
"""The messages of OTLP, as far as they hold text: which field is which part of what was recorded.

Source: https://github.com/open-telemetry/opentelemetry-proto
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class Part(enum.Enum):
    """The part of a span, a measurement, a log record or a resource to which a string belongs."""

    NAME = "name of spans"
    ATTRIBUTE = "attribute"
    EVENT = "name of events"
    EVENT_ATTRIBUTE = "attribute of events"
    STATUS = "status"
    LINK_ATTRIBUTE = "attribute of links"
    METRIC = "name of metrics"
    METRIC_TEXT = "description of metrics"
    UNIT = "unit of metrics"
    MEASUREMENT_ATTRIBUTE = "attribute of measurements"
    LOG_EVENT = "name of log records"
    LOG_ATTRIBUTE = "attribute of log records"
    LOG_TEXT = "text of log records"
    SCOPE = "name of the scope"
    SCOPE_VERSION = "version of the scope"
    SCOPE_ATTRIBUTE = "attribute of the scope"
    RESOURCE_ATTRIBUTE = "attribute of the resource"
    SCHEMA = "schema"
    TRACE_STATE = "trace state"
    ID = "id"
    OTHER = "other field"


TEXTS: Mapping[tuple[str, str], Part] = {
    ("spans", "name"): Part.NAME,
    ("events", "name"): Part.EVENT,
    ("status", "message"): Part.STATUS,
    ("metrics", "name"): Part.METRIC,
    ("metrics", "description"): Part.METRIC_TEXT,
    ("metrics", "unit"): Part.UNIT,
    ("logRecords", "severityText"): Part.LOG_TEXT,
    ("logRecords", "body"): Part.LOG_TEXT,
    ("logRecords", "eventName"): Part.LOG_EVENT,
    ("scope", "name"): Part.SCOPE,
    ("scope", "version"): Part.SCOPE_VERSION,
}
"""Fields with a text, by the message that has them and their own name."""
ANYWHERE: Mapping[str, Part] = {
    "schemaUrl": Part.SCHEMA,
    "traceState": Part.TRACE_STATE,
    **dict.fromkeys(("traceId", "spanId", "parentSpanId"), Part.ID),
}
"""Fields with a text whatever message has them."""
ATTRIBUTES: Mapping[str, Part] = {
    "resource": Part.RESOURCE_ATTRIBUTE,
    "scope": Part.SCOPE_ATTRIBUTE,
    "spans": Part.ATTRIBUTE,
    "events": Part.EVENT_ATTRIBUTE,
    "links": Part.LINK_ATTRIBUTE,
    "logRecords": Part.LOG_ATTRIBUTE,
    **dict.fromkeys(("metrics", "dataPoints", "exemplars"), Part.MEASUREMENT_ATTRIBUTE),
}
"""Messages with attributes."""
OF_ATTRIBUTES = frozenset({"attributes", "filteredAttributes", "metadata"})
"""Their fields that are a list of attributes."""
SCOPED = frozenset({"scopeSpans", "scopeMetrics", "scopeLogs"})
"""Messages with a scope."""
MESSAGES = (
    SCOPED
    | ATTRIBUTES.keys()
    | {"resourceSpans", "resourceMetrics", "resourceLogs", "status"}
    | {"gauge", "sum", "histogram", "exponentialHistogram", "summary", "positive", "negative", "quantileValues"}
)
"""Fields that are messages."""
WITHOUT_TEXT = frozenset(
    {
        "startTimeUnixNano",
        "endTimeUnixNano",
        "timeUnixNano",
        "observedTimeUnixNano",
        "kind",
        "code",
        "flags",
        "droppedAttributesCount",
        "droppedEventsCount",
        "droppedLinksCount",
        "severityNumber",
        "aggregationTemporality",
        "isMonotonic",
        "asInt",
        "asDouble",
        "count",
        "sum",
        "min",
        "max",
        "scale",
        "zeroCount",
        "zeroThreshold",
        "offset",
        "bucketCounts",
        "explicitBounds",
        "quantile",
        "value",
    }
)
"""Fields that hold numbers and booleans."""
