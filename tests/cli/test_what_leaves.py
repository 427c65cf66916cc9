# SPDX-License-Identifier: Apache-2.0
"""`torchspan show --what-leaves`: every string of a file with its type, and what its type does not let through."""

import copy
import itertools
import json

import pytest

from torchspan.words import semconv as s


def attribute(key, value):
    return {"key": str(key), "value": {"stringValue": value}}


def span(name="torch_tensorrt.compile", *attributes, **more):
    return {
        "traceId": "ab" * 16,
        "spanId": "01" * 8,
        "name": name,
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "3000",
        "attributes": [attribute(key, value) for key, value in attributes],
        **more,
    }


def request(*spans, scope="torchspan", resource=()):
    attributes = [attribute(key, value) for key, value in resource]
    scopes = [{"scope": {"name": scope}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": scopes}]}


@pytest.fixture
def listed(tmp_path, torchspan):
    """Write documents to a file, a line each, and list what leaves: status, lines, stderr."""

    def call(*documents):
        path = tmp_path / "file.jsonl"
        path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in documents))
        status, out, err = torchspan("show", "--what-leaves", path)
        return status, out.splitlines(), err.replace(str(path), "FILE")

    return call


def test_strings_stand_below_their_key_with_its_type_and_numbers_come_last(listed):
    message = attribute(s.EXCEPTION_MESSAGE, "Failed to parse ONNX model from file: ?!")
    compiled = span("torch_tensorrt.compile", (s.MODEL_CLASS, "ConvNet"), (s.ERROR_TYPE, "RuntimeError"))
    compiled["events"] = [{"name": "exception", "attributes": [message, attribute(s.EXCEPTION_TYPE, "RuntimeError")]}]
    shapes = {"arrayValue": {"values": [{"stringValue": "[1, 16]"}, {"stringValue": "[1..4..8]"}]}}
    compiled["attributes"] += [
        {"key": s.INPUT_SHAPES, "value": shapes},
        {"key": s.OPERATORS_TOTAL, "value": {"intValue": "61"}},
    ]
    observed = span("torchspan.observed app.predict", (s.MODEL_CLASS, "ConvNet"))
    main = span("main", ("user", "alice"))
    main["attributes"].append({"key": "count", "value": {"intValue": "3"}})
    resource = [("service.name", "app.py"), (s.RUN_ID, "0123456789abcdef")]
    status, lines, err = listed(
        request(compiled, observed, resource=resource), request(main, scope="app", resource=resource)
    )

    assert (status, err) == (0, "")
    assert (
        "\n".join(lines)
        == """\
scope torchspan
  name of spans: name of a span
      "torch_tensorrt.compile"
      "torchspan.observed app.predict"
  attribute error.type: identifier
      "RuntimeError"
  attribute torch.inputs.shapes: shape
      "[1, 16]"
      "[1..4..8]"
  attribute torch.model.class: identifier
      "ConvNet"
  name of events: name of an event
      "exception"
  attribute of events exception.message: message
      "Failed to parse ONNX model from file: ?!"
  attribute of events exception.type: identifier
      "RuntimeError"
  name of the scope: torchspan's scope
      "torchspan"
  attribute torch_tensorrt.operators.total: int

resource
  attribute of the resource service.name: no type
    * "app.py"
  attribute of the resource torchspan.run.id: random id
      "0123456789abcdef"

scope app
  name of spans: no type
    * "main"
  attribute user: no type
    * "alice"
  name of the scope: no type
    * "app"
  attribute count: no type

15 distinct strings in 15 places
* 4 without a type: the program's or OpenTelemetry's own"""
    )


def test_what_its_type_does_not_let_through_is_marked_and_is_the_exit_status(listed):
    status, lines, _ = listed(
        request(
            span(
                "torch_tensorrt.compile of alice",
                (s.MODEL_CLASS, "patient jane doe"),
                (s.IR, "dynamo"),
                (s.OPERATORS_TOTAL, "sixty"),
                status={"code": 2, "message": "no converter for alice@example.com"},
                events=[{"name": "login of alice"}],
                spanId="jane",
            )
        )
    )

    assert status == 1
    assert [line for line in lines if line.startswith("    !")] == [
        '    ! "torch_tensorrt.compile of alice"',
        '    ! "patient jane doe"',
        '    ! "sixty"',
        '    ! "login of alice"',
        '    ! "jane"',
    ]
    assert '    ~ "no converter for alice@example.com"' in lines
    assert '      "dynamo"' in lines
    assert lines[-3:] == [
        "8 distinct strings in 8 places",
        "! 5 not let through by the type",
        "~ 1 not in the table of messages: words of a library's code, or whole texts (TORCHSPAN_CAPTURE=text)",
    ]


