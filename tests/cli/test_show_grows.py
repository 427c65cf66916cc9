# SPDX-License-Identifier: Apache-2.0
"""How the work of `torchspan show` and what it holds grow with a file: in proportion. Counted, not timed."""

import contextlib
import io
import json
import tracemalloc

import pytest

from support.steps import lines_run
from torchspan import cli
from torchspan.traces import read

TRACE = "ab" * 16
START_NS = 1_795_257_760_000_000_000
RESOURCE = [{"key": f"resource.key.{number}", "value": {"stringValue": f"value {number}"}} for number in range(10)]
FALLBACK = {
    "key": "torch_tensorrt.fallback.reason_classes",
    "value": {"arrayValue": {"values": [{"stringValue": "no_converter"}]}},
}


def strings(key, values):
    return {"key": key, "value": {"arrayValue": {"values": [{"stringValue": value} for value in values]}}}


def span(number, parent=None, attributes=(), *, ends=1_000_000, trace=TRACE):
    """The span with this number, counted from 1; it starts that many nanoseconds after START_NS."""
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": "work",
        "startTimeUnixNano": str(START_NS + number),
        "endTimeUnixNano": str(START_NS + ends),
        "attributes": list(attributes),
    }


def chain(count):
    """Each span is the parent of the next; all of them say the same fallback."""
    return [span(number, number - 1 or None, [FALLBACK], ends=2_000_000 - number) for number in range(1, count + 1)]


def siblings(count):
    return [span(1), *(span(number, 1, [FALLBACK]) for number in range(2, count + 1))]


def long_text(count):
    return [span(1, None, [{"key": "error.type", "value": {"stringValue": "é" * count}}])]


def long_place(count):
    """A path of so many folders, where an exception was raised."""
    place = [{"key": "code.file.path", "value": {"stringValue": "a/" * count}}]
    return [
        {**span(1), "status": {"code": 2}, "events": [{"name": "exception", "attributes": place}]},
        span(2, 1, place),
    ]


def links(count):
    return [{**span(1), "links": [{"traceId": f"{n:032x}", "spanId": f"{n:016x}"} for n in range(1, count)]}]


def names(count):
    """Traces of one span, each with a name of its own."""
    return [{**each, "name": f"job {number}"} for number, each in enumerate(one_span_each(count))]


def kinds_of_fallback(count):
    kinds = [
        strings("torch_tensorrt.fallback.operators.names", [f"operator {number}" for number in range(count)]),
        strings("torch_tensorrt.fallback.operators.reasons", ["no_converter"] * count),
        {
            "key": "torch_tensorrt.fallback.operators.counts",
            "value": {"arrayValue": {"values": [{"intValue": "1"} for _ in range(count)]}},
        },
    ]
    return [span(1), span(2, 1, [FALLBACK, *kinds])]


def one_span_each(count):
    """Traces of one span."""
    return [span(number, trace=f"{number:032x}") for number in range(1, count + 1)]


def frames(count, *, begins):
    """Frames of functions of one name in one file, each of which begins in a line of its own."""
    path = {"key": "code.file.path", "value": {"stringValue": "model.py"}}
    for each in one_span_each(count):
        line = {"key": "code.line.number", "value": {"intValue": f"{10 * int(each['spanId'], 16)}"}}
        name = {"key": "code.function.name", "value": {"stringValue": begins}}
        yield {**each, "name": "torch.compile_frame", "attributes": [path, line, name]}


def functions(count):
    return list(frames(count, begins="forward"))


def resumed(count):
    """As many rests of them after a graph break."""
    rests = frames(count, begins="torch_dynamo_resume_in_forward_at_19")
    return [*functions(count), *({**rest, "spanId": f"{number:016x}"} for number, rest in enumerate(rests, count + 1))]


def calls(count):
    """Compilations of one model with another number of operators each, below spans of the program."""
    kept = [span(1)]
    for number in range(2, count + 2):
        counts = [
            {"key": f"torch_tensorrt.operators.{kind}", "value": {"intValue": f"{number}"}}
            for kind in ("total", "tensorrt")
        ]
        kept.append({**span(number, 1, counts), "name": "torch_tensorrt.compile"})
    return kept


@pytest.fixture
def written(tmp_path):
    """Write spans to a file, so many a line: its path."""

    def call(spans, *, a_line=100):
        path = tmp_path / f"{len(spans)}-{a_line}.jsonl"
        with path.open("w") as file:
            for first in range(0, len(spans), a_line):
                scopes = [{"scope": {"name": "torchspan"}, "spans": spans[first : first + a_line]}]
                resource_spans = {"resource": {"attributes": RESOURCE}, "scopeSpans": scopes}
                file.write(json.dumps({"resourceSpans": [resource_spans]}) + "\n")
        return str(path)

    return call


def shown(path, *words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main(["show", path, *words]) == 0
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    "shape",
    [chain, siblings, long_text, long_place, links, names, kinds_of_fallback, one_span_each, functions, resumed, calls],
)
def test_four_times_as_much_takes_about_four_times_as_many_steps(written, shape):
    small, large = (lines_run(shown, written(shape(count))) for count in (300, 1_200))
    assert large < 4.5 * small


@pytest.mark.parametrize("words", [["--all"], ["1"], ["--slowest", "1200"], ["--json"]])
@pytest.mark.parametrize("shape", [chain, siblings, names, one_span_each, functions])
def test_so_it_does_where_more_is_drawn(written, shape, words):
    small, large = (lines_run(lambda path: shown(path, *words), written(shape(count))) for count in (300, 1_200))
    assert large < 5 * small


def test_a_chain_of_60000_spans_is_drawn(written):
    lines = shown(written(chain(60_000)))

    assert lines[1:4] == [
        "1  work                 \N{MULTIPLICATION SIGN}1   2.00 ms",
        "   in PyTorch: no converter",
        "   time: work 2.00 ms",
    ]
    assert lines[5].endswith(" · 60000 spans")
    assert lines[-2].strip(" …") == "59979 spans inside"
    assert lines[-1] == "Own time  work 2.00 ms 100 %"


def held_bytes(path):
    """Bytes that the spans of a file hold."""
    read(path)  # what is made once
    tracemalloc.start()
    try:
        file = read(path)
        return tracemalloc.get_traced_memory()[0] if file.records else 0
    finally:
        tracemalloc.stop()


def test_spans_in_lines_of_their_own_take_as_much_memory_as_those_of_one_line(written):
    spans = siblings(500)
    assert held_bytes(written(spans, a_line=1)) < 1.1 * held_bytes(written(spans, a_line=500))


def test_processes_with_resources_of_their_own_keep_them(tmp_path):
    first, second = ({"key": "process.pid", "value": {"intValue": f"{number}"}} for number in (1, 2))
    lines = [
        json.dumps({"resourceSpans": [{"resource": {"attributes": [pid]}, "scopeSpans": [{"spans": [span(number)]}]}]})
        for number, pid in enumerate([first, second, first], 1)
    ]
    path = tmp_path / "three.jsonl"
    path.write_text("\n".join(lines) + "\n")

    assert [each.resource for each in read(path).records] == [
        {"process.pid": 1},
        {"process.pid": 2},
        {"process.pid": 1},
    ]
