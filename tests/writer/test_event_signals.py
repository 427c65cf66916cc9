# SPDX-License-Identifier: Apache-2.0
"""Events and exceptions as events of spans, as log records, or exceptions as both; no library is observed here."""

import gc
import subprocess
import sys

import pytest
from opentelemetry import _logs, trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as logs_export
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from support import log_records, span_file
from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine, Occurrence
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Function, Record
from torchspan.output import withheld
from torchspan.output.writer import CurrentSpanNotes, SpanWriter, event_signals
from torchspan.sdk import RunFileProcessor
from torchspan.testing import capture
from torchspan.words import semconv
from torchspan.words.redaction import messages

if not log_records.CAN_EMIT:
    pytest.skip("this version of the SDK has no log records as torchspan writes them", allow_module_level=True)

SECRET = "patient jane doe"
NOWHERE = (
    "OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN asks for log records, but no logger provider accepts them ({}): "
    "exceptions remain events of their spans."
)


@pytest.fixture
def records():
    return log_records.Records()


@pytest.fixture
def logs(records):
    """A real logger provider."""
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(logs_export.SimpleLogRecordProcessor(records))
    return provider


@pytest.fixture
def fails(provider):
    """`fails(opt_in, logger_provider)`: an engine whose compilation fails in its partitioning, both recorded."""

    def fail(opt_in, logger_provider, *, of=provider, capture="none", **options):
        signal = event_signals(opt_in, "span", logger_provider, capture_text=capture == "text")
        engine = Engine()
        extend(engine, SpanWriter(of, signals=signal, capture=capture, **options))
        raise_once(engine)
        return engine

    return fail


def raises():
    raise ValueError(SECRET)


def raise_once(engine):
    wrappers = WrapperFactory(engine, Provenance())
    partition = wrappers.record(Function("x:partition"), Record(phase.PARTITION), raises)
    compilation = wrappers.record(Function("x:compile"), Record(phase.COMPILE), lambda: partition())
    with pytest.raises(ValueError):
        compilation()


def of_spans(exporter):
    """Names of the events of each span."""
    return {span.name: [event.name for event in span.events] for span in exporter.get_finished_spans()}


ON_THE_SPAN = {"torch_tensorrt.partition": ["exception"], "torch_tensorrt.compile": []}
NOT_THERE = {"torch_tensorrt.partition": [], "torch_tensorrt.compile": []}


# --- the variable -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "opt_in", ["", " ", "http", "gen_ai_latest_experimental,http/dup", "log", "LOGS", "logs/", ",,"]
)
def test_without_the_words_of_exceptions_they_are_events_of_spans_alone(fails, logs, records, exporter, opt_in):
    fails(opt_in, logs)
    assert (of_spans(exporter), records.all()) == (ON_THE_SPAN, [])


@pytest.mark.parametrize("opt_in", ["logs", " logs ", "http,logs", "logs,unknown,", "logs,logs"])
def test_logs_are_log_records_alone(fails, logs, records, exporter, opt_in):
    fails(opt_in, logs)
    assert (of_spans(exporter), len(records.all())) == (NOT_THERE, 1)


@pytest.mark.parametrize("opt_in", ["logs/dup", "http/dup, logs/dup", "logs,logs/dup", "logs/dup,logs"])
def test_logs_dup_are_both_and_win_over_logs(fails, logs, records, exporter, opt_in):
    fails(opt_in, logs)
    assert (of_spans(exporter), len(records.all())) == (ON_THE_SPAN, 1)


# --- the record ---------------------------------------------------------------------------------------------------
def test_a_record_has_the_name_the_severity_and_the_ids_of_the_span_that_failed(fails, logs, records, exporter):
    fails("logs", logs)
    (record,) = records.all()
    (span,) = [each for each in exporter.get_finished_spans() if each.name == "torch_tensorrt.partition"]
    assert record.event_name == "torch_tensorrt.partition.exception"
    assert (record.severity_number, record.severity_text) == (_logs.SeverityNumber.ERROR, "ERROR")
    assert (record.trace_id, record.span_id) == (span.context.trace_id, span.context.span_id)
    assert record.trace_flags == span.context.trace_flags
    assert record.timestamp == span.end_time
    assert record.body is None


