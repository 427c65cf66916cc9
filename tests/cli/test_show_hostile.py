# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""Files that were written to break `torchspan show`: numbers, texts and lists that no exporter writes."""

import json
import unicodedata

import pytest

from torchspan.reading.answers.lines import cells, printable
from torchspan.words import semconv

TRACE = "ab" * 16
LONGEST = 4_096
"""Characters of a text that are drawn."""
MANY_DIGITS = int("9" * 4000)
NUMBERS = {
    "4,000 digits": MANY_DIGITS,
    "-4,000 digits": -MANY_DIGITS,
    "4,000 digits as text": "9" * 4000,
    "5,000 digits as text": "9" * 5000,
    "2 ** 63": 2**63,
    "2 ** 64": 2**64,
    "-1": -1,
    "1e308": 1e308,
    "1e308 as text": "1e308",
    "infinite": float("inf"),
    "negative infinite": float("-inf"),
    "infinite as text": "Infinity",
    "not a number": float("nan"),
    "not a number as text": "NaN",
    "digits of another script": "٣",
    "true": True,
    "null": None,
}
WORDS = {str(semconv.PROGRESS_WORK): "torch_tensorrt.compile", str(semconv.PROGRESS_RUNNING): "torch_tensorrt.convert"}


def attribute(key, value):
    return {"key": str(key), "value": value}


def text(key, value):
    return attribute(key, {"stringValue": value})


def span(number=1, parent=0, attributes=(), **more):
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        **({"parentSpanId": f"{parent:016x}"} if parent else {}),
        "name": "work",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "3000",
        "attributes": list(attributes),
        **more,
    }


def with_numbers(value):
    """One span with the value as an integer and one as a double under every key; then lists, times and heartbeats."""
    spans, number = [span(1)], 2
    for kind in ("intValue", "doubleValue"):
        one = {kind: value}
        for given in (one, {"arrayValue": {"values": [one]}}):
            spans.append(span(number, 1, [attribute(key, given) for key in semconv.ATTRIBUTES]))
            progress = [text(key, word) for key, word in WORDS.items()]
            progress += [attribute(key, given) for key in (semconv.PROGRESS_RUNNING_ELAPSED, semconv.PROGRESS_ELAPSED)]
            spans.append(span(number + 1, 99, progress, name="torchspan.progress"))
            # Equal siblings are folded, and the fold sums up what they say.
            sizes = [attribute(semconv.ENGINE_SIZE, given)]
            spans += [span(number + each, 1, sizes, name="tensorrt.build_engine") for each in range(2, 10)]
            number += 10
    for field in ("startTimeUnixNano", "endTimeUnixNano", "kind", "status", "traceId", "events", "links"):
        values = {
            "status": {"code": value, "message": value},
            "events": [{"name": "tensorrt.log", "timeUnixNano": value}],
            "links": [{"traceId": value, "spanId": value}],
        }
        spans.append(span(number, 1, **{field: values.get(field, value)}))
        number += 1
    return spans


@pytest.fixture
def show(tmp_path, torchspan):
    """Write spans of torchspan's to a file and show it: status, stdout, stderr."""

    def call(*spans, resource=(), words=()):
        path = tmp_path / "hostile.jsonl"
        scopes = [{"scope": {"name": "torchspan"}, "spans": list(spans)}]
        document = {"resourceSpans": [{"resource": {"attributes": list(resource)}, "scopeSpans": scopes}]}
        path.write_text(json.dumps(document) + "\n")
        return torchspan("show", path, *words)

    return call


def waterfall(out):
    """The lines of the first waterfall after its title."""
    return out.split("\n\n")[1].splitlines()[1:]


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("width", [40, 80])
def test_no_number_keeps_a_file_from_being_drawn(show, monkeypatch, width, value):
    monkeypatch.setenv("COLUMNS", str(width))
    resource = [attribute(key, {"intValue": value}) for key in ("process.pid", "service.name", "torchspan.run.id")]
    status, out, err = show(*with_numbers(value), resource=resource)

    assert status in {0, 1}  # a time that is none costs its span
    assert out.startswith("   what was ")
    assert f"\ntrace {TRACE}" in out
    assert "Traceback" not in err
    assert max(map(len, out.splitlines())) <= width


