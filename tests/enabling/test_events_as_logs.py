# SPDX-License-Identifier: Apache-2.0
"""Events of a real compilation as log records: at a real receiver, in the file of a run, and where nothing accepts them."""

import sys

import pytest

from support import log_records, span_file
from support.log_records import PROVIDERS
from support.receiver import Receiver, log_records_in, mapping, spans_in

if not log_records.CAN_EMIT:
    pytest.skip("this version of the SDK has no log records as torchspan writes them", allow_module_level=True)

BREAKS = """
import torch

@torch.compile(backend="eager")
def forward(x):
    torch._dynamo.graph_break("patient jane doe")
    return x + 1

forward(torch.ones(2))
print("compiled")
"""
REPORT = """
print([(event.name, span.name) for span in spans.get_finished_spans() for event in span.events])
print([record.log_record.event_name for record in records.get_finished_logs()])
"""
RUN = "import sys; from torchspan.cli import main; sys.exit(main())"
BREAK = "torch.compile.graph_break"
REASON = f"{BREAK}.reason"


def test_under_opentelemetry_instrument_a_record_arrives_in_place_of_the_event(instrumented):
    with Receiver() as receiver:
        variables = {**receiver.environment(), "OTEL_LOGS_EXPORTER": "otlp", "TORCHSPAN_EVENTS": "log"}
        ran = instrumented(BREAKS, **variables)
        messages = receiver.messages()
    assert (ran.status, ran.out) == (0, "compiled\n")
    (record,) = log_records_in(messages, "torchspan")
    spans = spans_in(messages)
    (frame,) = [span for span in spans if span.span_id == record.span_id]
    attributes = mapping(record.attributes)
    assert (record.event_name, record.severity_text, record.severity_number) == (BREAK, "INFO", 9)
    assert (record.trace_id, frame.name) == (frame.trace_id, "torch.compile_frame")
    assert frame.start_time_unix_nano <= record.time_unix_nano <= frame.end_time_unix_nano
    assert (attributes[f"{BREAK}.class"], attributes["code.line.number"]) == ("requested", 6)
    assert attributes[REASON] == "User-inserted graph break. Message: ?"
    assert [event.name for span in spans for event in span.events] == []
    assert b"jane" not in b"".join(message.SerializeToString() for message in messages)


def test_below_run_the_file_has_the_event_and_its_text_and_the_programs_exporters_the_record(ran, tmp_path):
    file = tmp_path / "run.jsonl"
    below = ran(
        PROVIDERS + BREAKS + REPORT,
        command=[sys.executable, "-c", RUN, "run", "--output", str(file), "--"],
        TORCHSPAN_EVENTS="log",
    )
    assert below.out == f"compiled\n[]\n['{BREAK}']\n"
    (frame,) = [span for span in span_file.read(file) if span.events]
    (event,) = frame.events
    assert (frame.name, event.name) == ("torch.compile_frame", BREAK)
    assert event.attributes[REASON] == "User-inserted graph break. Message: ?"
    texts = {key: text for key, text in frame.attributes.items() if key.startswith("torchspan.local.events.")}
    assert texts == {
        f"torchspan.local.events.0.{REASON}": "User-inserted graph break. Message: None",
        "torchspan.local.events.0.torch.compile.declaration.reason": "patient jane doe",
    }


CALLS = """
import torch

with trace.get_tracer("app").start_as_current_span("request"):
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
"""
OF_RUN = "trace.set_tracer_provider(provider)\n"


@pytest.mark.parametrize("providers", [PROVIDERS, PROVIDERS.replace(OF_RUN, "")], ids=["of the program", "of the run"])
def test_below_run_the_file_has_events_of_the_programs_spans(ran, tmp_path, providers):
    file = tmp_path / "run.jsonl"
    below = ran(
        providers + CALLS + REPORT,
        command=[sys.executable, "-c", RUN, "run", "--output", str(file), "--"],
        TORCHSPAN_EVENTS="log",
        TORCHSPAN_INPUTS="torch.nn:Linear",
    )
    assert below.out == "[]\n['torchspan.input']\n"
    (request,) = [span for span in span_file.read(file) if span.name == "request"]
    assert [(event.name, event.attributes["torchspan.input.shapes"]) for event in request.events] == [
        ("torchspan.input", ["[1, 2]"])
    ]


def test_without_a_logger_provider_the_event_is_on_its_span(ran, tmp_path):
    file = tmp_path / "run.jsonl"
    below = ran(BREAKS, command=[sys.executable, "-c", RUN, "run", "--output", str(file), "--"], TORCHSPAN_EVENTS="log")
    assert below.out == "compiled\n"
    assert "TORCHSPAN_EVENTS asks for log records, but no logger provider accepts them" in below.err
    assert [event.name for span in span_file.read(file) for event in span.events] == [BREAK]


def test_a_wrong_value_is_one_warning_and_events_are_on_spans(ran):
    wrong = ran(PROVIDERS + "import torchspan\ntorchspan.instrument()\n" + BREAKS + REPORT, TORCHSPAN_EVENTS="logs")
    assert wrong.out == f"compiled\n[('{BREAK}', 'torch.compile_frame')]\n[]\n"
    assert "Invalid TORCHSPAN_EVENTS='logs', using default 'span' (expected one of span, log)" in wrong.err
