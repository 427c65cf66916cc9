# SPDX-License-Identifier: Apache-2.0
"""Exceptions as log records where the environment alone asks for them, at a real receiver and in the file of a run."""

import sys

import pytest

from support import span_file
from support.receiver import Receiver

FAILS = """
from torchspan.observers import observable

@observable
def load():
    raise FileNotFoundError("/srv/jane/secret.pt")

try:
    load()
except FileNotFoundError:
    print("handled")
"""
RUN = "import sys; from torchspan.cli import main; sys.exit(main())"


@pytest.fixture
def sent(instrumented):
    """`sent(opt_in)`: the spans that arrive of the program, and the log records, as OTLP has them."""

    def send(opt_in):
        with Receiver() as receiver:
            variables = {**receiver.environment(), "OTEL_LOGS_EXPORTER": "otlp"}
            ran = instrumented(FAILS, **variables, OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN=opt_in)
            assert (ran.status, ran.out, ran.err) == (0, "handled\n", "")
            messages = receiver.messages()
        spans = [span for each in messages for of in getattr(each, "resource_spans", ()) for span in spans_of(of)]
        records = [one for each in messages for of in getattr(each, "resource_logs", ()) for one in records_of(of)]
        return spans, records

    return send


def spans_of(of_resource):
    return [span for of_scope in of_resource.scope_spans for span in of_scope.spans]


def records_of(of_resource):
    return [record for of_scope in of_resource.scope_logs for record in of_scope.log_records]


def test_under_opentelemetry_instrument_a_record_arrives_in_place_of_the_event(sent):
    (span,), (record,) = sent("logs")
    assert list(span.events) == []
    assert (record.event_name, record.severity_text) == ("torchspan.observed.exception", "ERROR")
    assert (record.trace_id, record.span_id) == (span.trace_id, span.span_id)
    attributes = {each.key: each.value.string_value or each.value.int_value for each in record.attributes}
    assert attributes == {
        "exception.type": "FileNotFoundError",
        "code.function.name": "__main__.load",
        "code.file.path": "app.py",
        "code.line.number": 6,
    }
    assert b"jane" not in record.SerializeToString()


def test_under_opentelemetry_instrument_both_arrive_where_both_are_asked_for(sent):
    (span,), (record,) = sent("http/dup,logs/dup")
    assert [event.name for event in span.events] == ["exception"]
    assert list(span.events[0].attributes) == list(record.attributes)


def test_under_opentelemetry_instrument_the_event_alone_arrives_without_the_variable(sent):
    (span,), records = sent("")
    assert ([event.name for event in span.events], records) == (["exception"], [])


def test_below_run_the_file_has_the_event_that_the_programs_exporter_does_not_get(ran, tmp_path):
    program = f"""
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans, records = InMemorySpanExporter(), InMemoryLogRecordExporter()
provider, logs = TracerProvider(), LoggerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
logs.add_log_record_processor(SimpleLogRecordProcessor(records))
trace.set_tracer_provider(provider)
_logs.set_logger_provider(logs)
{FAILS}
print([(span.name, len(span.events)) for span in spans.get_finished_spans()])
print([record.log_record.event_name for record in records.get_finished_logs()])
"""
    file = tmp_path / "run.jsonl"
    below = ran(
        program,
        command=[sys.executable, "-c", RUN, "run", "--output", str(file), "--"],
        OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN="logs",
    )
    assert below.out == "handled\n[('torchspan.observed load', 0)]\n['torchspan.observed.exception']\n"
    events = {span.name: [event.name for event in span.events] for span in span_file.read(file)}
    assert events == {"torchspan.observed load": ["exception"], "torchspan.run": []}
