# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators as OTLP JSON. The C++ library fills templates, which are spans that the encoder has written."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceState

from torchspan.base.recorded_operators import EVENT_BYTES, RecordedOperators
from torchspan.output.sdk._operator_spans import EVENT, spans_with_texts
from torchspan.output.sdk._otlp_json import Encoded, Encoder

_HAS_STATE = 0x08
_WITH_TEXTS, _CAPTURES_TEXT = 0x40, 0x80
"""Flags that are not recorded: set here, so that each way to write a name has templates of its own."""
_FLAGS = slice(58, None, EVENT_BYTES)
"""The flags of all records."""

_PLACES = (
    ("traceId", f"{1:032x}", 1),
    ("spanId", f"{2:016x}", 2),
    ("parentSpanId", f"{3:016x}", 3),
    ("startTimeUnixNano", "4", 4),
    ("endTimeUnixNano", "5", 5),
    ("intValue", "6", 6),
    ("traceId", f"{7:032x}", 7),
    ("spanId", f"{8:016x}", 8),
    ("traceState", "a=9", 9),
)
"""Key and value in the span of which a template is made, and the byte that takes the place of the value."""
_SAMPLE_LINKS = (7).to_bytes(16, "big")
_SAMPLE_STATE = TraceState([("a", "9")])


def encoded(operators: RecordedOperators, root: ReadableSpan, encoder: Encoder, *, with_texts: bool) -> Encoded:
    """The spans of all operators, which are those that `spans` makes and `encoder` would write one by one.

    Args:
        operators: At least one.
        root: The span below which they were recorded.
        encoder: Writes the spans of templates, and what is around the spans.
        with_texts: Whether names of the program are whole, under keys of their own, where `operators.capture` is `local`.
    """
    if operators.shapes is not None:  # they differ from span to span
        texts = [
            encoder.encode(span, texts if with_texts else None).span
            for span, texts in spans_with_texts(operators, root)
        ]
        return encoder.around(root, ",".join(texts))
    own = root.get_span_context()
    if own is None:
        raise ValueError("the span of operators has no context")
    events = operators.events
    way = _CAPTURES_TEXT if operators.capture == "text" else _WITH_TEXTS if with_texts else 0
    if way:
        marked = bytearray(events)
        marked[_FLAGS] = bytes([flags | way for flags in events[_FLAGS]])
        events = bytes(marked)
    state = quoted(",".join(f"{key}={value}" for key, value in own.trace_state.items()))[1:-1].encode()
    for key in operators.library.missing(events, bool(state)):
        operators.library.learn(key, _template(operators, root, encoder, key))
    trace_id = own.trace_id.to_bytes(16, "big")
    filled = operators.library.fill(events, operators.links, trace_id, operators.offset_ns, state)
    return encoder.around(root, filled.decode("ascii"))


def _template(operators: RecordedOperators, root: ReadableSpan, encoder: Encoder, key: int) -> bytes:
    """The text of a span of the name and flags in `key`. A byte from 1 to 9, which no text of JSON contains, stands for each value."""
    name, flags = key >> 8, key & 0xFF
    event = EVENT.pack(4, 5, 2, 3, 8, 6, 0, name, flags, 0, 0)
    sample = RecordedOperators(
        event, _SAMPLE_LINKS, None, 0, operators.library, operators.name, capture=operators.capture
    )
    own = SpanContext(1, 1, is_remote=False, trace_state=_SAMPLE_STATE if flags & _HAS_STATE else None)
    ((span, texts),) = spans_with_texts(
        sample, ReadableSpan("", own, resource=root.resource, instrumentation_scope=root.instrumentation_scope)
    )
    text = encoder.encode(span, texts if flags & _WITH_TEXTS else None).span
    for place, value, byte in _PLACES:
        # A quote inside a string of JSON is escaped, so that no name contains a key and its value in this form.
        text = text.replace(f'"{place}":"{value}"', f'"{place}":"{chr(byte)}"')
    return text.encode("ascii")
