# SPDX-License-Identifier: Apache-2.0
"""The variables that bound the SDK's own end, each against what the installed SDK does with it."""

import io

import pytest
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from torchspan.cli.doctor import _exit
from torchspan.cli.doctor._check import Context, State


def rows(**environment):
    return {each.name: each for each in _exit.bounds(Context(environment))}


def test_without_variables_each_row_has_the_defaults_of_the_sdk():
    found = rows()

    assert [(name, each.state) for name, each in found.items()] == [
        ("exit.otlp", State.NOTE),
        ("exit.spans", State.NOTE),
        ("exit.metrics", State.NOTE),
        ("exit.logs", State.NOTE),
    ]
    assert found["exit.spans"].facts == {
        "variables": {
            "OTEL_BSP_SCHEDULE_DELAY": 5000,
            "OTEL_BSP_MAX_QUEUE_SIZE": 2048,
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": 512,
            "OTEL_BSP_EXPORT_TIMEOUT": 30000,
        },
        "set": [],
    }
    assert found["exit.spans"].summary == (
        "Spans wait for at most 5000 ms, in a queue of 2048. What is still queued at the end of the program is "
        "sent in batches of 512, for at most 30 s, which no variable changes: OTEL_BSP_EXPORT_TIMEOUT has no effect in the SDK for Python. All of "
        "these values are defaults."
    )
    assert found["exit.metrics"].facts["variables"] == {
        "OTEL_METRIC_EXPORT_INTERVAL": 60000,
        "OTEL_METRIC_EXPORT_TIMEOUT": 30000,
    }


def test_the_defaults_are_those_of_the_installed_sdk():
    processor = BatchSpanProcessor(InMemorySpanExporter())
    reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=io.StringIO()))
    try:
        batches = processor._batch_processor
        assert [
            batches._schedule_delay_millis,
            batches._max_queue_size,
            batches._max_export_batch_size,
            batches._export_timeout_millis,
        ] == list(rows()["exit.spans"].facts["variables"].values())
        assert [reader._export_interval_millis, reader._export_timeout_millis] == list(
            rows()["exit.metrics"].facts["variables"].values()
        )
    finally:
        processor.shutdown()
        reader.shutdown()


def test_present_values_are_in_the_row():
    found = rows(OTEL_BSP_SCHEDULE_DELAY="60000", OTEL_METRIC_EXPORT_INTERVAL="1e3")

    assert found["exit.spans"].summary.startswith("Spans wait for at most 60000 ms, in a queue of 2048. ")
    assert found["exit.spans"].summary.endswith(" Set here: OTEL_BSP_SCHEDULE_DELAY.")
    assert found["exit.metrics"].summary.startswith("Metrics are sent every 1000 ms, ")


@pytest.mark.parametrize(
    ("environment", "summary"),
    [
        ({"OTEL_BSP_SCHEDULE_DELAY": "0"}, "OTEL_BSP_SCHEDULE_DELAY=0 is not above 0: "),
        (
            {"OTEL_BSP_MAX_QUEUE_SIZE": "100"},
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=512 is above OTEL_BSP_MAX_QUEUE_SIZE=100: ",
        ),
    ],
)
def test_values_that_the_sdk_refuses_fail(environment, summary, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError):
        BatchSpanProcessor(InMemorySpanExporter())
    found = rows(**environment)["exit.spans"]

    assert found.state is State.FAILED
    assert found.summary == (
        f"{summary}what exports this signal cannot be created, and the SDK sets up no signal at all."
    )


def test_what_is_not_a_number_is_a_warning_with_the_default_that_is_used(monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "5s")
    processor = BatchSpanProcessor(InMemorySpanExporter())
    processor.shutdown()
    found = rows(OTEL_BSP_SCHEDULE_DELAY="5s")["exit.spans"]

    assert processor._batch_processor._schedule_delay_millis == 5000
    assert (found.state, found.summary) == (
        State.WARNING,
        "OTEL_BSP_SCHEDULE_DELAY=5s is not a valid number: the default, 5000, is used.",
    )


def test_an_interval_of_metrics_that_is_not_above_0_fails():
    found = rows(OTEL_METRIC_EXPORT_INTERVAL="0")["exit.metrics"]

    assert (found.state, found.summary.partition(":")[0]) == (
        State.FAILED,
        "OTEL_METRIC_EXPORT_INTERVAL=0 is not above 0",
    )


def test_a_timeout_in_milliseconds_is_a_warning_because_exporters_read_seconds():
    found = rows(OTEL_EXPORTER_OTLP_TIMEOUT="10000")["exit.otlp"]

    assert found.state is State.WARNING
    assert found.remedy == "Set OTEL_EXPORTER_OTLP_TIMEOUT to seconds, such as 10."


def test_a_timeout_that_is_not_a_number_fails_as_the_exporter_over_grpc_does(monkeypatch):
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")
    with pytest.raises(ValueError):
        OTLPSpanExporter()

    assert rows(OTEL_EXPORTER_OTLP_TIMEOUT="10s")["exit.otlp"].state is State.FAILED


def test_with_a_configuration_file_the_variables_have_no_effect(tmp_path):
    file = tmp_path / "otel.yaml"
    file.write_text("file_format: '1.0'\n")
    found = rows(OTEL_CONFIG_FILE=str(file), OTEL_BSP_SCHEDULE_DELAY="0")

    assert list(found) == ["exit.otlp", "exit.configuration_file"]
    assert found["exit.configuration_file"].state is State.NOTE
