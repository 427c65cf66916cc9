# SPDX-License-Identifier: Apache-2.0
"""`TORCHSPAN_CAPTURE=local`: the file of a run and `capture()` have texts whole, the program's exporters what may leave."""

import json
import logging

import pytest

pytest.importorskip("opentelemetry.exporter.otlp", reason="no exporter is installed")
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as logs_export
from opentelemetry.sdk.trace import SpanLimits, TracerProvider

from support import log_records, span_file
from support.engines import extend
from support.tree import without_clocks
from torchspan import phase
from torchspan.engine import Engine, Occurrence
from torchspan.output import withheld
from torchspan.output.writer import SpanWriter, event_signals
from torchspan.sdk import RunFileProcessor
from torchspan.testing import capture
from torchspan.words import semconv
from torchspan.words.redaction import messages

SECRET = "the patient has pain in the left hand"
PARSER = f"Failed to parse ONNX model from file: {SECRET}!"
MESSAGE = "events.0.exception.message"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def processor(path, provider):
    processor = RunFileProcessor(path, "0123456789abcdef")
    provider.add_span_processor(processor)
    yield processor
    processor.shutdown()


@pytest.fixture
def engine_with(provider, processor):
    """`engine_with(capture)`: an engine whose spans go to the program's exporter and to the file of a run."""

    def make(capture="local", opt_in="", events="span", logs=None, **options):
        engine = Engine()
        signal = event_signals(opt_in, events, logs, capture_text=capture == "text")
        extend(engine, SpanWriter(provider, capture=capture, signals=signal, **options))
        return engine

    return make


def fail(engine):
    """Work with a text of each kind: an attribute, a status, a line of a log, a guard, the program's own, an exception."""
    frame = engine.open(phase.COMPILE_FRAME, {})
    now = frame.start_ns
    frame.occurrences += [
        Occurrence(semconv.RECOMPILE_EVENT, now, {semconv.RECOMPILE_REASON: f"name == '{SECRET}'"}),
        Occurrence(semconv.GRAPH_BREAK_EVENT, now, {semconv.DECLARED_REASON: messages.of_program(SECRET)}),
    ]
    build = engine.open(phase.BUILD_ENGINE, {})
    build.additions |= {semconv.ERROR_TYPE: "engine_build_failed", semconv.BUILD_ERROR: messages.of_text(SECRET)}
    build.occurrences.append(Occurrence(semconv.LOG_EVENT, now, {semconv.LOG_MESSAGE: messages.of_text(SECRET)}))
    engine.close(build)
    parse = engine.open(phase.PARSE, {})
    parse.additions[semconv.PARSER_ERROR] = messages.of_text(PARSER)
    engine.close(parse)
    engine.close(frame, ValueError(SECRET))


TEXTS = {
    "tensorrt.build_engine": {
        "tensorrt.build.error": SECRET,
        "events.0.tensorrt.log.message": SECRET,
    },
    "tensorrt.parse": {"tensorrt.parser.error": PARSER},
    "torch.compile_frame": {
        "events.0.torch.compile.recompile.reason": f"name == '{SECRET}'",
        "events.1.torch.compile.declaration.reason": SECRET,
        "events.2.exception.message": SECRET,
    },
}


def ended(path):
    """The spans in the file that have ended."""
    return [span for span in span_file.read(path) if span.name != "torchspan.progress"]


def texts(span):
    """Of a span as it stands in the file."""
    return {
        key.removeprefix(semconv.LOCAL): text for key, text in span.attributes.items() if key.startswith(semconv.LOCAL)
    }


def test_the_file_has_each_text_on_its_span_alone(engine_with, path):
    fail(engine_with())
    assert {span.name: texts(span) for span in ended(path)} == TEXTS
    for line in path.read_text().splitlines():
        for of_resource in json.loads(line)["resourceSpans"]:
            (span,) = [span for scope in of_resource["scopeSpans"] for span in scope["spans"]]
            rest = {
                **span,
                "attributes": [each for each in span["attributes"] if not each["key"].startswith(semconv.LOCAL)],
            }
            assert SECRET not in json.dumps([rest, of_resource["resource"]])


