# SPDX-License-Identifier: Apache-2.0
"""Observed work in finalizers and signal handlers, which interrupt what is inside a lock: nothing hangs, nothing is lost silently."""

import functools
import gc
import itertools
import signal
import sys
import threading
import time

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import AlignedHistogramBucketExemplarReservoir, AlwaysOnExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support import child
from support.metrics import Metrics
from torchspan import phase
from torchspan.engine import RUNNING
from torchspan.observers import observable


@observable
def step():
    pass


@observable
def stream():
    yield 1
    yield 2


class Interrupting(dict):
    """Attributes. The SDK reads them in the lock of a span, where anything may interrupt it; here `interrupt` does."""

    def __init__(self, interrupt):
        super().__init__(read=True)
        self.interrupt = interrupt

    def items(self):
        self.interrupt()
        return super().items()


def ends(function):
    """Whether the function ends within ten seconds. It runs in a thread, which a hang leaves behind."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def abandoned():
    """A function that closes an observed generator that has begun."""
    tokens = stream()
    next(tokens)
    return tokens.close


def names(exporter):
    return sorted(span.name for span in exporter.get_finished_spans())


# --- inside a span's lock -----------------------------------------------------------------------------------------


def test_calls_inside_the_lock_of_the_span_around_them_are_counted_on_it(instrument, tracer, exporter, metrics):
    instrument()

    def program():
        with tracer.start_as_current_span("request") as request:
            for _ in range(50):
                step()
            request.set_attributes(Interrupting(lambda: [step() for _ in range(9000)]))

    assert ends(program)
    (request,) = [span for span in exporter.get_finished_spans() if span.name == "request"]
    dropped = metrics.values("torchspan.span.dropped", "torchspan.dropped.reason").get("inside", 0)  # of a new second
    recorded = len(exporter.get_finished_spans()) - 1
    assert request.attributes["torchspan.observed.folded.count"] + dropped + recorded == 9050


def test_a_call_that_would_be_a_span_inside_a_spans_lock_is_counted_as_dropped(instrument, tracer, exporter, metrics):
    instrument()

    def program():
        with tracer.start_as_current_span("request") as request:
            request.set_attributes(Interrupting(step))

    assert ends(program)
    assert names(exporter) == ["request"]
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"inside": 1}


def test_a_generator_that_is_closed_inside_a_spans_lock_is_a_span_when_the_next_one_begins(
    instrument, tracer, exporter
):
    instrument()

    def program():
        with tracer.start_as_current_span("request") as request:
            close = abandoned()
            request.set_attributes(Interrupting(close))
            ended_ns = time.time_ns()
            time.sleep(0.01)
            step()
        (closed,) = [span for span in exporter.get_finished_spans() if span.name.endswith("stream")]
        assert closed.parent.span_id == request.context.span_id
        assert closed.end_time <= ended_ns

    assert ends(program)
    assert names(exporter) == ["request", "torchspan.observed step", "torchspan.observed stream"]


def test_a_generator_that_is_closed_inside_a_spans_lock_is_a_span_when_torchspan_ends(instrument, tracer, exporter):
    instrumentor = instrument()

    def program():
        with tracer.start_as_current_span("request") as request:
            request.set_attributes(Interrupting(abandoned()))
        instrumentor.uninstrument()

    assert ends(program)
    assert names(exporter) == ["request", "torchspan.observed stream"]


# --- inside processors and exporters ------------------------------------------------------------------------------


class LockedExporter(InMemorySpanExporter):
    """An exporter with a lock, as the SDK's own have, inside which `interrupt` runs once."""

    interrupt = None

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def export(self, spans):
        with self.lock:
            interrupt, self.interrupt = self.interrupt, None
            if interrupt is not None:
                interrupt()
            return super().export(spans)


@pytest.mark.parametrize("interrupt", [lambda: step, abandoned], ids=["a call", "the end of a generator"])
def test_observed_work_inside_the_lock_of_an_exporter_does_not_export(instrument, provider, tracer, interrupt):
    locked = LockedExporter()
    provider.add_span_processor(SimpleSpanProcessor(locked))
    instrument()

    def program():
        with tracer.start_as_current_span("outer"):
            locked.interrupt = interrupt()
            with tracer.start_as_current_span("request"):
                pass

    assert ends(program)
    assert names(locked)[:2] == ["outer", "request"]