def test_a_key_without_a_row_on_a_span_of_torchspans_has_no_type(listed):
    status, lines, _ = listed(request(span("torch_tensorrt.compile", ("tenant", "acme"))))

    assert status == 0
    assert lines[lines.index("  attribute tenant: no row in the table") + 1] == '    * "acme"'


def test_what_torchspan_adds_to_a_span_of_the_programs_has_its_type(listed):
    observer = {"name": "torchspan.observer", "attributes": [attribute(s.OBSERVER_NAME, "not a name")]}
    status, lines, _ = listed(request(span("main", (s.ERROR_TYPE, "any text"), events=[observer]), scope="app"))

    assert status == 1
    assert lines[lines.index("  attribute error.type: no type") + 1] == '    * "any text"'
    place = lines.index("  attribute of events torchspan.observer.name: identifier")
    assert lines[place + 1] == '    ! "not a name"'


def test_nothing_acts_on_the_terminal_and_what_is_not_seen_is_written_out(listed):
    texts = ["a", "a ", " a", "a\n", "a\\n", "a\x1b[2J", "e\u0301", "é", "a\u3164", "\ud800", "\u202ea", '"', ""]
    _, lines, err = listed(request(*(span("main", ("key\x1b", text)) for text in texts), scope="app\x07"))

    place = lines.index(r"  attribute key\x1b: no type")
    assert lines[place + 1 : place + 14] == [
        '    * ""',
        '    * " a"',
        '    * """',
        '    * "a"',
        r'    * "a\n"',
        r'    * "a\x1b[2J"',
        '    * "a "',
        r'    * "a\\n"',
        r'    * "a\u3164"',
        r'    * "e\u0301"',
        '    * "é"',
        r'    * "\u202ea"',
        r'    * "\ud800"',
    ]
    assert r"scope app\x07" in lines
    assert err == ""


EVERYWHERE = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "a", "value": {"stringValue": "b"}}], "more": "c"},
            "schemaUrl": "d",
            "scopeSpans": [
                {
                    "schemaUrl": "e",
                    "scope": {"name": "f", "version": "g", "attributes": [{"key": "h", "value": {"stringValue": "i"}}]},
                    "spans": [
                        {
                            "traceId": "j",
                            "spanId": "k",
                            "parentSpanId": "l",
                            "traceState": "m",
                            "name": "n",
                            "kind": "o",
                            "startTimeUnixNano": "p",
                            "flags": "q",
                            "status": {"code": "r", "message": "s", "more": "t"},
                            "attributes": [
                                {"key": "u", "value": {"arrayValue": {"values": [{"stringValue": "v"}]}}},
                                {
                                    "key": "w",
                                    "value": {"kvlistValue": {"values": [{"key": "x", "value": {"stringValue": "y"}}]}},
                                },
                                {"key": "z", "value": {"bytesValue": "0"}, "more": "1"},
                                {"key": "2", "value": {"intValue": "three", "doubleValue": "four", "more": "5"}},
                                {"key": "6", "value": "7"},
                                {"value": {"stringValue": "8"}},
                                "9",
                            ],
                            "events": [{"name": "A", "attributes": [{"key": "B", "value": {"stringValue": "C"}}]}],
                            "links": [
                                {
                                    "traceId": "D",
                                    "traceState": "E",
                                    "attributes": [{"key": "F", "value": {"stringValue": "G"}}],
                                }
                            ],
                            "more": {"inside": ["H", {"deeper": "I"}]},
                        },
                        "J",
                    ],
                }
            ],
        }
    ],
    "resourceMetrics": [
        {
            "scopeMetrics": [
                {
                    "metrics": [
                        {
                            "name": "K",
                            "description": "L",
                            "unit": "M",
                            "sum": {
                                "dataPoints": [
                                    {
                                        "attributes": [{"key": "N", "value": {"stringValue": "O"}}],
                                        "exemplars": [
                                            {"filteredAttributes": [{"key": "P", "value": {}}], "asInt": "Q"}
                                        ],
                                    }
                                ]
                            },
                        }
                    ]
                }
            ]
        }
    ],
    "resource_logs": [
        {
            "scope_logs": [
                {
                    "log_records": [
                        {
                            "severity_text": "R",
                            "body": {"string_value": "S"},
                            "attributes": [{"key": "T", "value": {"string_value": "U"}}],
                            "event_name": "V",
                        }
                    ]
                }
            ]
        }
    ],
    "more": "W",
}


def test_no_string_of_a_document_is_passed_over_wherever_it_stands(listed):
    document, canaries = copy.deepcopy(EVERYWHERE), []

    def canary():
        canaries.append(f"canary-{len(canaries)}-")
        return canaries[-1]

    def plant(value):
        if isinstance(value, list):
            return [canary() if isinstance(each, str) else plant(each) for each in value]
        renamed = {"more", "inside", "deeper"}
        return {
            canary() if key in renamed else key: canary() if isinstance(each, str) else plant(each)
            for key, each in value.items()
        }

    _, lines, _ = listed(plant(document))
    out = "\n".join(lines)

    assert len(canaries) > 60
    assert [each for each in canaries if each not in out] == []


