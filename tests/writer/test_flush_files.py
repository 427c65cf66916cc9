# SPDX-License-Identifier: Apache-2.0
"""What a batch processor holds for a file is written when a compilation ends; other exporters get nothing earlier."""

import os
import signal
import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider

from support import span_file
from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine
from torchspan.output.writer import SpanWriter
from torchspan.sdk import FileSpanExporter

HOUR = 3_600_000


class Collector(SpanExporter):
    """Notes what it is given."""

    def __init__(self):
        self.names = []

    def export(self, spans):
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


@pytest.fixture
def collector():
    return Collector()


@pytest.fixture
def made():
    """Makes providers, each with a batch processor for each exporter; they are shut down after the test."""
    providers = []

    def make(*exporters, **options):
        providers.append(TracerProvider(shutdown_on_exit=False, **options))
        for each in exporters:
            providers[-1].add_span_processor(BatchSpanProcessor(each, schedule_delay_millis=HOUR))
        return providers[-1]

    yield make
    for each in providers:
        each.shutdown()


@pytest.fixture
def provider(made, path, collector):
    return made(FileSpanExporter(path), collector)


def engine_of(provider):
    engine = Engine()
    extend(engine, SpanWriter(provider))
    return engine


def names(path):
    return [span.name for span in span_file.read(path)] if path.exists() else []


def test_at_the_end_of_a_compilation_its_spans_are_in_the_file_and_the_other_exporter_has_none(
    provider, path, collector
):
    engine = engine_of(provider)
    compilation = engine.open(phase.COMPILE, {})
    engine.close(engine.open(phase.LOWER, {}))
    engine.close(compilation)
    assert names(path) == ["torch_tensorrt.lower", "torch_tensorrt.compile"]
    assert collector.names == []


def test_the_end_of_a_stage_inside_a_compilation_writes_nothing(provider, path):
    engine = engine_of(provider)
    compilation = engine.open(phase.COMPILE, {})
    engine.close(engine.open(phase.BUILD_ENGINE, {}))
    assert names(path) == []
    engine.close(compilation)


def test_the_end_of_a_run_writes_nothing(provider, path):
    engine = engine_of(provider)
    engine.close(engine.open(phase.EXECUTE, {}))
    assert names(path) == []


def test_a_compilation_below_a_span_of_the_user_is_written_with_what_ended_before(provider, path):
    engine, user = engine_of(provider), provider.get_tracer("user")
    with user.start_as_current_span("request"):
        user.start_span("read").end()
        engine.close(engine.open(phase.COMPILE, {}))
        assert names(path) == ["read", "torch_tensorrt.compile"]


def test_a_compilation_that_failed_is_written(provider, path):
    engine = engine_of(provider)
    engine.close(engine.open(phase.COMPILE, {}), ValueError())
    assert names(path) == ["torch_tensorrt.compile"]


def test_a_compilation_that_is_not_sampled_writes_nothing(made, path):
    engine = engine_of(made(FileSpanExporter(path), sampler=ALWAYS_OFF))
    engine.close(engine.open(phase.COMPILE, {}))
    assert names(path) == []


def test_with_a_concurrent_processor_the_file_alone_is_written(made, path, collector):
    processor = ConcurrentMultiSpanProcessor()
    provider = made(FileSpanExporter(path), collector, active_span_processor=processor)
    engine = engine_of(provider)
    engine.close(engine.open(phase.COMPILE, {}))
    assert (names(path), collector.names) == (["torch_tensorrt.compile"], [])


def test_an_exporter_around_the_file_exporter_is_the_programs_own_affair(made, path):
    class Around(SpanExporter):
        def __init__(self):
            self._inner = FileSpanExporter(path)

        def export(self, spans):
            return self._inner.export(spans)

    engine = engine_of(made(Around()))
    engine.close(engine.open(phase.COMPILE, {}))
    assert names(path) == []


@pytest.mark.parametrize("processors", [None, 3, [object()]])
def test_another_sdk_or_version_is_left_alone(provider, collector, caplog, processors):
    class Other:
        def __init__(self):
            self._active_span_processor = type("Processors", (), {"_span_processors": processors})()

        def get_tracer(self, *args, **kwargs):
            return provider.get_tracer(*args, **kwargs)

    engine = engine_of(Other())
    for _ in range(5):
        engine.close(engine.open(phase.COMPILE, {}))
    provider.force_flush()
    assert (collector.names, caplog.messages) == (["torch_tensorrt.compile"] * 5, [])


def test_without_an_sdk_nothing_happens(caplog):
    engine = engine_of(NoOpTracerProvider())
    engine.close(engine.open(phase.COMPILE, {}))
    assert caplog.messages == []


@pytest.mark.fault("the SDK", "the flush of a processor raises")
def test_a_flush_that_fails_stops_nothing(made, collector, path, caplog):
    class Failing(BatchSpanProcessor):
        def force_flush(self, timeout_millis=None):
            raise RuntimeError("no")

    provider = made(collector)
    provider.add_span_processor(Failing(FileSpanExporter(path), schedule_delay_millis=HOUR))
    engine = engine_of(provider)
    for _ in range(5):
        engine.close(engine.open(phase.COMPILE, {}))
    provider._active_span_processor._span_processors[0].force_flush()
    assert (collector.names, caplog.messages) == (["torch_tensorrt.compile"] * 5, [])


PROGRAM = """
import os, signal, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from torchspan import phase
from torchspan.engine import Engine
from torchspan.sdk import FileSpanExporter
from torchspan.output.writer import SpanWriter

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(FileSpanExporter(sys.argv[1])))
engine = Engine()
engine.listen([SpanWriter(provider)])
engine.close(engine.open(phase.COMPILE, {}))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no signals")
def test_a_program_that_is_killed_after_its_compilation_has_left_it_in_the_file(path):
    done = subprocess.run([sys.executable, "-c", PROGRAM, path], timeout=60, check=False)
    assert (done.returncode, names(path)) == (-signal.SIGKILL, ["torch_tensorrt.compile"])