def test_a_record_is_of_torchspans_scope_with_its_schema(fails, logs, records):
    fails("logs", logs)
    (emitted,) = records.get_finished_logs()
    assert emitted.instrumentation_scope.name == "torchspan"
    assert emitted.instrumentation_scope.schema_url == semconv.SCHEMA_URL


def test_a_record_has_the_attributes_that_the_span_event_has(fails, logs, records, exporter):
    fails("logs/dup", logs)
    (record,) = records.all()
    (event,) = [event for span in exporter.get_finished_spans() for event in span.events]
    assert dict(record.attributes) == dict(event.attributes)
    assert dict(record.attributes) == {
        "exception.type": "ValueError",
        "code.function.name": f"{__name__}.raises",
        "code.file.path": "writer/test_event_signals.py",
        "code.line.number": raises.__code__.co_firstlineno + 1,
    }


def test_a_function_in_c_that_raises_has_the_place_that_called_torchspans_wrapper(provider, exporter):
    engine = Engine()
    extend(engine, SpanWriter(provider))
    wrapped = WrapperFactory(engine, Provenance()).record(Function("x:partition"), Record(phase.PARTITION), int)
    with pytest.raises(ValueError):
        wrapped("no number")
    (span,) = exporter.get_finished_spans()
    (event,) = span.events
    assert event.attributes["code.file.path"] == "writer/test_event_signals.py"


def test_a_record_has_no_text_of_the_programs_and_no_traceback(fails, logs, records):
    fails("logs", logs)
    assert SECRET not in records.get_finished_logs()[0].to_json()


def test_with_captured_text_a_record_has_the_message(fails, logs, records):
    fails("logs", logs, capture="text")
    assert records.all()[0].attributes["exception.message"] == SECRET


def test_the_span_has_its_error_type_and_status_without_the_event(fails, logs, exporter):
    fails("logs", logs)
    assert {span.attributes["error.type"] for span in exporter.get_finished_spans()} == {"ValueError"}
    assert {span.status.status_code for span in exporter.get_finished_spans()} == {trace.StatusCode.ERROR}


def test_what_a_sampler_refuses_is_a_record_with_the_ids_of_its_trace(fails, logs, records):
    fails("logs", logs, of=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    (record,) = records.all()
    assert (record.trace_id != 0, record.trace_flags.sampled) == (True, False)


def test_without_an_sdk_for_spans_a_record_has_no_ids(fails, logs, records):
    fails("logs", logs, of=trace.NoOpTracerProvider())
    (record,) = records.all()
    assert (record.trace_id, record.span_id) == (0, 0)


def test_of_work_without_room_for_a_span_the_record_has_the_ids_of_the_span_around(fails, logs, records, exporter):
    fails("logs", logs, spans_per_trace=1)
    (record,) = records.all()
    (span,) = exporter.get_finished_spans()
    assert (span.name, [each.name for each in span.events]) == ("torch_tensorrt.compile", [])
    assert (record.event_name, record.span_id) == ("torch_tensorrt.partition.exception", span.context.span_id)


def test_while_instrumentation_is_suppressed_there_is_no_record(fails, logs, records):
    with suppress_instrumentation():
        fails("logs/dup", logs)
    assert records.all() == []


# --- the provider -------------------------------------------------------------------------------------------------
@pytest.fixture
def no_global_provider(monkeypatch):
    """Makes it possible to set one, for this test."""
    monkeypatch.setattr(_logs._internal, "_LOGGER_PROVIDER", None)


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.name == "torchspan"]


@pytest.mark.parametrize("opt_in", ["logs", "logs/dup"])
def test_without_a_logger_provider_exceptions_stay_on_spans_with_one_warning(
    fails, exporter, caplog, no_global_provider, opt_in
):
    raise_once(fails(opt_in, None))
    assert of_spans(exporter) == ON_THE_SPAN
    assert sum(len(span.events) for span in exporter.get_finished_spans()) == 2
    assert warnings(caplog) == [NOWHERE.format("set one that has a processor")]


@pytest.mark.skipif(
    not hasattr(LoggerProvider(shutdown_on_exit=False).get_logger("a"), "enabled"),
    reason="the SDK's loggers do not say before 1.45 whether anything takes a record",
)
def test_a_logger_provider_without_processors_takes_none(fails, exporter, caplog):
    fails("logs", LoggerProvider(shutdown_on_exit=False))
    assert of_spans(exporter) == ON_THE_SPAN
    assert warnings(caplog) == [NOWHERE.format("set one that has a processor")]


