# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators of an event: handed to the processors of its span, and what is said where none takes them."""

import logging

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from support.engines import extend
from torchspan import phase
from torchspan.base.recorded_operators import OPERATORS, RecordedOperators
from torchspan.engine import FOR_ITSELF, Engine
from torchspan.engine.runs import Pick
from torchspan.output import withheld
from torchspan.output.writer import SpanWriter, _span_writer

MISSING = (
    "torchspan: PyTorch's operators are recorded, and their spans are missing, because the tracer provider has no "
    "OperatorSpanProcessor. The table of operators is on the span around them. To export the spans: "
    "provider.add_span_processor(torchspan.sdk.OperatorSpanProcessor(exporter))."
)


class Taking(SpanProcessor):
    """Takes the operators of each span that ends."""

    def __init__(self, takes=True):
        self.takes, self.taken = takes, []

    def on_end(self, span):
        operators = withheld.of(span.context.trace_id, span.context.span_id).operators
        if operators is not None and self.takes:
            operators.is_read = True
        self.taken.append(operators)


class RecordOnly(Sampler):
    def should_sample(self, *args, **kwargs):
        return SamplingResult(Decision.RECORD_ONLY)

    def get_description(self):
        return "RecordOnly"


def recorded(events=bytes(64)):
    return RecordedOperators(events, b"", None, 0, None, str)


def engine_with(processor, **options):
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(processor)
    engine = Engine()
    extend(engine, SpanWriter(provider))
    return engine


def run(engine, operators, **options):
    event = engine.open(phase.OPERATORS, {}, **options)
    if operators is not None:
        event.scratch[OPERATORS] = operators
    engine.close(event)
    return event


@pytest.fixture(autouse=True)
def nothing_was_said():
    _span_writer._warn_of_missing_spans.cache_clear()


def test_processors_get_the_operators_of_a_span_while_it_ends_and_no_longer():
    processor, operators = Taking(), recorded()
    event = run(engine_with(processor), operators)
    assert processor.taken == [operators]
    assert withheld.of(event.handle.trace_id, event.handle.span_id) == withheld.NOTHING


def test_operators_that_no_processor_takes_are_one_warning(caplog):
    engine = engine_with(Taking(takes=False))
    for _ in range(3):
        run(engine, recorded())
    assert [(record.name, record.levelno) for record in caplog.records] == [("torchspan", logging.WARNING)]
    assert caplog.messages == [MISSING]


@pytest.mark.parametrize(
    ("operators", "options"),
    [
        (recorded(), {}),
        (recorded(b""), {"takes": False}),
        (None, {"takes": False}),
        (recorded(), {"takes": False, "sampler": RecordOnly()}),
        (recorded(), {"takes": False, "sampler": ALWAYS_OFF}),
    ],
    ids=["taken", "no events", "no operators", "recorded and not sampled", "refused"],
)
def test_otherwise_nothing_is_said(caplog, operators, options):
    takes = options.pop("takes", True)
    run(engine_with(Taking(takes), **options), operators)
    assert caplog.messages == []


# --- what an event says of sampling -----------------------------------------------------------------------------------
AROUND = {
    "sampled": SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1)),
    "not sampled": SpanContext(1, 2, is_remote=False),
    "nothing": trace.INVALID_SPAN_CONTEXT,
}


@pytest.mark.parametrize(
    ("around", "pick", "follows"),
    [
        ("sampled", None, True),
        ("sampled", FOR_ITSELF, True),
        ("not sampled", None, False),
        ("not sampled", FOR_ITSELF, False),
        ("nothing", None, True),
        ("nothing", Pick(0.5), True),
        ("nothing", FOR_ITSELF, False),
    ],
)
def test_an_event_follows_a_sampled_span_or_the_sampler_itself(around, pick, follows):
    engine = engine_with(Taking())
    with trace.use_span(NonRecordingSpan(AROUND[around])):
        assert run(engine, None, pick=pick).follows_sampled is follows


@pytest.mark.parametrize(
    ("options", "is_sampled"), [({}, True), ({"sampler": RecordOnly()}, False), ({"sampler": ALWAYS_OFF}, False)]
)
def test_an_event_is_sampled_if_its_span_is(options, is_sampled):
    assert run(engine_with(Taking(), **options), None).is_sampled is is_sampled


def test_an_event_beyond_the_limit_of_its_trace_is_not_sampled_and_follows_the_span_around_it():
    provider, engine = TracerProvider(shutdown_on_exit=False), Engine()
    extend(engine, SpanWriter(provider, spans_per_trace=10))
    with provider.get_tracer("user").start_as_current_span("request"):
        events = [run(engine, None) for _ in range(30)]
    assert (events[0].is_sampled, events[-1].is_sampled, events[-1].follows_sampled) == (True, False, True)