@pytest.mark.parametrize("value", NUMBERS.values(), ids=NUMBERS)
def test_no_number_keeps_a_run_from_being_drawn_or_listed_or_written_as_json(show, value):
    run = span(
        900, name="torchspan.run", attributes=[attribute(key, {"doubleValue": value}) for key in semconv.ATTRIBUTES]
    )
    resource = [text("torchspan.run.id", "1"), attribute("process.pid", {"intValue": value})]
    for words in ([], ["--all"], ["--errors"], ["--slowest", "5"]):
        status, out, err = show(run, *with_numbers(value), resource=resource, words=words)
        assert status in {0, 1}
        assert "Traceback" not in err
        assert max(map(len, out.splitlines())) <= 80
    _, out, _ = show(run, *with_numbers(value), resource=resource, words=["--json"])
    assert json.loads(out)["format"] == "torchspan.summary/1"


def test_what_64_bits_do_not_hold_is_not_drawn(show):
    _, out, _ = show(span(attributes=[attribute(semconv.ENGINE_SIZE, {"intValue": str(2**63)})]))
    assert waterfall(out) == ["work                                                  ████████████████   2.00 µs"]


def test_the_longest_durations_keep_their_column(show):
    spans = [span(number, 1, startTimeUnixNano="0", endTimeUnixNano=str(2**64 - 1)) for number in range(2, 60)]
    _, out, _ = show(span(1, startTimeUnixNano="0", endTimeUnixNano=str(2**64 - 1)), *spans)

    assert out.splitlines()[1] == "1  work                 ×1  213504 d"
    assert [line.rpartition(" d")[0].rpartition("█")[2].strip() for line in waterfall(out)[:5]] == [
        "213504",
        "213504",
        "213504",
        "213504",
        "1e+07",
    ]


COMBINING = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code))[0] == "M"]
WITHOUT_A_GLYPH = [
    *map(chr, range(0x115F, 0x1200)),
    "\u2800",
    "\u3164",
    *map(chr, range(0xD7B0, 0xD7C7)),
    "\uffa0",
    "\U0001d159",
]


@pytest.mark.parametrize("chars", [COMBINING, WITHOUT_A_GLYPH], ids=["marks", "fillers"])
def test_characters_that_are_not_seen_are_written_out(chars):
    assert [char for char in chars if printable(char) != ascii(char)[1:-1]] == []


def test_letters_of_other_scripts_are_left_as_they_are():
    for name in ("größe", "модель", "推論", "モデル", "모델", "μ", "😀"):
        assert printable(name) == name


def test_a_pile_of_marks_is_written_out_and_takes_the_columns_that_it_is_given(show):
    _, out, _ = show(span(name="e" + "\u0301" * 50_000))

    assert "\u0301" not in out
    assert max(map(cells, out.splitlines())) == 80
    assert out.splitlines()[1].startswith(r"1  e\u0301\u0301\u0301")
    assert waterfall(out)[0].startswith(r"e\u0301\u0301\u0301")