def test_a_global_logger_provider_that_is_set_late_is_used_from_then_on(
    fails, logs, records, exporter, monkeypatch, no_global_provider
):
    engine = fails("logs", None)
    monkeypatch.setattr(_logs._internal, "_LOGGER_PROVIDER", logs)
    exporter.clear()
    raise_once(engine)
    assert (of_spans(exporter), len(records.all())) == (NOT_THERE, 1)


def test_an_api_whose_loggers_take_no_event_names_leaves_exceptions_on_spans(fails, logs, exporter, monkeypatch):
    monkeypatch.setattr(_logs.Logger, "emit", lambda self, record: None)  # as before 1.38
    monkeypatch.setattr(type(logs.get_logger("torchspan")), "emit", lambda self, record: None)
    fails("logs", logs)
    assert of_spans(exporter) == ON_THE_SPAN


def test_a_logger_that_cannot_say_whether_it_is_enabled_gets_the_record(fails, exporter):
    class Older:
        emitted = []

        def get_logger(self, *_scope):
            return self

        def emit(self, **fields):
            self.emitted.append(fields["event_name"])

    fails("logs", Older())
    assert (Older.emitted, of_spans(exporter)) == (["torch_tensorrt.partition.exception"], NOT_THERE)


@pytest.mark.fault("exporters", "a logger provider raises")
def test_a_logger_that_raises_leaves_the_exception_on_its_span(fails, exporter, caplog):
    class Broken:
        def get_logger(self, *_scope):
            raise RuntimeError(SECRET)

    fails("logs", Broken())
    assert of_spans(exporter) == ON_THE_SPAN
    assert warnings(caplog)[0].startswith(
        "Emitting a log record failed; it is an event of its span instead. Cause: RuntimeError in "
    )


