# SPDX-License-Identifier: Apache-2.0
"""Everything that the tests made torchspan emit, for the comparison with the attribute table (`tools/contract.py`)."""

import re
from collections import Counter

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from support import run_log
from torchspan.words import phase, semconv

_ROWS = {str(row): row for row in semconv.ATTRIBUTES}
_OF_RESOURCES = {str(row) for row in semconv.ATTRIBUTES if row.resource}
_NAMES = {each.name for each in phase.SPANS}
_TYPES = {bool: "boolean", int: "int", float: "double", str: "string"}


def type_of(value):
    """The attribute table's name of a value's type."""
    if isinstance(value, (list, tuple)):
        kinds = {_TYPES[type(each)] for each in value}
        return f"{kinds.pop()}[]" if len(kinds) == 1 else "empty" if not kinds else f"mixed {kinds}"
    return _TYPES[type(value)]


def _type_in_table(key, value):
    """The type, and whether the value passed the gate: a kind that lets more through where texts are captured is not asked."""
    kind = getattr(_ROWS.get(key), "kind", None)
    entries = [value] if isinstance(value, str) else value
    if kind is None or kind.leaves_with_text is not None or not isinstance(entries, (list, tuple)):
        return type_of(value)
    refused = any(isinstance(each, str) and not kind.accepts(each) for each in entries)
    return f"{type_of(value)} that its kind refuses" if refused else type_of(value)


def _shape(name, attributes):
    """What makes two samples differ: the name, the keys, and the values of enumerations."""
    enumerated = {key for key in attributes if isinstance(getattr(_ROWS.get(key), "kind", None), semconv.Enumeration)}
    return name, tuple(sorted((key, str(value) if key in enumerated else "") for key, value in attributes.items()))


class Emitted(SpanExporter):
    """Writes each span name, attribute and metric to the log of the run, once a process, in the kinds of `tools/suite_run.py`.

    A sample is one of them with its values, for Weaver: the first with these names and these values of enumerations.
    """

    def __init__(self):
        self._written = set()

    def add_metric(self, metric):
        """Write what an exported metric is, with the keys and types of the attributes of each of its points."""
        for point in metric.data.data_points:
            self._add(
                "metric",
                name=metric.name,
                instrument=type(metric.data).__name__,
                is_monotonic=getattr(metric.data, "is_monotonic", None),
                unit=metric.unit,
                bounds=tuple(getattr(point, "explicit_bounds", ())),
                attributes=tuple(sorted((key, _type_in_table(key, value)) for key, value in point.attributes.items())),
            )
            self._add_sample("metric", metric.name, point.attributes)

    def add_log_record(self, record):
        """Write what a log record is: an event of a span. The name of an exception's begins with that of the span."""
        span, event = "a log record", record.event_name
        if event.endswith(".exception"):
            span, _, event = event.rpartition(".")
        for key, value in record.attributes.items():
            self._add("attribute", span=span, event=event, key=key, type=_type_in_table(key, value))
        if event != "?":  # the name of an event that only a test makes
            self._add_sample("log", record.event_name, record.attributes)

    def export(self, spans):
        for span in spans:
            events = [(each.name, each.attributes) for each in span.events]
            if span.instrumentation_scope.name != semconv.SCOPE_NAME:
                for key, value in span.attributes.items():
                    self._add("user_attribute", key=key, type=_type_in_table(key, value))
                self._add_attributes("a user's span", [each for each in events if each[0].startswith("torchspan.")])
                continue
            self._add("span", name=span.name)
            self._add_attributes(span.name, [(None, span.attributes), *events])
            self._add_sample("span", span.name, span.attributes, events)
            self._add_operators(span)
        return SpanExportResult.SUCCESS

    def _add_attributes(self, span, places):
        """places: the name of an event, None for the span itself, with the attributes there."""
        for event, attributes in places:
            for key, value in attributes.items():
                self._add("attribute", span=span, event=event, key=key, type=_type_in_table(key, value))

    def add_file(self, spans):
        """Write what spans of a file of `torchspan run` are, with the attributes that their resources have there.

        Spans with names that are in no table are tests' own: such a file has the same spans as other exporters.
        """
        for span in spans:
            self.add_resource(span.resource)
            if span.scope == semconv.SCOPE_NAME and span.name in _NAMES:
                self._add("span", name=span.name)
                self._add_operators(span)
                for key, value in span.attributes.items():
                    if key.startswith(semconv.LOCAL):
                        assert _ROWS[re.sub(r"^events\.\d+\.", "", key.removeprefix(semconv.LOCAL))].kind.is_local
                    else:
                        self._add("attribute", span=span.name, event=None, key=key, type=_type_in_table(key, value))

    def _add_sample(self, signal, name, attributes, events=()):
        """Write one with its values. events: name and attributes of each; of those with the same keys the first."""
        firsts = {_shape(*event): [event[0], dict(event[1])] for event in reversed(list(events))}
        row = ("sample", signal, _shape(name, attributes), tuple(sorted(firsts)))
        if row not in self._written:
            self._written.add(row)
            run_log.write("sample", signal=signal, name=name, attributes=dict(attributes), events=list(firsts.values()))

    def _add_operators(self, span):
        """Write how many operators of a graph stay in PyTorch, and how many its lists of fallback count and name, by reason."""
        a = span.attributes
        total = a.get(semconv.OPERATORS_TOTAL)
        in_tensorrt = a.get(semconv.OPERATORS_TENSORRT)
        if in_tensorrt is None and span.name == phase.PARTITION.name:
            in_tensorrt = a.get(semconv.OPERATORS_PLANNED)
        if total is None or in_tensorrt is None:
            return  # it failed, or it was a dry run
        counted = zip(
            a.get(semconv.FALLBACK_TOTAL_REASONS, ()), a.get(semconv.FALLBACK_TOTAL_OPERATORS, ()), strict=True
        )
        named = Counter()
        reasons, counts = a.get(semconv.FALLBACK_OPERATOR_REASONS, ()), a.get(semconv.FALLBACK_OPERATOR_COUNTS, ())
        for reason, count in zip(reasons, counts, strict=True):
            named[reason] += count
        self._add(
            "operators",
            span=span.name,
            left=total - in_tensorrt,
            counted=tuple(sorted(counted)),
            named=tuple(sorted(named.items())),
            omitted=a.get(semconv.FALLBACK_OPERATORS_OMITTED, 0),
        )

    def add_resource(self, attributes):
        """Write which attributes of the table a resource has, and their types."""
        for key, value in attributes.items():
            if key in _OF_RESOURCES:
                self._add("resource_attribute", key=key, type=_type_in_table(key, value))

    def _add(self, kind, **fields):
        row = (kind, *fields.values())
        if row not in self._written:
            self._written.add(row)
            run_log.write(kind, **fields)


EMITTED = Emitted()
