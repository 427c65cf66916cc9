# SPDX-License-Identifier: Apache-2.0
"""The text of a line: that of OpenTelemetry's own JSON encoder, byte for byte, except for what no reader takes."""

import enum
import json
import logging
import math
import sys

import numpy as np
import pytest
from google.protobuf import json_format
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as encode_protobuf
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from torchspan.output.sdk._otlp_json import Encoder, lines

STATE = TraceState([("vendor", "a=b"), ("other", "1")])
LOCAL = SpanContext(0xCD, 0xAB, is_remote=False, trace_flags=TraceFlags(1))
REMOTE = SpanContext(2**128 - 1, 2**64 - 1, is_remote=True, trace_state=STATE)


class Color(enum.IntEnum):
    RED = 1

    def __str__(self):
        return "red"


class Name(str):
    __slots__ = ()


VALUES = {
    "text": 'quote " backslash \\ newline \n null \0 delete \x7f ä € 😀 \\ud800 \\\\udfff',
    "no text": "",
    "text of a class of its own": Name("name"),
    "true": True,
    "false": False,
    "zero": 0,
    "least": -(2**63),
    "largest": 2**63 - 1,
    "floating": 0.1,
    "negative zero": -0.0,
    "large": 1e300,
    "small": 5e-324,
    "not a number": math.nan,
    "infinite": math.inf,
    "negative infinite": -math.inf,
    "numpy's": np.float64(0.5),
    "bytes": b"\x00\xff\xfe",
    "no bytes": b"",
    "none": None,
    "texts": ["a", "ä"],
    "truths": [True, False],
    "numbers": [1, -1],
    "floatings": [1.5, math.nan, -math.inf],
    "mixed": [True, 1, 1.0, "1", b"1", None],
    "nested": [[1, [2, []]], [], {"deep": [{"deeper": None}]}],
    "empty": [],
    "mapping": {"a": 1, "b": {"c": [True]}, "d": {}},
    "range": range(3),
    'key with ä, " and 😀': "value",
}


def span(**given):
    """A span with only what is given."""
    return ReadableSpan(**{"name": "work", "context": LOCAL, "resource": Resource({}), **given})


def line(spans):
    return lines(map(Encoder().encode, spans))


def sdk_text(spans):
    return json.dumps(encode_spans(spans).to_dict(), separators=(",", ":")).encode() + b"\n"


def parsed(spans):
    """What a reader of protobuf's JSON takes the line for. OTLP's ids are hexadecimal where protobuf's are base64."""
    document = json.loads(line(spans))
    for member in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        del member["traceId"], member["spanId"]
    message = json_format.ParseDict(document, TracesData())
    return list(message.resource_spans[0].scope_spans[0].spans)


def attribute(value):
    """The AnyValue that a reader gets for the value of an attribute."""
    (read,) = parsed([span(attributes={"key": value})])
    return read.attributes[0].value


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_of_an_attribute_is_written_as_opentelemetrys_encoder_writes_it(value):
    spans = [span(attributes={"key": value, "after": 1})]
    assert line(spans) == sdk_text(spans)


def test_a_span_that_has_everything_is_written_as_opentelemetrys_encoder_writes_it():
    provider = TracerProvider(
        resource=Resource(VALUES, "https://example.org/resource"),
        span_limits=SpanLimits(
            max_span_attributes=40,
            max_events=3,
            max_links=2,
            max_event_attributes=1,
            max_link_attributes=1,
            max_span_attribute_length=1000,
        ),
        shutdown_on_exit=False,
    )
    tracer = provider.get_tracer("scope", "1.0", "https://example.org/scope", {"a": 1, "b": [True]})
    made = tracer.start_span(
        "ä 😀", attributes=VALUES, links=[Link(REMOTE, VALUES), Link(LOCAL), Link(LOCAL, {"a": 1})], start_time=1
    )
    made.set_attributes({f"more {number}": number for number in range(60)})
    for number in range(5):
        made.add_event(f"event {number}", {"first": 1, "second": 2}, timestamp=number)
    made.set_status(StatusCode.ERROR, "no such file: ä")
    made.end(2**64 - 1)

    assert line([made]) == sdk_text([made])
    assert made.dropped_attributes > 0
    assert (made.dropped_events, made.dropped_links, made.events[0].dropped_attributes) == (2, 1, 1)


@pytest.mark.parametrize("kind", SpanKind)
def test_a_kind_is_written_as_opentelemetrys_encoder_writes_it(kind):
    assert line([span(kind=kind)]) == sdk_text([span(kind=kind)])


@pytest.mark.parametrize(
    "status",
    [Status(), Status(StatusCode.OK), Status(StatusCode.ERROR), Status(StatusCode.ERROR, "ä"), None],
    ids=["unset", "ok", "error", "error with a description", "none"],
)
def test_a_status_is_written_as_opentelemetrys_encoder_writes_it(status):
    assert line([span(status=status)]) == sdk_text([span(status=status)])