def test_who_asks_for_no_records_does_not_load_the_api_for_them():
    program = (
        "import sys\n"
        "from torchspan.output.writer import SpanWriter, event_signals\n"
        "SpanWriter(signals=event_signals('http', 'span', None, capture_text=False))\n"
        "print('opentelemetry._logs' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- the file of a run --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("opt_in", ["", "logs", "logs/dup"])
@pytest.mark.parametrize("spans_per_trace", [2000, 1])
def test_the_file_of_a_run_has_the_event_whatever_the_variable_says(
    fails, logs, provider, tmp_path, opt_in, spans_per_trace
):
    processor = RunFileProcessor(tmp_path / "run.jsonl", "0123456789abcdef")
    provider.add_span_processor(processor)
    fails(opt_in, logs, spans_per_trace=spans_per_trace)
    events = [event for span in span_file.read(tmp_path / "run.jsonl") for event in span.events]
    processor.shutdown()
    (event,) = events
    assert (event.name, event.attributes["exception.type"]) == ("exception", "ValueError")


def test_nothing_is_kept_of_spans_that_have_ended(fails, logs):
    fails("logs", logs)
    assert withheld._ENDING == {}


# --- processes that end without an exit -----------------------------------------------------------------------------
def test_there_is_something_to_export_once_a_record_has_been_emitted(logs):
    signal = event_signals("logs", "span", logs, capture_text=False)
    engine = Engine()
    extend(engine, SpanWriter(signals=signal))
    assert signal.exports() == []
    raise_once(engine)
    assert signal.exports() == [logs.force_flush]


def test_without_the_variable_there_are_no_records_to_export(logs):
    assert event_signals("", "span", logs, capture_text=False).exports() == []


# --- events other than exceptions -----------------------------------------------------------------------------------
LINE = "The timing cache will not be used!"
OF_EACH_NAME = (
    (semconv.GRAPH_BREAK_EVENT, {semconv.GRAPH_BREAK_CLASS: "requested"}, "INFO"),
    (semconv.RECOMPILE_EVENT, {semconv.RECOMPILE_CLASS: "size"}, "INFO"),
    (semconv.RECOMPILE_LIMIT_EVENT, {semconv.RECOMPILE_LIMIT: "recompile_limit"}, "WARN"),
    (semconv.DECLARATION_EVENT, {semconv.DECLARED_API: "torch.compiler.disable"}, "INFO"),
    (semconv.OBSERVER_EVENT, {semconv.OBSERVER_NAME: "f", semconv.OBSERVER_COUNT: 2}, "INFO"),
    (semconv.CALL_EVENT, {semconv.CALL_MODULE: "Net", semconv.CALL_IS_NEW: True}, "INFO"),
    (semconv.OUTSIDE_EVENT, {semconv.CALL_MODULE: "Net"}, "WARN"),
    (semconv.DRIFT_EVENT, {semconv.CALL_MODULE: "Net", semconv.DRIFT_CALLS: 100}, "WARN"),
    (semconv.LOG_EVENT, {semconv.LOG_SEVERITY: "WARNING", semconv.LOG_COUNT: 3}, "WARN"),
    (semconv.LOG_EVENT, {semconv.LOG_SEVERITY: "ERROR"}, "ERROR"),
    (semconv.LOG_EVENT, {semconv.LOG_SEVERITY: "INTERNAL_ERROR"}, "FATAL"),
)


@pytest.fixture
def engine_with(provider):
    """`engine_with(events, logger_provider)`: an engine whose events are recorded there."""

    def make(events, logger_provider, *, of=provider, capture="none", opt_in="", **options):
        signals = event_signals(opt_in, events, logger_provider, capture_text=capture == "text")
        engine = Engine()
        extend(engine, SpanWriter(of, signals=signals, capture=capture, **options))
        return engine

    return make


def build(engine, *occurred, error=None, around=()):
    """A build in which events occur, one nanosecond after the other, inside work of the phases `around`."""
    opened = [engine.open(each, {}) for each in around]
    event = engine.open(phase.BUILD_ENGINE, {})
    for number, (name, attributes, *_) in enumerate(occurred, 1):
        event.occurrences.append(Occurrence(name, event.start_ns + number, attributes))
    engine.close(event, error)
    for each in reversed(opened):
        engine.close(each)


def test_with_span_events_are_on_their_span_alone(engine_with, logs, records, exporter):
    build(engine_with("span", logs), *OF_EACH_NAME)
    (span,) = exporter.get_finished_spans()
    assert ([event.name for event in span.events], records.all()) == ([name for name, *_ in OF_EACH_NAME], [])


def test_with_log_each_event_is_a_record_of_its_name_severity_and_attributes(engine_with, logs, records, exporter):
    build(engine_with("log", logs), *OF_EACH_NAME)
    (span,) = exporter.get_finished_spans()
    assert span.events == ()
    assert [
        (record.event_name, dict(record.attributes), record.severity_text, record.severity_number.name)
        for record in records.all()
    ] == [
        (name, {str(key): value for key, value in attributes.items()}, severity, severity)
        for name, attributes, severity in OF_EACH_NAME
    ]


def test_the_record_of_an_event_has_its_time_and_the_ids_of_its_span(engine_with, logs, records, exporter):
    build(engine_with("log", logs), OF_EACH_NAME[0])
    (record,), (span,) = records.all(), exporter.get_finished_spans()
    assert (record.timestamp, record.trace_id, record.span_id, record.trace_flags, record.body) == (
        span.start_time + 1,
        span.context.trace_id,
        span.context.span_id,
        span.context.trace_flags,
        None,
    )


def test_the_record_of_an_event_is_of_torchspans_scope_with_its_schema(engine_with, logs, records):
    build(engine_with("log", logs), OF_EACH_NAME[0])
    (emitted,) = records.get_finished_logs()
    scope = emitted.instrumentation_scope
    assert (scope.name, scope.schema_url) == ("torchspan", semconv.SCHEMA_URL)


def test_the_record_of_an_event_passes_the_gate(engine_with, logs, records):
    message = {semconv.LOG_MESSAGE: messages.of_text(SECRET), "alice": SECRET}
    build(engine_with("log", logs), (semconv.LOG_EVENT, message), (SECRET, {}))
    assert [(record.event_name, dict(record.attributes)) for record in records.all()] == [
        ("tensorrt.log", {"tensorrt.log.message": "?"}),
        ("?", {}),
    ]
    assert SECRET not in "".join(record.to_json() for record in records.get_finished_logs())
    semconv.GATE.left_out.discard("alice")


def test_with_captured_text_the_record_of_an_event_has_the_message(engine_with, logs, records):
    build(
        engine_with("log", logs, capture="text"), (semconv.LOG_EVENT, {semconv.LOG_MESSAGE: messages.of_text(SECRET)})
    )
    assert dict(records.all()[0].attributes) == {"tensorrt.log.message": SECRET}


@pytest.mark.parametrize(
    ("events", "opt_in", "on_span", "names"),
    [
        ("log", "", ["exception"], ["tensorrt.log"]),
        ("span", "logs", ["tensorrt.log"], ["tensorrt.build_engine.exception"]),
        ("log", "logs", [], ["tensorrt.log", "tensorrt.build_engine.exception"]),
        ("log", "logs/dup", ["exception"], ["tensorrt.log", "tensorrt.build_engine.exception"]),
    ],
)
def test_events_and_exceptions_are_recorded_where_their_own_variable_says(
    engine_with, logs, records, exporter, events, opt_in, on_span, names
):
    build(engine_with(events, logs, opt_in=opt_in), OF_EACH_NAME[-1], error=ValueError())
    (span,) = exporter.get_finished_spans()
    assert [event.name for event in span.events] == on_span
    assert [record.event_name for record in records.all()] == names


def test_without_a_logger_provider_events_stay_on_their_span_with_one_warning(
    engine_with, exporter, caplog, no_global_provider
):
    build(engine_with("log", None), *OF_EACH_NAME)
    (span,) = exporter.get_finished_spans()
    assert [event.name for event in span.events] == [name for name, *_ in OF_EACH_NAME]
    assert warnings(caplog) == [
        (
            "TORCHSPAN_EVENTS asks for log records, but no logger provider accepts them (set one that has a processor): "
            "events remain events of their spans."
        )
    ]


def test_an_api_whose_loggers_take_no_event_names_leaves_events_on_their_span(engine_with, logs, exporter, monkeypatch):
    monkeypatch.setattr(_logs.Logger, "emit", lambda self, record: None)  # as before 1.38
    monkeypatch.setattr(type(logs.get_logger("torchspan")), "emit", lambda self, record: None)
    build(engine_with("log", logs), OF_EACH_NAME[0])
    (span,) = exporter.get_finished_spans()
    assert [event.name for event in span.events] == ["torch.compile.graph_break"]


def test_events_of_a_span_that_the_sampler_refuses_are_records_with_the_ids_of_its_trace(engine_with, logs, records):
    build(engine_with("log", logs, of=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)), OF_EACH_NAME[0])
    (record,) = records.all()
    assert (record.trace_id != 0, record.trace_flags.sampled) == (True, False)


