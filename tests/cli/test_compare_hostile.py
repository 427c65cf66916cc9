# SPDX-License-Identifier: Apache-2.0
"""Files that were written to break `torchspan compare`: numbers, texts and lists that no exporter writes."""

import json

import pytest

from torchspan.words import semconv

pytestmark = pytest.mark.slow

NUMBERS = {
    "4,000 digits": int("9" * 4000),
    "2 ** 63": 2**63,
    "-1": -1,
    "0": 0,
    "1e308": 1e308,
    "infinite": float("inf"),
    "not a number": float("nan"),
}
KEYS = [
    key for key in semconv.ATTRIBUTES if key not in {semconv.MODEL_CLASS, semconv.ENTRY_POINT, semconv.INPUT_SHAPES}
]
NAMES = ("torch_tensorrt.lower", "torch_tensorrt.partition", "torch_tensorrt.convert", "tensorrt.build_engine")
FRAME = "torch.compile_frame"


def attribute(key, value):
    return {"key": str(key), "value": value}


def span(number, name, attributes, parent=1, **more):
    parents = {} if parent is None else {"parentSpanId": f"{parent:016x}"}
    times = {"startTimeUnixNano": str(1_000 * number), "endTimeUnixNano": str(1_000_000 * number)}
    return (
        {"traceId": "ab" * 16, "spanId": f"{number:016x}", "name": name, "attributes": attributes}
        | parents
        | times
        | more
    )


@pytest.fixture
def write(tmp_path):
    """`write(name, value)`: the path of a file in which every attribute of a compilation and of a frame has the value."""

    def path_of(name, *values):
        own = [attribute(semconv.MODEL_CLASS, {"stringValue": "Net"})]
        spans = [span(1, "torch_tensorrt.compile", own, parent=None), span(2, FRAME, [], parent=None)]
        for value in values:
            attributes = [attribute(key, value) for key in KEYS]
            events = [{"name": semconv.GRAPH_BREAK_EVENT, "timeUnixNano": "1", "attributes": attributes}]
            spans += [span(len(spans) + 1 + number, name, attributes) for number, name in enumerate(NAMES)]
            spans.append(span(len(spans) + 1, FRAME, attributes, parent=None, events=events))
            spans.append(span(len(spans) + 1, "torch_tensorrt.compile", [*own, *attributes], parent=None))
        path = tmp_path / f"{name}.otlp"  # not among the files whose views are compared
        scopes = [{"scope": {"name": "torchspan"}, "spans": spans}]
        path.write_text(json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": scopes}]}) + "\n")
        return path

    return path_of


def both(kind, value):
    """The value, and a list of it."""
    return {kind: value}, {"arrayValue": {"values": [{kind: value}] * 2}}


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
def test_no_number_keeps_two_files_from_being_compared(torchspan, write, value):
    plain = write("plain")
    for kind, words in (("intValue", ()), ("doubleValue", ("--markdown",)), ("doubleValue", ("--json",))):
        for number, form in enumerate(both(kind, value)):
            status, out, err = torchspan("compare", plain, write(f"hostile{number}", form), *words)
            assert (status, err) == (0, "")
            assert "compile Net" in out


@pytest.mark.parametrize("piece", ["a", "é", "\x1b[2J", "\u202e", "\n", "| `@x` ", "\ud800", "推"])
def test_a_text_of_4000_characters_under_every_key_is_written_out_and_cut(torchspan, write, piece):
    long = piece * (4_000 // len(piece))
    for number, form in enumerate(both("stringValue", long)):
        status, out, err = torchspan("compare", write("plain"), write(f"hostile{number}", form))
        assert (status, err) == (0, "")
        assert [char for char in "\x1b\u202e\ud800" if char in out] == []
        assert len(out) < 60 * 10 * 400  # at most 60 lines of 300 characters, of which each may be written out


def test_a_list_of_500_texts_under_every_key_is_compared(torchspan, write):
    values = {"arrayValue": {"values": [{"stringValue": f"value {number}"} for number in range(500)]}}
    status, _, err = torchspan("compare", write("plain"), write("hostile", values))
    assert (status, err) == (0, "")


def test_a_chain_of_5000_spans_and_5000_siblings_are_compared(torchspan, tmp_path):
    own = [attribute(semconv.MODEL_CLASS, {"stringValue": "Net"})]
    chain = [span(1, "torch_tensorrt.compile", own, parent=None)]
    chain += [span(number, f"s{number}", [], parent=number - 1) for number in range(2, 5_000)]
    chain += [span(number, f"s{number}", [], parent=1) for number in range(5_000, 10_000)]
    for name in ("before", "after"):
        scopes = [{"scope": {"name": "torchspan"}, "spans": chain}]
        (tmp_path / f"{name}.otlp").write_text(json.dumps({"resourceSpans": [{"scopeSpans": scopes}]}) + "\n")
    status, out, _ = torchspan("compare", tmp_path / "before.otlp", tmp_path / "after.otlp")
    assert status == 0
    assert out.startswith("nothing has changed: compile Net: before ")
