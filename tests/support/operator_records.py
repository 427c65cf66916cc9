# SPDX-License-Identifier: Apache-2.0
"""Operators as the C++ library hands them over, made by hand, and the library's templates of spans in Python."""

import struct

from torchspan.base.recorded_operators import RecordedOperators
from torchspan.output import withheld
from torchspan.output.withheld import Withheld
from torchspan.words.redaction.operator_text import operator_name

_EVENT = struct.Struct("<QQQQQQQHBBI")
FAILED, ELSEWHERE, LINKED = 0x01, 0x02, 0x04
BACKWARD, TORCHSCRIPT, USER = 0x10, 0x20, 0x30

OFFSET_NS = 1_700_000_000_000_000_000

NAMES = [
    (b"", b""),
    (b"aten::add", b"Tensor"),
    (b"aten::linear", b""),
    (b"AddmmBackward0", b""),
    (b"autograd::engine::evaluate_function: AddmmBackward0", b""),
    (b"Torch-Compiled Region: 7/3", b""),
    (b"patient_of_room_7", b""),
    (b"the patient of room 7", b""),
    (b"\xff\xfe patient \x80", b""),
    (b"patient " * 100, b""),
    ('\U0001f600 ä \u2028 \\ud800 \x01\x02\x09 " \\ patient'.encode(), b""),
    (f'{7:032x} "spanId":"{2:016x}" "intValue":"6" patient'.encode(), b""),
    (f"{1:032x}".encode(), b""),
]
"""What PyTorch calls operators, and programs their ranges. From 6 on, what PyTorch does not know."""
NUMBERS = range(40_000, 40_000 + len(NAMES))
"""Their numbers: larger than those of the C++ library, which keeps the templates of a number as long as the process lives."""
NO_NAME, ADD, LINEAR, ADDMM_BACKWARD, EVALUATION, REGION, RANGE, TEXT, *_ = NUMBERS


def name_of(number):
    """The name of an operator, as torchspan hands it on."""
    name, overload = NAMES[number - NO_NAME]
    return operator_name(name.decode("utf-8", "replace"), overload.decode("utf-8", "replace"))


def record(span_id, name=ADD, flags=0, *, parent_id, start=1_000, end=2_000, link_id=0, thread=140_737, link_trace=0):
    """The record of an operator."""
    return _EVENT.pack(start, end, span_id, parent_id, link_id, thread, max(end - start, 0), name, flags, 0, link_trace)


def recorded(*records, links=(), shapes=None, library=None, capture="none", offset_ns=OFFSET_NS):
    """Records as torchspan hands them on. links: trace ids."""
    return RecordedOperators(
        b"".join(records),
        b"".join(trace_id.to_bytes(16, "big") for trace_id in links),
        shapes,
        offset_ns,
        library or PythonLibrary(),
        name_of,
        capture,
    )


def chain(count, parent_id, **options):
    """Records of `count` operators, one after the other below a span."""
    return [record(number, parent_id=parent_id, **options) for number in range(1, count + 1)]


def end(span, operators):
    """End a span as torchspan ends a root."""
    context = span.get_span_context()
    with withheld.while_ending(context.trace_id, context.span_id, Withheld(operators=operators)):
        span.end()


def run(tracer, count=1, **options):
    """A root with operators below it, which has ended. Returns its context."""
    span = tracer.start_span("torchspan.operators")
    end(span, recorded(*chain(count, span.get_span_context().span_id), **options))
    return span.get_span_context()


class PythonLibrary:
    """The templates of the C++ library: what it does, in the simplest way."""

    def __init__(self):
        self.templates = {}

    def missing(self, events, has_state):
        return list({_key(event, has_state) for event in _EVENT.iter_unpack(events)} - set(self.templates))

    def learn(self, key, template):
        self.templates[key] = template

    def fill(self, events, links, trace_id, offset_ns, state):
        return b",".join(self._filled(event, links, trace_id, offset_ns, state) for event in _EVENT.iter_unpack(events))

    def _filled(self, event, links, trace_id, offset_ns, state):
        start, end_ns, span_id, parent_id, link_id, thread, _, _, _, _, link = event
        values = [
            trace_id.hex(),
            f"{span_id:016x}",
            f"{parent_id:016x}",
            str(start + offset_ns),
            str(end_ns + offset_ns),
            str(thread),
            links[16 * link : 16 * link + 16].hex(),
            f"{link_id:016x}",
            state.decode(),
        ]
        template = self.templates[_key(event, bool(state))]
        return b"".join(values[byte - 1].encode() if 1 <= byte <= 9 else bytes([byte]) for byte in template)


def _key(event, has_state):
    return event[7] << 8 | event[8] | (0x08 if has_state else 0)