def test_with_span_events_of_a_span_that_the_sampler_refuses_are_lost(engine_with, logs, records):
    build(engine_with("span", logs, of=TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)), OF_EACH_NAME[0])
    assert records.all() == []


def test_events_of_work_without_room_for_a_span_have_the_ids_of_the_span_around(engine_with, logs, records, exporter):
    build(engine_with("log", logs, spans_per_trace=1), OF_EACH_NAME[0], around=[phase.COMPILE])
    (record,), (span,) = records.all(), exporter.get_finished_spans()
    assert (span.name, record.span_id) == ("torch_tensorrt.compile", span.context.span_id)


def test_an_exception_of_work_without_room_for_a_span_is_one_record(engine_with, logs, records, exporter):
    engine = engine_with("log", logs, opt_in="logs", spans_per_trace=1)
    build(engine, error=ValueError(), around=[phase.COMPILE])
    (span,) = exporter.get_finished_spans()
    assert span.events == ()
    assert [record.event_name for record in records.all()] == ["tensorrt.build_engine.exception"]


def test_there_is_something_to_export_once_an_event_was_a_record(logs):
    signals = event_signals("", "log", logs, capture_text=False)
    engine = Engine()
    extend(engine, SpanWriter(signals=signals))
    assert signals.exports() == []
    build(engine, OF_EACH_NAME[0])
    assert signals.exports() == [logs.force_flush]


# --- events of the program's spans ----------------------------------------------------------------------------------
@pytest.fixture
def notes(logs):
    """Events on the program's current span, as log records."""
    return CurrentSpanNotes(event_signals("", "log", logs, capture_text=False))


def test_an_event_of_a_span_of_the_programs_is_a_record_with_its_ids(notes, tracer, records, exporter):
    with tracer.start_as_current_span("request"):
        notes.add(semconv.DRIFT_EVENT, {semconv.CALL_MODULE: "Net", "alice": SECRET})
    semconv.GATE.left_out.discard("alice")
    (record,), (span,) = records.all(), exporter.get_finished_spans()
    assert (record.event_name, dict(record.attributes), record.severity_text) == (
        "torchspan.input.drift",
        {"torchspan.input.module": "Net"},
        "WARN",
    )
    assert (record.span_id, span.events) == (span.context.span_id, ())
    assert span.start_time <= record.timestamp <= span.end_time