@pytest.mark.parametrize(
    "piece", ["é", "a\u0301", "ab ", "推", "a/", ".", "_", "1 ", "\x1b", "\n", " ", "\u1161", "'\"", " · ", "\\"]
)
def test_of_a_text_of_200000_characters_the_beginning_is_drawn_wherever_it_stands(show, piece):
    long = piece * (200_000 // len(piece))
    attributes = [text(key, long) for key in ("exception.type", "exception.message", semconv.LOG_MESSAGE)]
    place = [text(key, long) for key in (semconv.CODE_FILE, semconv.CODE_FUNCTION, semconv.FAILED_OPERATOR)]
    events = [{"name": name, "attributes": attributes} for name in ("exception", semconv.LOG_EVENT)]
    _, out, err = show(
        span(1, name=long, status={"code": 2, "message": long}),
        span(2, 1, [text(semconv.ERROR_TYPE, long), text(semconv.ENGINE_NAME, long), *place], events=events),
        resource=[text("service.name", long)],
    )

    assert out.startswith("   what was recorded ")
    assert err == ""
    assert len(out) < 20 * 10 * LONGEST  # a character that is written out has at most ten


def test_a_list_of_20000_texts_under_every_key_is_drawn(show):
    values = {"arrayValue": {"values": [{"stringValue": f"value {number}"} for number in range(20_000)]}}
    keys = [semconv.STEP_NAMES, semconv.FALLBACK_REASON_CLASSES, semconv.INPUT_SHAPES, semconv.ERROR_TYPE]
    status, out, _ = show(span(attributes=[attribute(key, values) for key in keys]))

    assert (status, out[:20]) == (0, "   what was recorded")


def test_of_10000_links_ten_are_named_and_the_others_counted(show):
    links = [{"traceId": f"{number:032x}", "spanId": f"{number:016x}"} for number in range(1, 10_001)]
    _, out, _ = show(span(links=links))

    assert out.count("linked to trace") == 10
    assert out.endswith(" · 9990 more links\n")


def test_of_5000_traces_with_names_of_their_own_ten_have_rows_and_the_others_are_summed(show):
    _, out, _ = show(*({**span(), "traceId": f"{number:032x}", "name": f"job {number}"} for number in range(1, 5_001)))

    assert (
        out
        == """\
   what was recorded       times      time
1  job 1                      ×1   2.00 µs
2  job 2                      ×1   2.00 µs
3  job 3                      ×1   2.00 µs
4  job 4                      ×1   2.00 µs
5  job 5                      ×1   2.00 µs
6  job 6                      ×1   2.00 µs
7  job 7                      ×1   2.00 µs
8  job 8                      ×1   2.00 µs
9  job 9                      ×1   2.00 µs
10 job 10                     ×1   2.00 µs
   … 4990 more, 11 to 5000 ×4990   9.98 ms

trace 00000000000000000000000000000001 · 1970-01-01 00:00:00Z · 1 span
job 1                                                 ████████████████   2.00 µs
"""
    )


def test_a_line_of_200000_escaped_quotes_that_never_closes_its_text_is_one_problem(tmp_path, torchspan):
    path = tmp_path / "quotes.jsonl"
    path.write_text('{"' + '\\"' * 200_000 + "\n")

    assert torchspan("show", path) == (
        2,
        "",
        f"torchspan show: nothing readable in {path}: line 1: not JSON; expected OTLP JSON, as `torchspan run` writes it\n",
    )


@pytest.mark.parametrize("value", [{"arrayValue": {"values": [{"stringValue": "7"}]}}, {"kvlistValue": {"values": []}}])
@pytest.mark.parametrize("words", [[], ["--json"], ["--markdown"], ["--all"], ["--errors"]])
def test_an_array_or_a_map_under_any_key_keeps_no_file_from_being_drawn(show, value, words):
    attributes = [attribute(key, value) for key in semconv.ATTRIBUTES]
    names = ["torch.compile_frame", "torch_tensorrt.compile", "tensorrt.build_engine", "torch_tensorrt.execute"]
    spans = [span(number, 900, attributes, name=name) for number, name in enumerate(names, 1)]
    run = span(900, name="torchspan.run", attributes=attributes)
    resource = [text("torchspan.run.id", "1"), attribute("process.pid", value)]
    status, out, err = show(run, *spans, resource=resource, words=words)
    assert (status, "Traceback" in err, bool(out)) == (0, False, True)
