# SPDX-License-Identifier: Apache-2.0
"""Spans that did not arrive are counted by the reason; no library is observed here."""

import os
import threading
from importlib.metadata import version

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, Sampler, SamplingResult

from support.engines import extend
from torchspan import phase, semconv
from torchspan._run.exporting import Delivery
from torchspan.engine import ActiveWork, Engine
from torchspan.sdk import FileSpanExporter, TorchspanSampler
from torchspan.writer import MetricWriter, SpanWriter

counts_drops = pytest.mark.skipif(
    tuple(map(int, version("opentelemetry-sdk").split(".")[:2])) < (1, 41),
    reason="the SDK calls nothing when a queue drops a span, before 1.41",
)

REASONS = {"budget", "rank", "sampler", "queue", "exporter", "paused"}


class Answering(SpanExporter):
    """An exporter that answers what a test says; `spans` are those of successful batches."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.spans = []

    def export(self, spans):
        answer = self.answers.pop(0) if self.answers else SpanExportResult.SUCCESS
        if isinstance(answer, BaseException):
            raise answer
        if answer is SpanExportResult.SUCCESS:
            self.spans += spans
        return answer


class Blocked(SpanExporter):
    """An exporter that is in `export` until a test lets it continue."""

    def __init__(self):
        self.entered, self.released = threading.Event(), threading.Event()

    def export(self, spans):
        self.entered.set()
        assert self.released.wait(60)
        return SpanExportResult.SUCCESS


@pytest.fixture
def writing():
    """`writing(provider)`: a writer to it, and what makes an event of a phase."""
    closing = []

    def make(provider):
        engine, writer = Engine(), SpanWriter(provider)
        extend(engine, writer.callback)
        closing.append(writer.losses.close)
        return writer, lambda of_phase=phase.COMPILE: engine.close(engine.open(of_phase, {}))

    yield make
    for each in closing:
        each()


def provider_with(*processors, **options):
    provider = TracerProvider(shutdown_on_exit=False, **options)
    for each in processors:
        provider.add_span_processor(each)
    return provider


# --- exporter ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("answer", [SpanExportResult.FAILURE, OSError("disk full")], ids=["failed", "raised"])
def test_a_batch_that_an_exporter_failed_is_counted(writing, answer):
    exporter = Answering(SpanExportResult.SUCCESS, answer, answer)
    writer, emit = writing(provider_with(SimpleSpanProcessor(exporter)))
    for _ in range(4):
        emit()
    assert (writer.losses.exporter, len(exporter.spans)) == (2, 2)


def test_of_a_failed_batch_torchspans_spans_alone_are_counted(writing):
    provider = provider_with(BatchSpanProcessor(Answering(SpanExportResult.FAILURE), schedule_delay_millis=600_000))
    writer, emit = writing(provider)
    emit()
    for _ in range(3):
        provider.get_tracer("user").start_span("request").end()
    emit()
    provider.force_flush()
    assert writer.losses.exporter == 2


def test_what_each_of_two_exporters_failed_is_counted(writing):
    failing = [SimpleSpanProcessor(Answering(SpanExportResult.FAILURE)) for _ in range(2)]
    writer, emit = writing(provider_with(*failing))
    emit()
    assert writer.losses.exporter == 2


def test_an_exporter_of_two_processors_is_counted_once_for_each_batch(writing):
    exporter = Answering(SpanExportResult.FAILURE, SpanExportResult.SUCCESS)
    writer, emit = writing(provider_with(SimpleSpanProcessor(exporter), SimpleSpanProcessor(exporter)))
    emit()
    assert (writer.losses.exporter, len(exporter.spans)) == (1, 1)


def test_an_exporter_that_is_added_later_is_looked_at_from_the_next_span_on(writing):
    provider = provider_with()
    writer, emit = writing(provider)
    emit()
    provider.add_span_processor(SimpleSpanProcessor(Answering(SpanExportResult.FAILURE)))
    emit()
    assert writer.losses.exporter == 1


def test_torchspans_own_file_exporter_that_cannot_write_is_counted(writing, tmp_path):
    (tmp_path / "file").write_text("no folder")
    writer, emit = writing(provider_with(SimpleSpanProcessor(FileSpanExporter(tmp_path / "file" / "spans.jsonl"))))
    emit()
    assert writer.losses.exporter == 1


def test_an_exporter_that_torchspan_run_has_made_is_looked_at(writing):
    provider = provider_with(Delivery("otlp", Answering(SpanExportResult.FAILURE)))
    writer, emit = writing(provider)
    emit()
    provider.force_flush()
    assert writer.losses.exporter == 1


def test_an_exporter_of_a_class_that_takes_no_attributes_exports_as_usual(writing):
    class Slotted:
        __slots__ = ("exported",)

        def __init__(self):
            self.exported = 0

        def export(self, spans):
            self.exported += len(spans)

    exporter = Slotted()
    writer, emit = writing(provider_with(SimpleSpanProcessor(exporter)))
    emit()
    assert (exporter.exported, writer.losses.exporter) == (1, 0)


def test_what_an_exporter_raises_and_returns_reaches_the_sdk_unchanged(writing):
    error, exporter = OSError("disk full"), Answering()
    _, emit = writing(provider_with(SimpleSpanProcessor(exporter)))
    emit()
    exporter.answers = [error, SpanExportResult.FAILURE, None]
    with pytest.raises(OSError) as caught:
        exporter.export(())
    assert caught.value is error
    assert [exporter.export(()), exporter.export(())] == [SpanExportResult.FAILURE, None]


@counts_drops
def test_when_it_is_closed_the_exporter_and_its_processor_are_as_before(writing):
    exporter = Answering()
    processor = BatchSpanProcessor(exporter, schedule_delay_millis=600_000)
    writer, emit = writing(provider_with(processor))
    before = dict(vars(exporter)), dict(vars(processor._batch_processor._metrics))
    emit()
    assert "export" in vars(exporter)
    writer.losses.close()
    emit()
    assert (dict(vars(exporter)), dict(vars(processor._batch_processor._metrics))) == before


# --- queue --------------------------------------------------------------------------------------------------------
@pytest.fixture
def blocked():
    """A batch processor whose exporter has its first batch of two and does not come back; its queue holds four."""
    exporter = Blocked()
    processor = BatchSpanProcessor(exporter, max_queue_size=4, max_export_batch_size=2, schedule_delay_millis=600_000)
    yield provider_with(processor), exporter
    exporter.released.set()
    processor.shutdown()


@counts_drops
def test_spans_that_a_full_queue_dropped_are_counted(writing, blocked):
    provider, exporter = blocked
    writer, emit = writing(provider)
    for _ in range(2):
        emit()
    assert exporter.entered.wait(60)
    for _ in range(4 + 7):
        emit()
    assert (writer.losses.queue, writer.losses.exporter) == (7, 0)


@counts_drops
def test_the_programs_spans_drop_torchspans_and_those_alone_are_counted(writing, blocked):
    provider, exporter = blocked
    writer, emit = writing(provider)
    user = provider.get_tracer("user")
    for _ in range(2):
        emit()
    assert exporter.entered.wait(60)
    emit()
    emit()
    for _ in range(2 + 5):  # two more fill the queue, two drop torchspan's, three drop the program's own
        user.start_span("request").end()
    assert writer.losses.queue == 2


class MetricsOfSdk144:
    """The processor metrics of SDK 1.44: the reason for a drop is not passed. They replace those of the installed version."""

    def __init__(self):
        self.dropped = 0

    def drop_items(self, count):
        self.dropped += count

    def finish_items(self, count, error=None):
        """Nothing is counted."""


@counts_drops
def test_with_an_sdk_that_passes_no_reason_a_full_queue_drops_as_before_and_is_counted(writing):
    exporter, metrics = Blocked(), MetricsOfSdk144()
    processor = BatchSpanProcessor(exporter, max_queue_size=4, max_export_batch_size=2, schedule_delay_millis=600_000)
    processor._batch_processor._metrics = metrics
    writer, emit = writing(provider_with(processor))
    for _ in range(2):
        emit()
    assert exporter.entered.wait(60)
    for _ in range(4 + 7):
        emit()
    exporter.released.set()
    processor.shutdown()
    assert (writer.losses.queue, metrics.dropped) == (7, 7)


# --- sampler ------------------------------------------------------------------------------------------------------
class RecordedOnly(Sampler):
    """Every span is recorded, and none is sampled."""

    def should_sample(self, *_args, **_kwargs):
        return SamplingResult(Decision.RECORD_ONLY)

    def get_description(self):
        return "RecordedOnly"


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, RecordedOnly()], ids=["dropped", "recorded only"])
def test_a_compilation_that_a_foreign_sampler_refused_is_counted(writing, sampler):
    writer, emit = writing(provider_with(sampler=sampler))
    emit()
    assert writer.refused == 1


def test_runs_that_a_foreign_sampler_refused_are_its_decision_and_are_not_counted(writing):
    writer, emit = writing(provider_with(sampler=ALWAYS_OFF))
    emit(phase.EXECUTE)
    assert (writer.refused, writer.unsampled) == (0, 1)


@pytest.mark.parametrize("sampler", [ALWAYS_ON, TorchspanSampler("other=0")], ids=["always_on", "torchspan"])
def test_a_compilation_that_is_sampled_is_not_counted(writing, sampler):
    writer, emit = writing(provider_with(sampler=sampler))
    emit()
    assert (writer.refused, writer.recorded) == (0, 1)


@pytest.mark.parametrize("around", [trace.INVALID_SPAN_CONTEXT, trace.SpanContext(1, 2, is_remote=True)])
def test_without_an_sdk_no_sampler_has_refused_anything(writing, around):
    writer, emit = writing(trace.NoOpTracerProvider())
    with trace.use_span(trace.NonRecordingSpan(around)):
        emit()
    assert (writer.refused, writer.unsampled) == (0, 1)


# --- in a forked child --------------------------------------------------------------------------------------------
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_that_was_forked_while_a_loss_was_counted_continues(writing):
    writer, emit = writing(provider_with(SimpleSpanProcessor(Answering(*[SpanExportResult.FAILURE] * 9))))
    emit()
    holding, release = threading.Event(), threading.Event()

    def hold():
        with writer.losses._lock:
            holding.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(60)
    child = os.fork()
    if child == 0:
        emit()
        os._exit(writer.losses.exporter)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    release.set()
    thread.join()
    assert status == 2


# --- the metric ---------------------------------------------------------------------------------------------------
def test_the_metric_has_each_reason_with_its_number(metrics):
    engine, counts = Engine(), dict.fromkeys(REASONS, 0)
    dropped = {reason: lambda reason=reason: counts[reason] for reason in REASONS}
    writer = MetricWriter(engine, metrics.provider, active=ActiveWork(), dropped=dropped)
    counts |= {"budget": 1, "rank": 2, "sampler": 3, "queue": 4, "exporter": 5, "paused": 6}
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == counts
    writer.close()


def test_the_reasons_are_those_of_the_table():
    assert {value for name, value in vars(semconv.DroppedReason).items() if name.isupper()} == REASONS
    assert all(semconv.DROPPED_REASON.kind.accepts(each) for each in REASONS)


def test_spans_that_were_not_started_because_writing_them_was_paused_are_counted(instrument, metrics, monkeypatch):
    from torchspan.observers import observable

    class Hiccups(SpanProcessor):
        is_broken = True

        def on_start(self, span, parent_context=None):
            if self.is_broken:
                raise ConnectionError("a hiccup")

    now = [100.0]
    monkeypatch.setattr("torchspan._base.pauses.monotonic", lambda: now[0])
    hiccups, answering = Hiccups(), Answering(SpanExportResult.SUCCESS)
    provider = provider_with(SimpleSpanProcessor(answering))
    provider.add_span_processor(hiccups)
    names = [f"call {number}" for number in range(10)]  # of each function, the rate of spans is limited
    instrument(tracer_provider=provider)

    def call(name):
        def function(): ...

        function.__name__ = function.__qualname__ = name
        observable(function)()

    for name in names[:8]:
        call(name)
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"paused": 5}
    hiccups.is_broken = False
    now[0] += 1
    call(names[8])
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"paused": 5}
    assert metrics.values("torchspan.span.emitted", "torchspan.phase") == {"torchspan.observed": 1}


def test_a_bridge_counts_what_its_exporter_and_its_sampler_lose(instrument, metrics):
    from torchspan.observers import observable

    observed = observable(lambda: None)
    instrument(tracer_provider=provider_with(SimpleSpanProcessor(Answering(SpanExportResult.FAILURE))))
    observed()
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"exporter": 1}


def test_an_exporter_in_memory_keeps_every_span(writing):
    exporter = InMemorySpanExporter()
    writer, emit = writing(provider_with(SimpleSpanProcessor(exporter)))
    emit()
    assert [span.name for span in exporter.get_finished_spans()] == ["torch_tensorrt.compile"]
    assert (writer.losses.exporter, writer.losses.queue) == (0, 0)