def test_a_span_of_the_programs_has_at_most_20_records_of_each_name(notes, tracer, records):
    with tracer.start_as_current_span("request"):
        for _ in range(25):
            notes.add(semconv.CALL_EVENT, {})
    assert [record.event_name for record in records.all()] == 20 * ["torchspan.input"]


def test_an_event_of_a_span_of_the_programs_stays_there_if_no_logger_provider_accepts_it(
    tracer, exporter, no_global_provider
):
    notes = CurrentSpanNotes(event_signals("", "log", None, capture_text=False))
    with tracer.start_as_current_span("request"):
        notes.add(semconv.DRIFT_EVENT, {semconv.CALL_MODULE: "Net"})
    (span,) = exporter.get_finished_spans()
    assert [(event.name, dict(event.attributes)) for event in span.events] == [
        ("torchspan.input.drift", {"torchspan.input.module": "Net"})
    ]


def test_an_event_of_a_span_that_does_not_record_is_not_emitted(notes, records):
    tracer = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("user")
    notes.add(semconv.DRIFT_EVENT, {})
    with tracer.start_as_current_span("request"):
        notes.add(semconv.DRIFT_EVENT, {})
    assert records.all() == []


def test_nothing_is_kept_of_a_span_of_the_programs_that_has_ended(notes, tracer, records):
    with tracer.start_as_current_span("request"):
        notes.add(semconv.DRIFT_EVENT, {})
        assert len(withheld._NOTED) == 1
    records.clear()  # a record has the context
    gc.collect()
    assert withheld._NOTED == {}


# --- the user's own views -------------------------------------------------------------------------------------------
def test_the_file_of_a_run_has_events_and_their_texts_on_each_span(engine_with, notes, logs, provider, tmp_path):
    path = tmp_path / "run.jsonl"
    processor = RunFileProcessor(path, "0123456789abcdef")
    provider.add_span_processor(processor)
    engine = engine_with("log", logs, capture="local")
    with provider.get_tracer("user").start_as_current_span("request"):
        notes.add(semconv.DRIFT_EVENT, {semconv.CALL_MODULE: "Net"})
        line = (semconv.LOG_EVENT, {semconv.LOG_MESSAGE: messages.of_text(SECRET)})
        build(engine, (semconv.GRAPH_BREAK_EVENT, {}), line, error=ValueError("of alice"))
    processor.shutdown()
    spans = {each.name: each for each in span_file.read(path)}
    assert [event.name for event in spans["request"].events] == ["torchspan.input.drift"]
    events = [(event.name, event.attributes) for event in spans["tensorrt.build_engine"].events]
    assert [name for name, _ in events] == ["exception", "torch.compile.graph_break", "tensorrt.log"]
    assert events[2][1] == {"tensorrt.log.message": "?"}
    texts = {key: text for key, text in spans["tensorrt.build_engine"].attributes.items() if "local" in key}
    assert texts == {
        "torchspan.local.events.0.exception.message": "of alice",
        "torchspan.local.events.2.tensorrt.log.message": SECRET,
    }


def test_capture_has_events_and_their_texts_on_each_span(engine_with, notes, logs, provider):
    engine = engine_with("log", logs, capture="local", opt_in="logs")
    with capture(tracer_provider=provider) as trace_of, provider.get_tracer("user").start_as_current_span("request"):
        notes.add(semconv.DRIFT_EVENT, {semconv.CALL_MODULE: "Net"})
        line = (semconv.LOG_EVENT, {semconv.LOG_MESSAGE: messages.of_text(SECRET)})
        build(engine, (semconv.GRAPH_BREAK_EVENT, {}), line, error=ValueError("of alice"))
    span = trace_of.one("tensorrt.build_engine")
    assert [event.name for event in span.events] == ["torch.compile.graph_break", "tensorrt.log", "exception"]
    assert span.texts == {
        "events.1.tensorrt.log.message": SECRET,
        "events.2.exception.message": "of alice",
    }
    assert [event.name for event in trace_of.one("request").events] == ["torchspan.input.drift"]