def test_an_exporter_of_the_program_gets_no_text(engine_with, exporter, caplog):
    caplog.set_level(logging.DEBUG)
    fail(engine_with())
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == list(TEXTS)
    for exported in (*(span.to_json() for span in spans), encode_spans(spans).SerializeToString().decode("latin-1")):
        assert SECRET not in exported
        assert semconv.LOCAL not in exported
    assert SECRET not in caplog.text
    assert spans[1].attributes["tensorrt.parser.error"] == "Failed to parse ONNX model from file: ?!"


def test_an_exporter_gets_with_local_what_it_gets_with_none(engine_with, exporter):
    described = []
    for capture_setting in ("none", "local"):
        exporter.clear()
        fail(engine_with(capture_setting))
        described += [
            [
                (
                    span.name,
                    without_clocks(span.attributes),
                    [(event.name, dict(event.attributes)) for event in span.events],
                    span.status.description,
                )
                for span in exporter.get_finished_spans()
            ]
        ]
    assert described[0] == described[1]


@pytest.mark.parametrize("capture_setting", ["none", "text"])
def test_without_local_the_file_has_no_texts_of_its_own(engine_with, path, capture_setting):
    fail(engine_with(capture_setting))
    assert [texts(span) for span in ended(path)] == [{}, {}, {}]
    assert (SECRET in path.read_text()) == (capture_setting == "text")


def test_what_leaves_whole_is_not_in_the_file_twice(engine_with, path):
    engine = engine_with()
    event = engine.open(phase.PARSE, {})
    event.additions[semconv.PARSER_ERROR] = messages.of_text("Failed to parse ONNX model from file: ?!")
    engine.close(event)
    (span,) = ended(path)
    assert texts(span) == {}


def test_a_span_of_the_program_gets_no_texts(engine_with, provider, path):
    engine = engine_with()
    with provider.get_tracer("app").start_as_current_span("request"):
        fail(engine)
    assert {span.name: texts(span) for span in ended(path)} == {**TEXTS, "request": {}}


def test_the_text_of_a_later_event_has_its_index(engine_with, path):
    engine = engine_with()
    event = engine.open(phase.BUILD_ENGINE, {})
    for line in ("The timing cache will not be used!", SECRET):
        logged = {semconv.LOG_MESSAGE: messages.of_text(line), semconv.LOG_SEVERITY: "WARNING"}
        event.occurrences.append(Occurrence(semconv.LOG_EVENT, event.start_ns + 1, logged))
    engine.close(event)
    (span,) = ended(path)
    assert [each.attributes["tensorrt.log.message"] for each in span.events] == [
        "The timing cache will not be used!",
        "?",
    ]
    assert texts(span) == {"events.1.tensorrt.log.message": SECRET}


def test_an_event_that_the_sdks_limit_drops_has_no_text_and_the_others_keep_theirs(path):
    provider = TracerProvider(span_limits=SpanLimits(max_events=1), shutdown_on_exit=False)
    provider.add_span_processor(RunFileProcessor(path, "0123456789abcdef"))
    engine = Engine()
    extend(engine, SpanWriter(provider, capture="local"))
    event = engine.open(phase.BUILD_ENGINE, {})
    event.occurrences += [
        Occurrence(semconv.LOG_EVENT, event.start_ns + 1, {semconv.LOG_MESSAGE: messages.of_text(line)})
        for line in ("the first line", "the second line")
    ]
    engine.close(event)
    provider.shutdown()
    (span,) = ended(path)
    assert len(span.events) == 1
    assert texts(span) == {"events.0.tensorrt.log.message": "the second line"}


def test_work_that_is_folded_has_its_texts_on_the_span_around_it(engine_with, path):
    engine = engine_with(spans_per_trace=1)
    compilation = engine.open(phase.COMPILE, {})
    engine.close(engine.open(phase.CONVERT, {}), ValueError(SECRET))
    engine.close(compilation)
    (span,) = ended(path)
    assert [event.name for event in span.events] == ["exception"]
    assert texts(span) == {MESSAGE: SECRET}


