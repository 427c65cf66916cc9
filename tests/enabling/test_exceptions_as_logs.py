# SPDX-License-Identifier: Apache-2.0
"""Exceptions as log records where the environment alone asks for them, at a real receiver and in the file of a run."""

import sys

import pytest

from support import span_file
from support.log_records import PROVIDERS
from support.receiver import Receiver, log_records_in, spans_in

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
REPORT = """
print([(span.name, len(span.events)) for span in spans.get_finished_spans()])
print([record.log_record.event_name for record in records.get_finished_logs()])
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
        return spans_in(messages), log_records_in(messages)

    return send


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
    file = tmp_path / "run.jsonl"
    below = ran(
        PROVIDERS + FAILS + REPORT,
        command=[sys.executable, "-c", RUN, "run", "--output", str(file), "--"],
        OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN="logs",
    )
    assert below.out == "handled\n[('torchspan.observed load', 0)]\n['torchspan.observed.exception']\n"
    events = {span.name: [event.name for event in span.events] for span in span_file.read(file)}
    assert events == {"torchspan.observed load": ["exception"], "torchspan.run": []}