def test_a_field_that_is_there_twice_is_a_problem_and_not_one_of_its_values(listed):
    twice = '{"resourceSpans": [], "resourceSpans": [{"resource": {"attributes": []}}]}'
    status, lines, err = listed(request(span()), twice)

    assert (status, err) == (1, "torchspan: FILE: line 2: a field occurs twice\n")
    assert '      "torch_tensorrt.compile"' in lines


EXPECTED = "expected OTLP JSON, as `torchspan run` writes it"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", f"no strings in FILE; {EXPECTED}"),
        ("x", f"nothing readable in FILE: line 1: not JSON; {EXPECTED}"),
        ('{"resourceSpans": []}', f"no strings in FILE; {EXPECTED}"),
    ],
)
def test_a_file_without_strings_is_one_line_and_status_2(tmp_path, torchspan, content, message):
    path = tmp_path / "file.jsonl"
    path.write_text(content and f"{content}\n")
    status, out, err = torchspan("show", "--what-leaves", path)

    assert (status, out, err.replace(str(path), "FILE")) == (2, "", f"torchspan show: {message}\n")


def test_it_lists_whole_files_and_no_single_trace(torchspan, capsys):
    with pytest.raises(SystemExit) as ended:
        torchspan("show", "--what-leaves", "--trace", "ab", "file.jsonl")

    assert ended.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_the_order_in_which_spans_were_written_makes_no_difference(listed):
    spans = [span(f"torch_tensorrt.{name}", (s.MODEL_CLASS, name)) for name in ("lower", "trace", "compile")]
    texts = {tuple(listed(*map(request, order))[1]) for order in itertools.permutations(spans)}

    assert len(texts) == 1


@pytest.mark.parametrize(
    "text", ["é" * 200_000, "a\u0301" * 100_000, "a " * 100_000, "\x1b" * 200_000, "\\" * 200_000, "a/" * 100_000]
)
def test_a_text_of_200000_characters_is_listed_whole_wherever_it_stands(listed, text):
    keys = [row for row in s.ATTRIBUTES if row.type.startswith("string")]
    status, lines, _ = listed(
        request(span(text, *((key, text) for key in keys[::32]), status={"message": text}, events=[{"name": text}]))
    )

    assert status == 1
    assert max(map(len, lines)) >= 200_000


def test_four_times_as_many_strings_take_about_four_times_as_many_steps(tmp_path, lines_run):
    def shown(count):
        path = tmp_path / f"{count}.jsonl"
        spans = [span(f"torchspan.observed f{number}", (s.MODEL_CLASS, f"C{number}")) for number in range(count)]
        path.write_text("".join(json.dumps(request(each)) + "\n" for each in spans))
        return ["show", "--what-leaves", str(path)]

    small, large = (lines_run(shown(count)) for count in (300, 1_200))
    assert large < 4.5 * small


def measured(name, *attributes, unit="s", description="Bytes."):
    point = {"attributes": [attribute(key, value) for key, value in attributes], "timeUnixNano": "5", "asInt": "7"}
    metric = {"name": name, "unit": unit, "description": description, "sum": {"dataPoints": [point]}}
    return {"resourceMetrics": [{"scopeMetrics": [{"scope": {"name": "torchspan"}, "metrics": [metric]}]}]}


def test_metrics_are_held_against_their_table(listed):
    known = s.METRIC_COMPILE_DURATION
    fine = measured(known, (s.ERROR_TYPE, "app.Broken"), unit=known.unit, description=known.brief)
    assert listed(fine)[0] == 0

    status, lines, _ = listed(fine, measured("of.alice", (s.ERROR_TYPE, "patient jane"), unit="patients"))
    assert status == 1
    assert [line for line in lines if line.startswith("    !")] == [
        '    ! "of.alice"',
        '    ! "Bytes."',
        '    ! "patients"',
        '    ! "patient jane"',
    ]


def test_log_records_of_the_program_are_listed_without_a_type(listed):
    record = {"severityText": "INFO", "body": {"stringValue": "alice logged in"}, "attributes": [attribute("a", "b")]}
    scopes = [{"scope": {"name": "app.login"}, "logRecords": [record]}]
    status, lines, _ = listed({"resourceLogs": [{"scopeLogs": scopes}]})

    assert status == 0
    assert lines[:8] == [
        "scope app.login",
        "  attribute of log records a: no type",
        '    * "b"',
        "  text of log records: no type",
        '    * "INFO"',
        '    * "alice logged in"',
        "  name of the scope: no type",
        '    * "app.login"',
    ]
