# SPDX-License-Identifier: Apache-2.0
"""Threads of torchspan's exist only where what they record of work is exported."""

import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from support.engines import extend
from torchspan import phase
from torchspan.engine import ActiveWork, Engine
from torchspan.output.writer import DeviceMemory, Heartbeats, ProcessMemory, Sampler, SpanWriter


def provider(**options):
    made = TracerProvider(shutdown_on_exit=False, **options)
    made.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return made


class Nothing:
    """Receives heartbeats."""

    def begin(self, event):
        pass

    def report(self, event, number):
        return False

    def flush(self):
        pass


@pytest.fixture
def threads_of(monkeypatch):
    """`threads_of(provider)`: the names of torchspan's threads that a compilation with a build starts."""
    undo = []

    def compile_with(provider):
        engine, writer, active, sampler = Engine(), SpanWriter(provider), ActiveWork(), Sampler()
        heartbeats = Heartbeats(active, Nothing(), None, engine.guard, is_exported=writer.is_exported)
        undo.extend((sampler.close, heartbeats.stop))
        memory = ProcessMemory(sampler, writer.is_exported)
        extend(engine, writer, active, heartbeats, memory)
        started = []
        start = threading.Thread.start
        monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self.name), start(self))[1])
        compilation = engine.open(phase.COMPILE, {})
        engine.close(engine.open(phase.BUILD_ENGINE, {}))
        engine.close(compilation)
        return sorted(started)

    yield compile_with
    for each in undo:
        each()


def test_a_recorded_compilation_has_a_thread_for_heartbeats_and_one_for_memory(threads_of):
    assert threads_of(provider()) == ["torchspan memory", "torchspan-heartbeats"]


def test_a_sampler_that_refuses_starts_no_thread(threads_of):
    assert threads_of(provider(sampler=ALWAYS_OFF)) == []


def test_a_provider_without_processors_starts_no_thread(threads_of):
    assert threads_of(TracerProvider(shutdown_on_exit=False)) == []


def test_otel_sdk_disabled_starts_no_thread(threads_of, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert threads_of(provider()) == []


def test_an_api_without_sdk_starts_no_thread(threads_of):
    assert threads_of(trace.NoOpTracerProvider()) == []
    assert threads_of(trace.ProxyTracerProvider()) == []


def test_no_memory_is_read_for_a_span_that_goes_nowhere():
    engine, writer = Engine(), SpanWriter(TracerProvider(shutdown_on_exit=False))
    sampler = Sampler()
    extend(engine, writer, ProcessMemory(sampler, writer.is_exported))
    extend(engine, DeviceMemory(sampler, writer.is_exported, bool))
    event = engine.open(phase.BUILD_ENGINE, {})
    engine.close(event)
    assert event.additions == {}
