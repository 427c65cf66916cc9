# SPDX-License-Identifier: Apache-2.0
"""Files that are not what they should be: what can be read is shown, what cannot is said."""

import json

import pytest

from torchspan.traces import read


def line(*spans, **more):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "app"}, "spans": list(spans)}]}], **more})


def span(name="work", span_id="01" * 8, parent="", start=1000, end=3000, **more):
    return {
        "traceId": "ab" * 16,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        **more,
    }


@pytest.fixture
def show(tmp_path, torchspan):
    """Write a file and show it: status, the lines of the waterfall after its title, stderr without the file's name."""

    def call(content):
        path = tmp_path / "file.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        status, out, err = torchspan("show", path)
        return status, out.partition("\n\n")[2].splitlines()[1:], err.replace(str(path), "FILE")

    return call


EXPECTED = "expected OTLP JSON, as `torchspan run` writes it"
WORK = "work                                                  ████████████████   2.00 µs"


def test_a_truncated_last_line_is_said_and_the_rest_is_shown(show):
    assert show(line(span()) + "\n" + line(span())[:100]) == (
        1,
        [WORK],
        "torchspan: FILE: line 2: cut off (the program was stopped while writing, or still writes)\n",
    )


def test_foreign_json_among_the_lines_is_said(show):
    content = [line(span()), '{"resourceMetrics": []}', '{"name": "x"}', "[1]", "nonsense", ""]
    assert show("\n".join(content)) == (
        1,
        [WORK],
        (
            "torchspan: FILE: line 3: JSON, but not OTLP (no resourceSpans)\n"
            "torchspan: FILE: line 4: JSON, but not OTLP (no resourceSpans)\n"
            "torchspan: FILE: line 5: not JSON\n"
        ),
    )


def test_what_is_wrong_a_thousand_times_is_said_five_times(show):
    status, _, err = show("\n".join([line(span()), *["x"] * 1000]))

    assert (status, err.count("\n")) == (1, 6)
    assert err.endswith("torchspan: 995 more places could not be read\n")


def test_a_span_without_what_makes_it_a_span_is_said_and_the_others_are_shown(show):
    broken = [
        {**span(), "spanId": None},
        {**span(), "traceId": "xyz"},
        {**span(), "endTimeUnixNano": "soon"},
        {**span(), "startTimeUnixNano": -5},
        "text",
    ]
    assert show(line(*broken, span())) == (
        1,
        [WORK],
        (
            "torchspan: FILE: line 1, span 1: no spanId\n"
            "torchspan: FILE: line 1, span 2: traceId is not hexadecimal\n"
            "torchspan: FILE: line 1, span 3: no endTimeUnixNano\n"
            "torchspan: FILE: line 1, span 4: startTimeUnixNano is not a time\n"
            "torchspan: FILE: line 1, span 5: not a span\n"
        ),
    )


def test_a_value_that_is_nested_too_deeply_is_said_and_the_other_lines_are_shown(show):
    value = '{"arrayValue":{"values":[' * 1000 + '{"stringValue":"innermost"}' + "]}}" * 1000
    deep = line(span(attributes=[{"key": "deep", "value": "VALUE"}])).replace('"VALUE"', value)
    status, lines, err = show(deep + "\n" + line(span()))

    assert (status, lines) == (1, [WORK])
    # Before Python 3.13 the JSON reader gives up first, and the span cannot be named.
    assert err in {f"torchspan: FILE: line 1{named}: nested too deeply\n" for named in ("", ", span 1")}


def test_attributes_of_the_wrong_type_change_nothing(show):
    wrong = {
        "torch_tensorrt.operators.total": {"stringValue": "many"},
        "torch_tensorrt.operators.tensorrt": {"intValue": "nine"},
        "tensorrt.engine.size": {"doubleValue": "NaN"},
        "torchspan.steps.names": {"arrayValue": {"values": [{"stringValue": "one"}]}},
        "torchspan.steps.durations": {"stringValue": "long"},
        "torch_tensorrt.fallback.reason_classes": {"boolValue": True},
        "torch_tensorrt.engine.name": {"kvlistValue": 3},
    }
    attributes = [*({"key": key, "value": value} for key, value in wrong.items()), None, {"key": 3}, {"value": []}]
    assert show(line(span(attributes=attributes, events=[1, {"name": "exception"}], status="bad"))) == (0, [WORK], "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", f"no spans in FILE; {EXPECTED}"),
        (b"\x93NUMPY\x01\x00\xff\xfe", f"nothing readable in FILE: line 1: not UTF-8 text; {EXPECTED}"),
        (
            b"{}\n{}\n",
            f"nothing readable in FILE: line 1: JSON, but not OTLP (no resourceSpans) (and 1 more); {EXPECTED}",
        ),
        (b'{"resourceSpans": []}\n', f"no spans in FILE; {EXPECTED}"),
        (b"[" * 100_000, f"nothing readable in FILE: line 1: nested too deeply; {EXPECTED}"),
    ],
)
def test_a_file_with_nothing_in_it_is_one_line_and_status_2(show, content, message):
    assert show(content) == (2, [], f"torchspan show: {message}\n")


