# SPDX-License-Identifier: Apache-2.0
"""Every view of a file whose events are log records is that of the file in which they are events of spans."""

import json

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as logs_export
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support import log_records
from support.engines import extend
from support.fake_time import FakeTime
from support.run_recording import RUN, CountingIds, RunRecording, at, write_run
from torchspan import phase
from torchspan.engine import Engine, Occurrence
from torchspan.output.writer import SpanWriter, event_signals
from torchspan.sdk import FileSpanExporter
from torchspan.words import semconv
from torchspan.words.redaction import messages

if not log_records.CAN_EMIT:
    pytest.skip("this version of the SDK has no log records as torchspan writes them", allow_module_level=True)


def work(engine, time):
    """A frame that breaks and reaches the limit of recompilations, and a build of which TensorRT logs failures."""
    frame = engine.open(phase.COMPILE_FRAME, {semconv.CODE_FUNCTION: "forward", semconv.CODE_FILE: "model.py"})
    occurred = [
        (
            semconv.GRAPH_BREAK_EVENT,
            {semconv.GRAPH_BREAK_CLASS: "requested", semconv.CODE_FILE: "model.py", semconv.CODE_LINE: 7},
        ),
        (
            semconv.RECOMPILE_LIMIT_EVENT,
            {semconv.RECOMPILE_CLASS: "size", semconv.RECOMPILE_LIMIT: "recompile_limit"},
        ),
        (
            semconv.OUTSIDE_EVENT,
            {
                semconv.CALL_MODULE: "Net",
                semconv.OUTSIDE_PATHS: ["x"],
                semconv.OUTSIDE_AXES: [0],
                semconv.OUTSIDE_SIZES: [9],
                semconv.OUTSIDE_MINIMUMS: [1],
                semconv.OUTSIDE_MAXIMUMS: [8],
            },
        ),
    ]
    for name, attributes in occurred:
        time.jump(0.01)
        frame.occurrences.append(Occurrence(name, frame.anchor.now_ns(), attributes))
    compilation = engine.open(phase.COMPILE, {semconv.MODEL_CLASS: "Net"})
    build = engine.open(phase.BUILD_ENGINE, {})
    for severity in ("WARNING", "ERROR"):
        time.jump(0.01)
        logged = {semconv.LOG_SEVERITY: severity, semconv.LOG_MESSAGE: messages.of_text("x"), semconv.LOG_COUNT: 2}
        build.occurrences.append(Occurrence(semconv.LOG_EVENT, build.anchor.now_ns(), logged))
    for event, error in ((build, ValueError("of alice")), (compilation, None), (frame, None)):
        time.jump(0.5)
        event.processor = None  # its clock is the real one
        engine.close(event, error)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """`file(events, opt_in)`: a file of the spans and the log records of `work`, which takes the same time each time."""

    def write(events, opt_in):
        path, records, logs = tmp_path / events / "run.jsonl", log_records.Records(), LoggerProvider()
        path.parent.mkdir()
        logs.add_log_record_processor(logs_export.SimpleLogRecordProcessor(records))
        provider = TracerProvider(id_generator=CountingIds(), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(path)))
        engine = Engine()
        signals = event_signals(opt_in, events, logs, capture_text=False)
        extend(engine, SpanWriter(provider, signals=signals))
        work(engine, FakeTime(monkeypatch))
        provider.shutdown()
        if records.all():
            with path.open("a", encoding="utf-8") as lines:
                lines.write(log_records.line(records.get_finished_logs()))
        return path

    return write


@pytest.fixture
def both(file):
    """The two files: events of spans, and log records."""
    on_spans, as_records = file("span", ""), file("log", "logs")
    assert '"events":' not in as_records.read_text()
    assert len(as_records.read_text().splitlines()) == len(on_spans.read_text().splitlines()) + 1
    return on_spans, as_records


@pytest.fixture
def without(both, tmp_path):
    """The second file without the log records."""
    path = tmp_path / "without" / "run.jsonl"
    path.parent.mkdir()
    path.write_text("".join(both[1].read_text().splitlines(keepends=True)[:-1]))
    return path


def outputs(torchspan, both, *words):
    """What the command prints of each, without the name of the folder."""
    said = [torchspan(*words, path) for path in both]
    assert [(status, err) for status, _, err in said] == [(0, ""), (0, "")]
    return [out.replace(str(path.parent), "FOLDER") for (_, out, _), path in zip(said, both, strict=True)]