def test_the_text_of_an_exception_that_is_a_log_record_has_the_index_behind_the_spans_events(
    engine_with, exporter, path
):
    if not log_records.CAN_EMIT:
        pytest.skip("this version of the SDK has no log records as torchspan writes them")
    records = logs_export.InMemoryLogRecordExporter()
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(logs_export.SimpleLogRecordProcessor(records))
    engine = engine_with(opt_in="logs", logs=logs)
    event = engine.open(phase.BUILD_ENGINE, {})
    event.occurrences.append(
        Occurrence(semconv.LOG_EVENT, event.start_ns + 1, {semconv.LOG_MESSAGE: messages.of_text("?")})
    )
    engine.close(event, ValueError(SECRET))
    span = ended(path)[-1]
    assert [each.name for each in span.events] == ["tensorrt.log", "exception"]
    assert texts(span) == {"events.1.exception.message": SECRET}
    (record,) = records.get_finished_logs()
    assert SECRET not in record.to_json()
    assert [each.name for each in exporter.get_finished_spans()[-1].events] == ["tensorrt.log"]


def test_a_text_is_bounded(engine_with, path):
    engine = engine_with()
    engine.close(engine.open(phase.COMPILE, {}), ValueError("é" * 5000))
    (span,) = ended(path)
    assert texts(span) == {MESSAGE: "é" * 1022 + "…"}


def test_nothing_is_kept_of_a_span_that_has_ended(engine_with):
    fail(engine_with())
    assert withheld._ENDING == {}


def test_a_span_of_the_program_with_the_ids_of_an_ended_one_gets_nothing(engine_with, exporter):
    fail(engine_with())
    ids = exporter.get_finished_spans()[0].context
    assert withheld.of(ids.trace_id, ids.span_id) is withheld.NOTHING


# --- rights for others --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_with_rights_for_others_has_no_texts_which_one_line_says(engine_with, path, caplog, mode):
    path.touch()
    path.chmod(mode)
    engine = engine_with()
    fail(engine)
    fail(engine)
    assert SECRET not in path.read_text()
    assert [texts(span) for span in ended(path)] == [{}] * 6
    (line,) = [record.getMessage() for record in caplog.records if record.name == "torchspan.sdk"]
    assert line == (
        f"torchspan: {path} can be read by others than its owner (mode {mode:03o}), so the whole texts of messages are left out "
        "of it. To have them: chmod 600, or another TORCHSPAN_FILE_MODE."
    )


def test_a_mode_that_gives_rights_to_others_leaves_the_texts_out(provider, path, monkeypatch, caplog):
    monkeypatch.setenv("TORCHSPAN_FILE_MODE", "640")
    processor = RunFileProcessor(path, "0123456789abcdef")
    provider.add_span_processor(processor)
    engine = Engine()
    extend(engine, SpanWriter(provider, capture="local"))
    fail(engine)
    processor.shutdown()
    assert SECRET not in path.read_text()
    assert "so the whole texts of messages are left out" in caplog.text


def test_a_run_without_texts_says_nothing_about_the_rights(engine_with, path, caplog):
    path.touch()
    path.chmod(0o644)
    engine = engine_with()
    engine.close(engine.open(phase.COMPILE, {}))
    assert caplog.text == ""


# --- capture() ----------------------------------------------------------------------------------------------------
def test_capture_has_the_texts_and_the_programs_exporter_does_not(provider, exporter):
    engine = Engine()
    extend(engine, SpanWriter(provider, capture="local"))
    with capture(tracer_provider=provider) as captured:
        fail(engine)
    assert {name: captured.one(name).texts for name in TEXTS} == TEXTS
    assert SECRET not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_what_a_test_runner_prints_of_a_span_has_no_text(provider):
    engine = Engine()
    extend(engine, SpanWriter(provider, capture="local"))
    with capture(tracer_provider=provider) as captured:
        fail(engine)
    assert SECRET not in repr([[node.span for node in each.nodes()] for each in captured.traces])


def test_capture_without_local_has_no_texts(provider):
    engine = Engine()
    extend(engine, SpanWriter(provider, capture="none"))
    with capture(tracer_provider=provider) as captured:
        fail(engine)
    assert {name: captured.one(name).texts for name in TEXTS} == {name: {} for name in TEXTS}


def test_what_a_sampler_refuses_has_its_text_nowhere(processor, path):
    engine = Engine()
    extend(engine, SpanWriter(trace.NoOpTracerProvider(), capture="local"))
    fail(engine)
    assert not path.exists()
