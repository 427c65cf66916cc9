# SPDX-License-Identifier: Apache-2.0
"""Exceptions as events of spans, as log records, or as both; no library is observed here."""

import subprocess
import sys

import pytest
from opentelemetry import _logs, trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as logs_export
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from support import span_file
from support.emitted import EMITTED
from support.engines import extend
from torchspan import phase, semconv
from torchspan._files import withheld
from torchspan.adapters.machinery.provenance import Provenance
from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.engine import Engine
from torchspan.probes import Function, Record
from torchspan.sdk import RunFileProcessor
from torchspan.writer import SpanWriter, exception_signal

if not hasattr(logs_export, "InMemoryLogRecordExporter"):
    pytest.skip("this version of the SDK has no log records as torchspan writes them", allow_module_level=True)

SECRET = "patient jane doe"
NOWHERE = (
    "OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN asks for log records, but no logger provider accepts them ({}): "
    "exceptions remain events of their spans."
)


class Records(logs_export.InMemoryLogRecordExporter):
    """Log records as they are emitted; each is also held against the attribute table at the end."""

    def export(self, batch):
        for each in batch:
            EMITTED.add_log_record(each.log_record)
        return super().export(batch)

    def all(self):
        return [each.log_record for each in self.get_finished_logs()]


@pytest.fixture
def records():
    return Records()


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
        signal = exception_signal(opt_in, logger_provider, capture_text=capture == "text")
        engine = Engine()
        extend(engine, SpanWriter(of, exceptions=signal, capture=capture, **options).callback)
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
        "code.file.path": "writer/test_exception_signals.py",
        "code.line.number": raises.__code__.co_firstlineno + 1,
    }


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


def test_a_logger_that_raises_leaves_the_exception_on_its_span(fails, exporter, caplog):
    class Broken:
        def get_logger(self, *_scope):
            raise RuntimeError(SECRET)

    fails("logs", Broken())
    assert of_spans(exporter) == ON_THE_SPAN
    assert warnings(caplog)[0].startswith(
        "Emitting a log record of an exception failed; it is an event of its span instead. Cause: RuntimeError in "
    )


def test_who_asks_for_no_records_does_not_load_the_api_for_them():
    program = (
        "import sys\n"
        "from torchspan.writer import SpanWriter, exception_signal\n"
        "SpanWriter(exceptions=exception_signal('http', None, capture_text=False))\n"
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
    signal = exception_signal("logs", logs, capture_text=False)
    engine = Engine()
    extend(engine, SpanWriter(exceptions=signal).callback)
    assert signal.exports() == []
    raise_once(engine)
    assert signal.exports() == [logs.force_flush]


def test_without_the_variable_there_are_no_records_to_export(logs):
    assert exception_signal("", logs, capture_text=False).exports() == []