class Interrupted(SpanProcessor):
    """Runs `interrupt` when torchspan has started a span of its own, inside what torchspan does for it."""

    interrupt = None

    def on_start(self, span, parent_context=None):
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()


def test_a_call_inside_the_start_of_another_ones_span_is_counted_as_dropped(
    instrument, provider, tracer, exporter, metrics
):
    processor = Interrupted()
    provider.add_span_processor(processor)
    instrument()
    processor.interrupt = step
    assert ends(step)
    assert names(exporter) == ["torchspan.observed step"]
    assert metrics.values("torchspan.span.dropped", "torchspan.dropped.reason") == {"inside": 1}


# --- inside metrics -----------------------------------------------------------------------------------------------


class Reservoir(AlignedHistogramBucketExemplarReservoir):
    """The SDK asks it in the lock of an instrument."""

    interrupt = None

    def offer(self, *args, **kwargs):
        interrupt, Reservoir.interrupt = Reservoir.interrupt, None
        if interrupt is not None:
            interrupt()
        super().offer(*args, **kwargs)


def compiled():
    RUNNING.engine.close(RUNNING.engine.open(phase.COMPILE, {}))


@pytest.mark.parametrize("interrupt", [lambda: compiled, abandoned], ids=["a compilation", "the end of a generator"])
def test_observed_work_inside_the_lock_of_a_histogram_of_torchspans_does_not_measure(instrument, interrupt):
    view = View(
        instrument_name="torch_tensorrt.*",
        exemplar_reservoir_factory=lambda _kind: lambda **options: Reservoir(**{"boundaries": [], **options}),
    )
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], views=[view], exemplar_filter=AlwaysOnExemplarFilter(), shutdown_on_exit=False)
    metrics = Metrics(provider, reader)
    instrument(meter_provider=provider)

    def program():
        compiled()
        Reservoir.interrupt = interrupt()
        compiled()

    assert ends(program)
    assert Reservoir.interrupt is None
    assert sum(metrics.counts("torch_tensorrt.compile.duration", "torch_tensorrt.compile.outcome").values()) == 2


# --- the collector, and signals -----------------------------------------------------------------------------------


def test_abandoned_generators_that_the_collector_ends_hang_no_program(tmp_path):
    def program():
        import faulthandler

        from support.in_child import exporter, instrument, tracer
        from torchspan.observers import observable

        faulthandler.dump_traceback_later(60, exit=True)
        instrument()

        @observable
        def tokens():
            yield 1
            yield 2

        @observable
        def work():
            pass

        for _ in range(200):
            with tracer.start_as_current_span("request"):
                for _ in range(20):
                    begun = tokens()
                    next(begun)
                    cycle = [begun]
                    cycle.append(cycle)
                    del begun, cycle
                    for _ in range(5):
                        work()
        return sum(span.name == "request" for span in exporter.get_finished_spans())

    assert child.run(program, folder=tmp_path, timeout=120).value == 200


def test_a_signal_handler_that_does_observed_work_hangs_no_program(tmp_path):
    def program():
        import faulthandler
        import random
        import signal

        from support.in_child import exporter, instrument, tracer
        from torchspan.observers import observable

        faulthandler.dump_traceback_later(60, exit=True)
        instrument()
        handled = []

        @observable
        def save():
            pass

        @observable
        def work():
            pass

        def handler(_signum, _frame):
            save()
            handled.append(True)

        signal.signal(signal.SIGALRM, handler)
        chosen, armed = random.Random(1), -1
        while len(handled) < 3000:
            if armed != len(handled):
                armed = len(handled)
                signal.setitimer(signal.ITIMER_REAL, chosen.uniform(1e-5, 1e-4))
            with tracer.start_as_current_span("request"):
                work()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return len(handled) == 3000 and any(span.name == "request" for span in exporter.get_finished_spans())

    assert child.run(program, folder=tmp_path, timeout=120).value is True


# --- what a signal handler raises ---------------------------------------------------------------------------------


