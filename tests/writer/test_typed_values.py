# SPDX-License-Identifier: Apache-2.0
"""Names and attributes pass the gate on every way out: spans, events, statuses, progress, notes, folded work, metrics."""

import threading

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import StatusCode

from support.engines import extend
from torchspan import phase
from torchspan.engine import Engine, Occurrence, Placement
from torchspan.output.writer import CurrentSpanNotes, MetricWriter, ProgressWriter, SpanWriter
from torchspan.words import semconv

CANARY = "jane doe alice@example.com sk-live-4711"
"""Neither a name nor an operator, a version, a shape or a word of a library's."""


@pytest.fixture
def provider(exporter):
    """Not held against the table: rows are where they do not belong."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


@pytest.fixture
def engine(provider):
    engine = Engine()
    extend(engine, SpanWriter(provider))
    return engine


def leaked(span):
    """Whether anything of a span has a word of the canary."""
    events = [(each.name, dict(each.attributes)) for each in span.events]
    reported = repr((span.name, dict(span.attributes), span.status.description, events))
    return [word for word in ("jane", "doe", "alice", "4711") if word in reported]


STRINGS = [row for row in semconv.ATTRIBUTES if row.kind is not None and not (row.metric or row.resource)]


@pytest.mark.parametrize("row", STRINGS, ids=str)
def test_no_row_of_strings_lets_a_canary_through(engine, exporter, row):
    if row == semconv.OPEN_ANCESTOR_NAMES:  # names of spans of the program's, in the file of `torchspan run` alone
        return
    value = [CANARY] if row.type == "string[]" else CANARY
    event = engine.open(phase.COMPILE, {row: value})
    event.additions[row] = value
    event.occurrences.append(Occurrence((*row.events, semconv.LOG_EVENT)[0], event.start_ns, {row: value}))
    engine.close(event)
    (span,) = exporter.get_finished_spans()
    assert row in span.attributes
    assert leaked(span) == []


@pytest.mark.parametrize(
    ("target", "reported"),
    [("f.<locals>.g", "f.<locals>.g"), (CANARY, "?"), ("n" * 3_000_000, "?"), ("a\x1b[31m", "?"), ("a\u202eb", "?")],
    ids=["a name", "words", "3 MB", "escape", "direction"],
)
def test_the_target_in_a_spans_name_is_an_identifier(engine, exporter, target, reported):
    engine.close(engine.open(phase.OBSERVED, {}, target=target))
    assert [span.name for span in exporter.get_finished_spans()] == [f"torchspan.observed {reported}"]


def test_an_exception_class_made_at_run_time_has_a_question_mark_for_a_name(engine, exporter):
    made = type(CANARY, (Exception,), {"__module__": "app"})
    engine.close(engine.open(phase.COMPILE, {}), made())
    (span,) = exporter.get_finished_spans()
    assert span.attributes["error.type"] == "?"
    assert span.events[0].attributes["exception.type"] == "?"


@pytest.mark.parametrize(("capture", "is_whole"), [("none", False), ("local", False), ("text", True)])
def test_the_description_of_a_status_is_a_message(provider, exporter, capture, is_whole):
    engine = Engine()
    extend(engine, SpanWriter(provider, capture=capture))
    event = engine.open(phase.BUILD_ENGINE, {})
    event.additions.update({semconv.ERROR_TYPE: "engine_build_failed", semconv.BUILD_ERROR: f"failed: {CANARY}"})
    engine.close(event)
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == span.attributes["tensorrt.build.error"]
    assert (span.status.description == f"failed: {CANARY}") == is_whole


def test_an_event_without_a_row_has_a_question_mark_for_a_name(engine, exporter):
    event = engine.open(phase.COMPILE, {})
    event.occurrences.append(Occurrence(CANARY, event.start_ns, {}))
    engine.close(event)
    assert [each.name for each in exporter.get_finished_spans()[0].events] == ["?"]


def test_progress_says_no_more_than_the_spans_do(engine, provider, exporter):
    facts = {semconv.MODEL_CLASS: CANARY, semconv.ENTRY_POINT: CANARY, semconv.ENGINE_NAME: CANARY}
    compilation = engine.open(phase.COMPILE, facts)
    running = engine.open(phase.OBSERVED, {}, target=CANARY)
    assert ProgressWriter(provider).report(compilation, 1)
    (span,) = exporter.get_finished_spans()
    assert span.attributes["torchspan.progress.running"] == "torchspan.observed ?"
    assert leaked(span) == []
    engine.close(running)
    engine.close(compilation)


def test_a_note_on_the_users_span_says_no_more(tracer, exporter):
    with tracer.start_as_current_span("request"):
        CurrentSpanNotes().add(semconv.OBSERVER_EVENT, {semconv.OBSERVER_NAME: CANARY, semconv.OBSERVER_COUNT: 1})
    (span,) = exporter.get_finished_spans()
    assert dict(span.events[0].attributes) == {"torchspan.observer.name": "?", "torchspan.observer.count": 1}


def test_folded_work_says_no_more_and_what_has_one_name_then_is_counted_together(provider, exporter):
    engine = Engine()
    extend(engine, SpanWriter(provider, spans_per_trace=1))
    compilation = engine.open(phase.COMPILE, {})
    for target in ("jane doe", "alice@example.com", "f"):
        engine.close(engine.open(phase.OBSERVED, {}, target=target, placement=Placement(compilation)))
    engine.close(compilation)
    (span,) = exporter.get_finished_spans()
    steps = zip(span.attributes["torchspan.steps.names"], span.attributes["torchspan.steps.counts"], strict=True)
    assert dict(steps) == {"torchspan.observed ?": 2, "torchspan.observed f": 1}


# --- metrics -------------------------------------------------------------------------------------------------------
@pytest.fixture
def measured(metrics):
    """An engine whose events are metrics."""
    engine = Engine()
    writer = MetricWriter(engine, metrics.provider, dropped={})
    extend(engine, *writer.listeners)
    yield engine
    metrics.read()
    writer.stop()
    engine.stop()


def fail(engine, of_phase, name):
    engine.close(engine.open(of_phase, {}), type(name, (Exception,), {"__module__": "app"})())


def test_a_metric_has_fifty_exception_classes_and_the_others_are_other(measured, metrics):
    for number in range(400):
        fail(measured, phase.LOWER, f"Error{number}")
    fail(measured, phase.LOWER, "Error7")
    counts = metrics.counts("torch_tensorrt.phase.duration", "error.type")
    assert counts.pop("other") == 350
    assert counts.pop("app.Error7") == 2
    assert counts == {f"app.Error{number}": 1 for number in range(50) if number != 7}


def test_each_metric_has_fifty_of_its_own(measured, metrics):
    for number in range(60):
        fail(measured, phase.LOWER, f"Lowering{number}")
        fail(measured, phase.COMPILE, f"Compilation{number}")
    assert metrics.counts("torch_tensorrt.phase.duration", "error.type")["other"] == 10
    assert metrics.counts("torch_tensorrt.compile.duration", "error.type")["other"] == 10


def test_threads_do_not_exceed_the_limit_together(measured, metrics):
    barrier = threading.Barrier(8)

    def fails(thread):
        barrier.wait()
        for number in range(50):
            fail(measured, phase.LOWER, f"Error{thread}_{number}")

    threads = [threading.Thread(target=fails, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = metrics.counts("torch_tensorrt.phase.duration", "error.type")
    assert len(counts) == 51
    assert sum(counts.values()) == 400


def test_values_that_are_listed_are_not_bounded(measured, metrics):
    for each in phase.PHASES:
        measured.close(measured.open(each, {}))
    reported = metrics.counts("torch_tensorrt.phase.duration", "torchspan.phase")
    assert "other" not in reported
    assert "torch_tensorrt.partition" in reported


def test_attributes_of_metrics_pass_the_gate(measured, metrics):
    fail(measured, phase.COMPILE, "jane doe")
    measured.close(measured.open(phase.COMPILE, {semconv.ENTRY_POINT: CANARY}))
    points = [point.attributes for point in metrics.read()["torch_tensorrt.compile.duration"]]
    assert {"error.type": "?", "torch_tensorrt.compile.outcome": "failed"} in points
    assert {"torch_tensorrt.entry_point": "other", "torch_tensorrt.compile.outcome": "complete"} in points
