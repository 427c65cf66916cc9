# SPDX-License-Identifier: Apache-2.0
"""Events that are added without the SDK's check of each value, compared with those that its `add_event` makes."""

import copy
import json
import sys

import pytest
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.trace import NonRecordingSpan

from torchspan.writer._otel_private import add_emitted_event

ATTRIBUTES = {"module": "Model", "paths": ("x", "mask"), "sizes": (8, 128), "share": 0.5, "is_new": False}


def by_torchspan(span):
    """Adds the event as torchspan does."""
    add_emitted_event(span, "call", dict(ATTRIBUTES))


def by_the_sdk(span):
    """Adds the event as a program does."""
    span.add_event("call", ATTRIBUTES)


def one_event(add, limits=None):
    """The event that `add` gives a new span."""
    tracer = TracerProvider(span_limits=limits, shutdown_on_exit=False).get_tracer("user")
    with tracer.start_as_current_span("request") as span:
        add(span)
    (event,) = span.events
    return event


def described(event):
    """What a processor or an exporter can read, except the time."""
    return (type(event), event.name, dict(event.attributes), event.dropped_attributes, type(event.attributes))


@pytest.mark.parametrize(
    "limits",
    [None, SpanLimits(max_event_attributes=5), SpanLimits(max_event_attributes=2), SpanLimits(max_attribute_length=3)],
    ids=["default", "exact", "fewer attributes", "shorter texts"],
)
def test_the_event_is_the_one_that_the_sdk_makes(limits):
    assert described(one_event(by_torchspan, limits)) == described(one_event(by_the_sdk, limits))


def functions_called(action):
    """The names of the Python functions that run during `action`."""
    names = []
    sys.setprofile(lambda frame, event, _: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        action()
    finally:
        sys.setprofile(None)
    return names


def test_the_sdk_does_not_check_each_value_of_torchspans_event(tracer):
    span = tracer.start_span("request")
    by_torchspan(span)
    checks = {
        add: sum("clean" in name for name in functions_called(lambda add=add: add(span)))
        for add in (by_torchspan, by_the_sdk)
    }
    assert checks[by_torchspan] == 0
    assert checks[by_the_sdk] >= len(ATTRIBUTES)


def test_a_limit_of_the_span_is_applied():
    event = one_event(by_torchspan, SpanLimits(max_event_attributes=2))
    assert (dict(event.attributes), event.dropped_attributes) == ({"share": 0.5, "is_new": False}, 3)


@pytest.mark.parametrize("add", [by_torchspan, by_the_sdk])
def test_the_attributes_of_the_event_cannot_be_changed(add):
    with pytest.raises(TypeError):
        one_event(add).attributes["module"] = "other"


def test_a_copy_of_the_event_is_equal_where_the_sdk_can_copy_one():
    try:
        expected = copy.deepcopy(one_event(by_the_sdk))
    except TypeError:
        pytest.skip("events of this version of the SDK cannot be copied")
    assert described(copy.deepcopy(one_event(by_torchspan))) == described(expected)


def test_exporters_encode_both_events_alike(tracer, exporter):
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    with tracer.start_as_current_span("request") as span:
        by_torchspan(span)
        by_the_sdk(span)
    (ended,) = exporter.get_finished_spans()
    mine, other = encoder.encode_spans([ended]).resource_spans[0].scope_spans[0].spans[0].events
    mine.time_unix_nano = other.time_unix_nano = 0
    assert mine == other
    mine, other = json.loads(ended.to_json())["events"]
    assert (mine["name"], mine["attributes"]) == (other["name"], other["attributes"])


def test_the_limit_of_events_counts_both_alike():
    tracer = TracerProvider(span_limits=SpanLimits(max_events=3), shutdown_on_exit=False).get_tracer("user")
    with tracer.start_as_current_span("request") as span:
        for _ in range(5):
            by_torchspan(span)
    assert (len(span.events), span.dropped_events) == (3, 2)


def test_a_span_that_has_ended_gets_no_event(tracer, caplog):
    span = tracer.start_span("request")
    span.end()
    by_torchspan(span)
    assert span.events == ()
    assert "on an ended span" in caplog.text


class Wrapping(NonRecordingSpan):
    """A span of the program's, which is not the SDK's."""

    def __init__(self, context):
        super().__init__(context)
        self.added = []

    def add_event(self, name, attributes=None, timestamp=None):
        self.added.append((name, attributes))


def test_a_span_of_another_sdk_has_its_method_called(tracer):
    span = Wrapping(tracer.start_span("request").get_span_context())
    by_torchspan(span)
    assert span.added == [("call", ATTRIBUTES)]


def test_a_program_that_replaces_add_event_of_the_class_still_receives_each_event(tracer, monkeypatch):
    span, added = tracer.start_span("request"), []
    by_torchspan(span)
    original = SdkSpan.add_event

    def counting(self, name, *args, **kwargs):
        added.append(name)
        original(self, name, *args, **kwargs)

    monkeypatch.setattr(SdkSpan, "add_event", counting)
    by_torchspan(span)
    assert (added, len(span.events)) == (["call"], 2)


def test_a_class_of_spans_that_replaces_add_event_still_receives_each_event(tracer, monkeypatch):
    added = []
    span = tracer.start_span("request")

    class Counting(type(span)):
        def add_event(self, name, *args, **kwargs):
            added.append(name)
            super().add_event(name, *args, **kwargs)

    monkeypatch.setattr(span, "__class__", Counting)
    by_torchspan(span)
    assert (added, len(span.events)) == (["call"], 1)
