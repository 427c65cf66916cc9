# SPDX-License-Identifier: Apache-2.0
"""`torchspan.traces.read`: which files it takes, and what it makes of files that are not what they should be."""

import base64
import gzip
import io
import json
import os
import resource
import subprocess
import sys
import threading

import pytest

from torchspan import traces
from torchspan.reading.traces import _input
from torchspan.traces import Link, SpanEvent


def span(name="work", span_id="01" * 8, **more):
    return {
        "traceId": "ab" * 16,
        "spanId": span_id,
        "name": name,
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "3000",
        **more,
    }


def request(*spans, pid=7):
    attributes = [{"key": "process.pid", "value": {"intValue": str(pid)}}]
    scopes = [{"scope": {"name": "app"}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": scopes}]}


A, B = request(span("a", "aa" * 8)), request(span("b", "bb" * 8))


@pytest.fixture
def file(tmp_path):
    """Write a file: its path."""

    def call(content, name="trace.jsonl"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return call


def names(*sources):
    """The names of the spans that can be read, and the problems, without the names of the files."""
    found = traces.read(*sources)
    return [each.name for each in found.spans], [f"{problem.place}: {problem.what}" for problem in found.problems]


BOTH = (["a", "b"], [])


@pytest.mark.parametrize(
    "text",
    [
        f"{json.dumps(A)}\n{json.dumps(B)}\n",
        f"{json.dumps(A)}\n\n  {json.dumps(B)}",
        f"\ufeff{json.dumps(A)}\n{json.dumps(B)}\n",
        f"{json.dumps(A)}\r\n{json.dumps(B)}\r\n",
        json.dumps([A, B]),
    ],
    ids=[
        "lines",
        "blank lines",
        "byte order mark",
        "carriage returns",
        "a list",
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_requests_are_read_however_they_are_laid_out(file, text, pack):
    assert names(file(pack(text.encode()))) == BOTH


def test_gzip_that_was_appended_to_is_read_to_its_end(file):
    packed = [gzip.compress(json.dumps(each).encode() + b"\n") for each in (A, B)]
    assert names(file(b"".join(packed))) == BOTH


def test_gzip_that_is_cut_off_gives_what_was_whole(file):
    noise = [json.dumps(request(span(os.urandom(3_000).hex(), f"{number:016x}"))) + "\n" for number in range(100)]
    packed = gzip.compress("".join(noise).encode())
    found = traces.read(file(packed[: len(packed) // 2]))

    assert 10 < len(found.spans) < 90
    assert [problem.what for problem in found.problems] == ["cut off (packed with gzip)"]


def test_gzip_that_is_damaged_is_a_problem(file):
    packed = bytearray(gzip.compress(json.dumps(A).encode()))
    packed[12:20] = b"\xff" * 8
    assert names(file(bytes(packed))) == ([], ["after line 0: damaged (packed with gzip)"])


@pytest.mark.parametrize(
    ("number", "kind"), [(1, "internal"), (2, "server"), (3, "client"), (4, "producer"), (5, "consumer"), (0, "")]
)
def test_a_kind_is_a_word(file, number, kind):
    (read,) = traces.read(file(json.dumps(request({**span(), "kind": number})))).spans
    assert read.kind == kind


def test_events_links_status_and_scope_are_read(file):
    whole = {
        **span(),
        "parentSpanId": "EF" * 8,
        "attributes": [
            {"key": "n", "value": {"intValue": "3"}},
            {"key": "l", "value": {"arrayValue": {"values": [{"boolValue": True}]}}},
        ],
        "events": [{"timeUnixNano": "1500", "name": "exception"}],
        "links": [{"traceId": "12" * 16, "spanId": "34" * 8}],
        "status": {"code": 2, "message": "why"},
    }
    (read,) = traces.read(file(json.dumps(request(whole)))).spans

    assert (read.parent_id, read.scope, read.resource) == ("ef" * 8, "app", {"process.pid": 7})
    assert (read.is_error, read.status_message) == (True, "why")
    assert read.attributes == {"n": 3, "l": [True]}
    assert read.events == (SpanEvent("exception", {}, 1500),)
    assert read.links == (Link("12" * 16, "34" * 8, {}),)


def test_ids_in_base64_are_not_read(file):
    encoded = base64.b64encode(b"\xab" * 16).decode()
    wrong = {**span(), "traceId": encoded}
    assert names(file(json.dumps(request(wrong, span("b"))))) == (
        ["b"],
        ["line 1, span 1: traceId is not hexadecimal"],
    )


@pytest.mark.parametrize("signal", ["resourceMetrics", "resourceProfiles"])
def test_other_signals_of_a_collectors_file_are_passed_over(file, signal):
    assert names(file(f'{{"{signal}": []}}')) == ([], [])


def test_a_list_of_something_else_is_said(file):
    assert names(file(json.dumps([A, {"x": 1}]))) == (["a"], ["line 1: JSON, but not OTLP (no resourceSpans)"])


def test_several_files_are_read_as_one_and_a_span_in_two_of_them_is_read_once(file):
    first, second = file(json.dumps(A), "1"), file(f"{json.dumps(A)}\n{json.dumps(B)}\nx", "2")
    found = traces.read(first, second)

    assert [each.name for each in found.spans] == ["a", "b"]
    assert [str(problem) for problem in found.problems] == [f"{second}: line 3: not JSON"]
    assert len(found.traces) == 1


def test_a_stream_is_read_from_where_it_stands_and_stays_open(file):
    with file(f"{json.dumps(A)}\n{json.dumps(B)}\n").open("rb") as stream:
        stream.seek(len(json.dumps(A)) + 1)
        assert names(stream) == (["b"], [])
        assert not stream.closed

    memory = io.BytesIO(json.dumps(A).encode())
    assert names(memory) == (["a"], [])
    assert not memory.closed


def test_a_pipe_is_read_to_its_end(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write():
        path.write_bytes(gzip.compress(f"{json.dumps(A)}\n{json.dumps(B)}\n".encode()))

    thread = threading.Thread(target=write)
    thread.start()
    assert names(path) == BOTH
    thread.join()


def test_a_file_that_grows_gives_more_each_time(file):
    text = f"{json.dumps(A)}\n{json.dumps(B)}\n".encode()
    whole = len(json.dumps(A)) + 1
    cut_off = "cut off (the program was stopped while writing, or still writes)"

    assert names(file(text[: whole - 20])) == ([], [f"line 1: {cut_off}"])
    assert names(file(text[:whole])) == (["a"], [])
    assert names(file(text[: whole + 30])) == (["a"], [f"line 2: {cut_off}"])
    assert names(file(text)) == BOTH


def test_a_document_over_several_lines_is_not_read(file):
    problems = names(file(json.dumps(A, indent=2)))[1]
    assert problems[0] == "line 1: not JSON"


@pytest.mark.parametrize("kept", [30, len('{"resourceSpans": [{'), -1])
def test_a_line_that_another_writer_cut_off_costs_no_other_line(file, kept):
    assert names(file(f"{json.dumps(A)[:kept]}\n{json.dumps(A)}\n{json.dumps(B)}\n")) == (
        ["a", "b"],
        ["line 1: not JSON"],
    )


def test_a_long_line_is_left_out_and_the_others_are_read():
    file = io.BytesIO(f"{json.dumps(A)}\n{'x' * (3 * 2**20)}\n{json.dumps(B)}\n".encode())
    (_, first), (place, damage), (_, last) = _input.documents(file, longest=2**20)
    assert (first, last) == (A, B)
    assert (place, str(damage)) == ("line 2", "longer than 1 MiB")


def test_a_pipe_without_a_newline_ends_the_reading_instead_of_the_memory():
    program = (
        "import sys; from torchspan.reading.traces import _input;"
        "[(place, damage)] = _input.documents(sys.stdin.buffer, longest=2**22); print(place, damage)"
    )
    zeros = subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE)
    try:
        result = subprocess.run(
            [sys.executable, "-c", program],
            stdin=zeros.stdout,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)),
        )
    finally:
        zeros.kill()
        zeros.stdout.close()
        zeros.wait()
    assert (result.stdout, result.stderr) == ("line 1 longer than 4 MiB\n", "")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full"])
def test_a_device_without_an_end_is_refused(device):
    with pytest.raises(OSError, match="a device, not a file of traces"):
        traces.read(device)


def test_the_null_device_is_empty():
    found = traces.read(os.devnull)
    assert (found.spans, found.is_empty) == ([], True)


def test_of_a_thousand_problems_a_hundred_are_kept(file):
    found = traces.read(file("x\n" * 1000))
    assert (found.unread, len(found.problems)) == (1000, 100)


def test_texts_are_those_of_the_file(file):
    (read,) = traces.read(file(json.dumps(request(span("a\x1b[2J\nb"))))).spans
    assert read.name == "a\x1b[2J\nb"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"intValue": str(2**63 - 1)}, 2**63 - 1),
        ({"intValue": -(2**63)}, -(2**63)),
        ({"intValue": str(2**63)}, None),
        ({"intValue": "9" * 4000}, None),
        ({"intValue": 1e999}, None),
        ({"doubleValue": int("9" * 4000)}, None),
        ({"doubleValue": "Infinity"}, float("inf")),
    ],
)
def test_an_integer_has_at_most_64_bits_and_a_double_is_one(file, value, expected):
    path = file(json.dumps(request(span(attributes=[{"key": "number", "value": value}]))))
    assert traces.read(path).spans[0].attributes == {"number": expected}


def test_an_id_that_is_longer_than_any_costs_its_span_alone(file):
    path = file(json.dumps(request(span("a"), span("b", "a" * 34))))
    assert names(path) == (["a"], ["line 1, span 2: spanId is longer than 32 digits"])


def test_a_time_that_is_infinite_costs_its_span_alone(file):
    path = file(json.dumps(request(span("a"), span("b", startTimeUnixNano=1e999))))
    assert names(path) == (["a"], ["line 1, span 2: no startTimeUnixNano"])


def test_a_link_that_cannot_be_read_costs_no_span(file):
    links = [{"traceId": "x", "spanId": "y"}, 3, {"traceId": "12" * 16, "spanId": "34" * 8}]
    (read,) = traces.read(file(json.dumps(request(span(links=links))))).spans
    assert read.links == (Link("12" * 16, "34" * 8, {}),)


def test_reading_needs_neither_the_sdk_nor_what_torchspan_observes():
    program = (
        "import sys, torchspan.traces;"
        "print([name for name in ('torch', 'tensorrt', 'opentelemetry.sdk') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