@pytest.mark.parametrize("option", [[], ["--errors"], ["--all"], ["--markdown"], ["--json"]])
def test_show_prints_the_same_of_both(torchspan, both, option):
    on_spans, as_records = outputs(torchspan, both, "show", *option)
    assert on_spans == as_records
    assert option or "graph break" in on_spans


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_show_writes_the_same_file_of_both(torchspan, both, without, option):
    written = []
    for path in (*both, without):
        assert torchspan("show", path, option, path.with_suffix(".out")) == (0, "", "")
        written.append(path.with_suffix(".out").read_bytes())
    assert written[0] == written[1]
    assert written[0] != written[2]


def test_compare_finds_no_difference(torchspan, both, without):
    first, second = both
    same, others, lacking = (torchspan("compare", first, other)[1] for other in (first, second, without))
    assert same == others
    assert same.startswith("nothing has changed: compile forward")
    assert not lacking.startswith("nothing has changed")


def test_what_leaves_lists_records_with_their_types(torchspan, both):
    _, out, _ = torchspan("show", both[1], "--what-leaves")
    listed = out.split("\n\n")[0].splitlines()
    start = listed.index("  name of log records: name of an event")
    assert listed[start : start + 6] == [
        "  name of log records: name of an event",
        '      "tensorrt.build_engine.exception"',
        '      "tensorrt.log"',
        '      "torch.compile.graph_break"',
        '      "torch.compile.recompile_limit"',
        '      "torchspan.input.out_of_profile"',
    ]
    assert [line for line in listed if line.startswith(("    !", "    *"))] == []


def test_events_whose_spans_are_not_in_the_file_are_said(torchspan, both):
    *spans, records = both[1].read_text().splitlines()
    both[1].write_text("\n".join([spans[0], records]))
    status, out, err = torchspan("show", both[1])
    assert (status, err) == (0, "torchspan: 3 events of spans that are not in the file\n")
    assert "tensorrt.build_engine" in out


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("value", [2**63, int("9" * 4000), 1e308, "NaN", None, [3], {"a": 1}])
def test_no_value_in_a_record_keeps_a_file_from_being_drawn(torchspan, both, monkeypatch, width, value):
    monkeypatch.setenv("COLUMNS", str(width))
    *spans, text = both[1].read_text().splitlines()
    request = json.loads(text)
    for record in request["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
        record["timeUnixNano"] = record["severityNumber"] = value
        record["attributes"] = [
            {"key": each["key"], "value": {"intValue": value, "stringValue": value}} for each in record["attributes"]
        ]
    both[1].write_text("\n".join([*spans, json.dumps(request)]))
    status, out, err = torchspan("show", both[1])
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= width


def test_a_file_of_log_records_alone_has_no_spans(torchspan, both, tmp_path):
    path = tmp_path / "logs.jsonl"
    path.write_text(both[1].read_text().splitlines()[-1])
    assert torchspan("show", path) == (
        2,
        "",
        f"torchspan show: no spans in {path}; expected OTLP JSON, as `torchspan run` writes it\n",
    )


def test_watch_reads_records_before_and_after_the_spans(torchspan, tmp_path):
    path = tmp_path / "run.jsonl"
    recording = RunRecording(path)
    attributes = {semconv.CODE_FUNCTION: "forward", semconv.CODE_FILE: "model.py", semconv.CODE_LINE: 5}
    frame = recording.span("torch.compile_frame", 0, 100, attributes, parent=RUN)
    spans = path.read_text()

    def record(ms, line):
        return json.dumps(
            {
                "resourceLogs": [
                    {
                        "scopeLogs": [
                            {
                                "scope": {"name": "torchspan"},
                                "logRecords": [
                                    {
                                        "eventName": "torch.compile.graph_break",
                                        "timeUnixNano": str(at(ms)),
                                        "traceId": f"{frame.context.trace_id:032x}",
                                        "spanId": f"{frame.context.span_id:016x}",
                                        "attributes": [
                                            {
                                                "key": "torch.compile.graph_break.class",
                                                "value": {"stringValue": "requested"},
                                            },
                                            {"key": "code.file.path", "value": {"stringValue": "model.py"}},
                                            {"key": "code.line.number", "value": {"intValue": str(line)}},
                                        ],
                                    }
                                ],
                            }
                        ]
                    }
                ]
            }
        )

    path.write_text(f"{record(10, 7)}\n{spans}{record(20, 8)}\n")
    write_run(path, -1, 200)
    status, out, err = torchspan("watch", path)
    assert (status, err) == (0, "")
    assert [line for line in (7, 8) if f"graph break at model.py:{line}: requested" in out] == [7, 8]