class JobTimeout(Exception):
    """As the timeouts of job queues raise it."""


def raising(_signum, _frame):
    raise JobTimeout


class Limit:
    def __call__(self, *_received):
        self.stop()

    def stop(self):
        raise JobTimeout

    def reached(self, _signum, _frame):
        self.stop()


HANDLERS = {
    "a function": raising,
    "an object": Limit(),
    "a method": Limit().reached,
    "a partial": functools.partial(lambda _limit, _signum, _frame: raising(None, None), 1),
}


@pytest.fixture
def alarm():
    """`alarm(handler)`: what raises a signal for it."""
    before = signal.getsignal(signal.SIGUSR1)

    def make(handler):
        signal.signal(signal.SIGUSR1, handler)
        return lambda: signal.raise_signal(signal.SIGUSR1)

    yield make
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_what_a_signal_handler_raises_inside_torchspan_arrives_at_the_program(
    instrument, provider, alarm, handler, monkeypatch
):
    from torchspan.output.writer import SpanWriter

    raise_signal, start = alarm(handler), SpanWriter._parent

    def interrupted(event):
        raise_signal()
        return start(event)

    monkeypatch.setattr(SpanWriter, "_parent", staticmethod(interrupted))
    instrument()
    with pytest.raises(JobTimeout):
        step()
    monkeypatch.undo()
    step()


def test_what_torchspan_or_a_processor_raises_by_itself_does_not_arrive(instrument, provider, exporter):
    class Failing(SpanProcessor):
        def on_start(self, span, parent_context=None):
            raise JobTimeout

    provider.add_span_processor(Failing())
    instrument()
    step()
    assert names(exporter) == []


def test_a_timeout_during_a_users_callback_arrives_at_the_program_and_is_not_counted_as_one(instrument, alarm):
    raise_signal = alarm(raising)
    instrument()
    with step.observers.pre.add(lambda _context: raise_signal()):
        for _ in range(5):
            with pytest.raises(JobTimeout):
                step()


# --- what an exception keeps --------------------------------------------------------------------------------------


@observable
def fails(_value=None, *, named=None):
    raise ValueError


@observable
def fails_later(_value):
    yield 1
    raise ValueError


@observable
async def fails_in_a_coroutine(_value):
    raise ValueError


CALLS = {
    "positional": fails,
    "by name": lambda value: fails(named=value),
    "generator": lambda value: list(fails_later(value)),
    "coroutine": lambda value: fails_in_a_coroutine(value).send(None),
}


class Tensor:
    def __init__(self, freed):
        self.freed = freed

    def __del__(self):
        self.freed.append(True)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_arguments_of_a_call_that_failed_are_freed_at_once(instrument, call):
    instrument()
    freed = []
    gc.disable()
    try:
        with pytest.raises(ValueError) as caught:
            call(Tensor(freed))
        del caught
        assert freed == [True]
    finally:
        gc.enable()


# --- inside the engine --------------------------------------------------------------------------------------------


def interrupted(work, interrupt, line):
    """Run `work`, with `interrupt` before this line of the engine, counted from 0. Returns how many lines there were."""
    count = itertools.count()

    def follow(_frame, kind, _argument):
        if kind == "line" and next(count) == line:
            interrupt()
        return follow

    def trace_calls(frame, _kind, _argument):
        return follow if frame.f_globals["__name__"] == "torchspan.engine.dispatch" else None

    before = sys.gettrace()
    sys.settrace(trace_calls)
    try:
        work()
    finally:
        sys.settrace(before)
    return next(count)


def test_whichever_line_of_the_engine_is_interrupted_the_span_around_is_current_again(instrument, tracer):
    instrument()

    def work():
        RUNNING.engine.close(RUNNING.engine.open(phase.COMPILE, {}))

    with tracer.start_as_current_span("request") as request:
        current = [
            (line, trace.get_current_span() is request)
            for line in range(interrupted(work, work, -1))
            if interrupted(
                work,
                lambda: (
                    None if (event := RUNNING.engine.open(phase.COMPILE, {})) is None else RUNNING.engine.close(event)
                ),
                line,
            )
        ]
    assert len(current) > 50
    assert [line for line, is_request in current if not is_request] == []
