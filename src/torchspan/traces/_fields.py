# SPDX-License-Identifier: Apache-2.0
"""The messages of OTLP, as far as they hold text: which field is which part of what was recorded.

Source: https://github.com/open-telemetry/opentelemetry-proto
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


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


class Message(dict[str, Any]):
    """A message of OTLP: its fields, each with a Part for a text, `Attributes`, `Ids`, `Value` or another message.

    A field that is not here has numbers and booleans.
    """


class Attributes(NamedTuple):
    """A field that is a list of attributes."""

    part: Part


class Ids(NamedTuple):
    """A field that is the id of a trace or a span, in hexadecimal digits."""


class Value(NamedTuple):
    """A field that is a value of any type, as an attribute's is."""

    part: Part


_IDS = {key: Ids() for key in ("traceId", "spanId", "parentSpanId")}
_RESOURCE = Message(attributes=Attributes(Part.RESOURCE_ATTRIBUTE))
_SCOPE = Message(name=Part.SCOPE, version=Part.SCOPE_VERSION, attributes=Attributes(Part.SCOPE_ATTRIBUTE))
_SPAN = Message(
    **_IDS,
    traceState=Part.TRACE_STATE,
    name=Part.NAME,
    attributes=Attributes(Part.ATTRIBUTE),
    events=Message(name=Part.EVENT, attributes=Attributes(Part.EVENT_ATTRIBUTE)),
    links=Message(**_IDS, traceState=Part.TRACE_STATE, attributes=Attributes(Part.LINK_ATTRIBUTE)),
    status=Message(message=Part.STATUS),
)
_MEASUREMENTS = Message(
    dataPoints=Message(
        attributes=Attributes(Part.MEASUREMENT_ATTRIBUTE),
        exemplars=Message(**_IDS, filteredAttributes=Attributes(Part.MEASUREMENT_ATTRIBUTE)),
        positive=Message(),
        negative=Message(),
        quantileValues=Message(),
    )
)
_METRIC = Message(
    name=Part.METRIC,
    description=Part.METRIC_TEXT,
    unit=Part.UNIT,
    metadata=Attributes(Part.MEASUREMENT_ATTRIBUTE),
    **dict.fromkeys(("gauge", "sum", "histogram", "exponentialHistogram", "summary"), _MEASUREMENTS),
)
_LOG = Message(
    **_IDS,
    severityText=Part.LOG_TEXT,
    eventName=Part.LOG_EVENT,
    body=Value(Part.LOG_TEXT),
    attributes=Attributes(Part.LOG_ATTRIBUTE),
)


def _of_resource(kind: str, scoped: str, message: Message) -> tuple[str, Message]:
    within = Message({"scope": _SCOPE, "schemaUrl": Part.SCHEMA, scoped: message})
    return f"resource{kind}", Message({"resource": _RESOURCE, "schemaUrl": Part.SCHEMA, f"scope{kind}": within})


DOCUMENT = Message(
    [
        _of_resource("Spans", "spans", _SPAN),
        _of_resource("Metrics", "metrics", _METRIC),
        _of_resource("Logs", "logRecords", _LOG),
    ]
)
"""What a file holds: a request with spans, metrics or log records."""
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