def test_a_file_that_is_missing_is_one_line_and_status_2(torchspan, tmp_path):
    assert torchspan("show", tmp_path / "no\x1bne") == (
        2,
        "",
        f"torchspan show: cannot read {tmp_path}/no\\x1bne: No such file or directory\n",
    )
    assert torchspan("show", tmp_path) == (2, "", f"torchspan show: cannot read {tmp_path}: Is a directory\n")


def test_spans_that_are_each_others_parents_are_shown_from_the_earliest_on(show):
    a, b = "aa" * 8, "bb" * 8
    spans = [span("b", b, parent=a, start=2000), span("a", a, parent=b), span("self", "cc" * 8, parent="cc" * 8)]
    assert show(line(*spans)) == (
        0,
        [
            "a                                                     ████████████████   2.00 µs",
            "└─ b                                                          ████████   1.00 µs",
            "self                                                  ████████████████   2.00 µs",
            "Own time  self 2.00 µs 100 %, a 1.00 µs 50 %, b 1.00 µs 50 %",
        ],
        "",
    )


def test_a_span_whose_parent_is_elsewhere_is_a_root(show):
    assert show(line(span(parent="ff" * 8))) == (0, [WORK], "")


def test_a_span_that_ends_before_it_starts_takes_no_time_and_is_marked(show):
    assert show(line(span(start=3000, end=1000))) == (
        0,
        ["work  ends before it starts                           ▏                     0 ns"],
        "",
    )


def test_a_span_that_was_written_twice_is_shown_once_but_equal_ids_alone_hide_nothing(show):
    assert show(line(span(), span(), span("other"))) == (
        0,
        [
            WORK,
            "other                                                 ████████████████   2.00 µs",
            "Own time  work 2.00 µs 100 %, other 2.00 µs 100 %",
        ],
        "",
    )


def test_5000_spans_are_read_and_drawn_in_no_time(tmp_path, torchspan):
    path = tmp_path / "many.jsonl"
    ids = [f"{number:016x}" for number in range(1, 5001)]
    path.write_text("\n".join(line(span("work", own, parent=ids[0])) for own in ids))

    assert len(torchspan("show", path)[1].splitlines()) < 12


def test_times_of_children_are_counted_once_where_they_overlap(tmp_path):
    path = tmp_path / "threads.jsonl"
    children = [
        span("a", "02" * 8, parent="01" * 8, start=1100, end=1500),
        span("b", "03" * 8, parent="01" * 8, start=1200, end=1600),
        span("late", "04" * 8, parent="01" * 8, start=2900, end=9000),
    ]
    path.write_text(line(span("root", start=1000, end=3000), *children))
    (trace,) = read(path).traces

    assert {node.span.name: node.self_ns() for node in trace.nodes()} == {
        "root": 1400,
        "a": 400,
        "b": 400,
        "late": 6100,
    }


def test_the_standard_input_and_pipes_are_read(shell):
    text = line(span()) + "\n"
    for words in (["-"], ["/dev/stdin"]):
        result = shell("show", *words, input=text)
        assert (result.returncode, result.stdout.splitlines()[-1:], result.stderr) == (0, [WORK], "")
    result = shell("show", "-", input=text + "x\n")
    assert (result.returncode, result.stderr) == (1, "torchspan: <stdin>: line 2: not JSON\n")


def test_several_files_are_one_drawing(torchspan, tmp_path):
    paths = [tmp_path / name for name in ("first", "second")]
    paths[0].write_text(line(span("parent")) + "\nx\n")
    paths[1].write_text(line(span("child", "02" * 8, parent="01" * 8)) + "\n")
    status, out, err = torchspan("show", *paths)

    assert (status, err) == (1, f"torchspan: {paths[0]}: line 2: not JSON\n")
    assert out.splitlines()[-3:-1] == [
        "parent                                                ████████████████   2.00 µs",
        "└─ child                                              ████████████████   2.00 µs",
    ]


def test_several_files_with_nothing_in_them_are_one_line(torchspan, tmp_path):
    paths = [tmp_path / name for name in ("first", "second")]
    for path in paths:
        path.write_text("")
    assert torchspan("show", *paths) == (2, "", f"torchspan show: no spans in {paths[0]}, {paths[1]}; {EXPECTED}\n")
    paths[1].write_text("x")
    assert torchspan("show", *paths) == (
        2,
        "",
        f"torchspan show: nothing readable in {paths[1]}: line 1: not JSON; {EXPECTED}\n",
    )


def test_a_device_without_an_end_is_one_line_and_status_2(torchspan):
    message = "torchspan show: cannot read /dev/zero: a device, not a file of traces\n"
    assert torchspan("show", "/dev/zero") == (2, "", message)
