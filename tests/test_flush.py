# SPDX-License-Identifier: Apache-2.0
"""`torchspan.flush()`: what it delivers, and that neither an exporter that hangs nor one that fails holds it up."""

import threading
import time

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NoOpTracerProvider

import torchspan
from support.bridge import compiles

LIMIT_S = 60


class Held(SpanExporter):
    """Exports nothing until it may, and then as long as a test likes."""

    def __init__(self):
        self.may_go, self.names = threading.Event(), []

    def export(self, spans):
        assert self.may_go.wait(LIMIT_S)
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS

    def shutdown(self):
        self.may_go.set()


@pytest.fixture
def held():
    """An exporter of a provider that keeps spans for an hour."""
    exporter = Held()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000))
    exporter.provider = provider
    yield exporter
    exporter.may_go.set()
    provider.shutdown()


def test_spans_that_a_batch_processor_holds_have_been_exported(instrument, held):
    instrument(tracer_provider=held.provider)
    compiles("Model")
    held.may_go.set()
    assert held.names == []
    assert torchspan.flush() is True
    assert held.names == ["tensorrt.build_engine", "torch_tensorrt.compile"]


@pytest.mark.fault("exporters", "hangs in a flush")
def test_with_an_exporter_that_hangs_it_returns_false_after_the_timeout(instrument, held, metrics):
    instrument(tracer_provider=held.provider)
    compiles("Model")
    started = time.monotonic()
    assert torchspan.flush(timeout=0.5) is False
    assert 0.5 <= time.monotonic() - started < LIMIT_S / 2
    assert metrics.counts("torch_tensorrt.compile.duration") == {(): 1}


def test_one_provider_that_hangs_does_not_keep_another_from_exporting(instrument, held, metrics, monkeypatch):
    flushed = threading.Event()
    monkeypatch.setattr(metrics.provider, "force_flush", lambda _timeout_ms: flushed.set())
    instrument(tracer_provider=held.provider)
    compiles("Model")
    assert torchspan.flush(timeout=0.5) is False
    assert flushed.is_set()


def test_a_provider_that_fails_is_logged_and_does_not_raise(instrument, provider, monkeypatch, caplog):
    def fails(_timeout_ms):
        raise RuntimeError("secret of the exporter")

    monkeypatch.setattr(provider, "force_flush", fails)
    instrument()
    assert torchspan.flush() is False
    assert "secret" not in " ".join(record.getMessage() for record in caplog.records if record.levelname != "DEBUG")


def test_a_provider_that_returns_false_has_not_delivered(instrument, provider, monkeypatch):
    monkeypatch.setattr(provider, "force_flush", lambda _timeout_ms: False)
    instrument()
    assert torchspan.flush() is False


def test_a_provider_receives_how_long_it_may_take(instrument, provider, monkeypatch):
    allowed_ms = []
    monkeypatch.setattr(provider, "force_flush", allowed_ms.append)
    instrument()
    torchspan.flush(timeout=40)
    (allowed,) = allowed_ms
    assert 20_000 <= allowed <= 40_000


def test_providers_of_the_api_alone_are_skipped(instrument):
    instrument(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider())
    assert torchspan.flush() is True


def test_while_torchspan_is_not_instrumented_there_is_nothing_to_deliver():
    assert torchspan.flush() is True


@pytest.mark.fault("threads", "a flush in a signal handler needs a lock that is held")
def test_a_lock_that_the_interrupted_code_holds_costs_the_timeout_and_no_more(instrument, provider, monkeypatch):
    lock = threading.Lock()
    monkeypatch.setattr(provider, "force_flush", lambda _timeout_ms: lock.acquire() and lock.release())
    instrument()
    with lock:
        assert torchspan.flush(timeout=0.2) is False