@pytest.mark.parametrize("parent", [None, LOCAL, REMOTE], ids=["no parent", "local parent", "remote parent"])
@pytest.mark.parametrize("context", [None, LOCAL, REMOTE], ids=["no context", "local", "with trace state"])
def test_ids_and_flags_are_written_as_opentelemetrys_encoder_writes_them(context, parent):
    spans = [span(context=context, parent=parent, links=[Link(REMOTE), Link(LOCAL)])]
    assert line(spans) == sdk_text(spans)


@pytest.mark.parametrize(
    "given",
    [
        {"name": ""},
        {"start_time": 0, "end_time": 0},
        {"start_time": 1_795_257_760_000_000_000, "end_time": 1_795_257_760_000_000_005},
        {"attributes": {}},
        {"attributes": {"": "no key"}},
        {"events": [Event("", {}, 0), Event("plain", None, 1), Event("full", VALUES, 2)]},
        {"links": [Link(LOCAL, {}), Link(LOCAL, VALUES)]},
        {"resource": Resource(VALUES)},
        {"instrumentation_scope": InstrumentationScope("")},
        {"instrumentation_scope": InstrumentationScope("name", "", "")},
        {"instrumentation_scope": InstrumentationScope("name", "1", "https://example.org", VALUES)},
    ],
    ids=lambda given: " ".join(given),
)
def test_what_is_there_and_what_is_not_is_written_as_opentelemetrys_encoder_writes_it(given):
    assert line([span(**given)]) == sdk_text([span(**given)])


def test_neighbors_of_equal_resources_and_scopes_share_a_line():
    places = [(1, "a"), (1, "a"), (1, "b"), (2, "b"), (2, "b"), (1, "a")]
    spans = [
        span(name=f"{number}", resource=Resource({"r": resource}), instrumentation_scope=InstrumentationScope(scope))
        for number, (resource, scope) in enumerate(places)
    ]
    shared = (spans[:2], spans[2:3], spans[3:5], spans[5:])

    assert line(spans) == b"".join(map(sdk_text, shared))


def calls(function, *arguments):
    """How often anything is called while the function runs."""
    events = []
    sys.setprofile(lambda _frame, event, _argument: events.append(event))
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return sum(event in {"call", "c_call"} for event in events)


def test_a_line_takes_fewer_calls_than_the_same_spans_take_as_protobuf():
    spans = [span(attributes={f"key {number}": number for number in range(8)}) for _ in range(100)]
    assert calls(line, spans) < calls(encode_protobuf, spans)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("caf\udce9.onnx", "caf?.onnx"),
        ("\ud83d", "?"),
        ("\udc00\ud800", "??"),
        ("\ud800\ud800\udc00", "?\U00010000"),
        ("\\ud800 \\\ud800", "\\ud800 \\?"),
        ("😀\udce9", "😀?"),
    ],
    ids=ascii,
)
def test_a_lone_surrogate_is_a_question_mark_and_the_line_can_be_read(text, read):
    spans = parsed(
        [
            span(
                name=text,
                attributes={text: text},
                events=[Event(text, {text: [text]}, 1)],
                status=Status(StatusCode.ERROR, text),
            ),
            span(name="in the same batch"),
        ]
    )

    assert [member.name for member in spans] == [read, "in the same batch"]
    assert (spans[0].attributes[0].key, spans[0].attributes[0].value.string_value) == (read, read)
    assert (spans[0].events[0].name, spans[0].status.message) == (read, read)
    assert spans[0].events[0].attributes[0].value.array_value.values[0].string_value == read


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**100])
def test_an_integer_beyond_64_bits_is_a_string(number):
    assert attribute(number).string_value == str(number)


def test_a_member_of_an_enum_is_its_number_whatever_its_text_is():
    assert attribute(Color.RED).int_value == 1


def test_with_an_integer_beyond_64_bits_every_integer_of_its_array_is_a_string():
    assert [value.string_value for value in attribute([1, 2**63, Color.RED]).array_value.values] == [
        "1",
        "9223372036854775808",
        "1",
    ]


def test_an_array_alongside_or_inside_one_with_an_integer_beyond_64_bits_keeps_its_integers():
    inner, big = attribute([[1, 2], [2**63, 1]]).array_value.values

    assert [value.int_value for value in inner.array_value.values] == [1, 2]
    assert [value.string_value for value in big.array_value.values] == ["9223372036854775808", "1"]


def test_truths_in_an_array_with_an_integer_beyond_64_bits_stay_truths():
    kinds = [value.WhichOneof("value") for value in attribute([True, 2**63, None, 0.5]).array_value.values]
    assert kinds == ["bool_value", "string_value", None, "double_value"]


def test_an_attribute_that_otlp_cannot_hold_is_left_out_and_the_others_are_there(caplog):
    spans = [span(attributes={"before": 1, "object": object(), "digits": 10**5000, "after": 2})]

    (read,) = parsed(spans)
    assert [each.key for each in read.attributes] == ["before", "after"]
    assert [(record.name, record.levelno) for record in caplog.records] == [("torchspan.sdk", logging.WARNING)] * 2
    assert caplog.messages[0] == (
        "torchspan: attribute object is left out (TypeError: OTLP cannot represent a value of type object)."
    )
