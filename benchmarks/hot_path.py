# SPDX-License-Identifier: Apache-2.0
"""What a hook costs where nothing is recorded: nanoseconds a call, over the same call without the hook.

Imports neither torch nor needs a GPU: the rows and the wrappers are the real ones, the observed function is an empty one,
so that the wrapper is all there is to see. Bare and hooked calls alternate, and of each the fastest round counts: what a
busy machine adds to a round is not the hook's.
"""

import argparse
import os
import statistics
import sys
import threading
import time
import timeit

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, NoOpTracerProvider, SpanContext

from table import NO_TARGET, Row, write
from torchspan.engine import Engine, LimitedCalls, RateLimits, RunSampling
from torchspan.engine.run_times import HELD
from torchspan.hooks.adapters import Ports, Provenance
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import PROBES, CustomOperator, Step
from torchspan.output.writer import MetricWriter, SpanParents, SpanWriter
from torchspan.phase import EXECUTE as EXECUTE_PHASE

IDLE_NS, UNSAMPLED_NS = 100, 250
CALLS, ROUNDS, PASSES = 1_000, 500, 5
"""Short rounds: one in many then falls between two interruptions."""

EXECUTE = next(probe for probe in PROBES if isinstance(probe.target, CustomOperator))
RUN_CONTEXT = next(probe for probe in PROBES if probe.target.path[-1] == "execute_async_v3")
STEP = next(probe for probe in PROBES if isinstance(probe.action, Step))
UNSAMPLED_SPAN = NonRecordingSpan(SpanContext(trace_id=1, span_id=1, is_remote=False))


class TheEngine:
    """Stands for the engine that is argument number 1 of `execute_engine`."""


def execute_engine(input_tensors, engine):  # noqa: ARG001 - the real one's signature
    return input_tensors


def best_ns(*functions, rounds=ROUNDS):
    """Nanoseconds a call of each function takes in its fastest round; the functions take turns."""
    arguments = {"inputs": [], "engine": TheEngine()}
    loops = [timeit.Timer("f(inputs, engine)", globals={"f": function, **arguments}) for function in functions]
    for function in functions:
        function(arguments["inputs"], arguments["engine"])  # the first run of an engine is always an event
    times = [[loop.timeit(CALLS) for loop in loops] for _ in range(rounds)]
    return [min(column) / CALLS * 1e9 for column in zip(*times, strict=True)]


class Hooks:
    """The hooks, as the bridge puts them together, around the empty function."""

    def __init__(self, tracer_provider=None):
        parents, sampling = SpanParents(), RunSampling(RateLimits())
        self.engine, self.writer = Engine(), SpanWriter(tracer_provider, parents=parents, holds=sampling.use)
        self.engine.listen([self.writer])
        factory = WrapperFactory(self.engine, Provenance())
        ports = Ports(
            redact=str,
            annotate_current=lambda _name, _attributes: None,
            parents=parents,
            call_policy=LimitedCalls(RateLimits()),
            sampling=sampling,
        )
        self.execute = wrap_run(factory, ports, EXECUTE.target, EXECUTE.action, execute_engine)
        self.step = factory.step(STEP.target, STEP.action, execute_engine)
        # Of contexts that the program makes itself; where Torch-TensorRT makes all of them this is not hooked.
        self.run = wrap_run(factory, ports, RUN_CONTEXT.target, RUN_CONTEXT.action, execute_engine)
        self.writer.look_for_provider()

    def with_metrics(self, reader):
        """Have runs recorded for a reader; returns what writes them."""
        meters = MeterProvider([reader], shutdown_on_exit=False)
        return MetricWriter(self.engine, meters, dropped={})


def disabled_provider():
    """The SDK's, as OTEL_SDK_DISABLED makes it."""
    os.environ["OTEL_SDK_DISABLED"] = "true"
    provider = TracerProvider(shutdown_on_exit=False)
    del os.environ["OTEL_SDK_DISABLED"]
    return provider


def one_pass():
    """(what, nanoseconds over the bare call, target in nanoseconds or why there is none) of each row, measured once."""
    hooks = Hooks()
    engine, execute, run, step = hooks.engine, hooks.execute, hooks.run, hooks.step

    def row(what, hooked, target_ns, rounds=ROUNDS):
        bare_ns, hooked_ns = best_ns(execute_engine, hooked, rounds=rounds)
        return what, hooked_ns - bare_ns, target_ns

    yield row("run of an engine, no span around it", execute, UNSAMPLED_NS)
    yield row("run of an execution context, no span around it", run, UNSAMPLED_NS)
    token = context_api.attach(trace.set_span_in_context(UNSAMPLED_SPAN))
    yield row("run of an engine below an unsampled span", execute, UNSAMPLED_NS)
    yield row("run of an execution context below an unsampled span", run, UNSAMPLED_NS)
    context_api.detach(token)
    with suppress_instrumentation():
        yield row("run of an engine, instrumentation suppressed", execute, UNSAMPLED_NS)
    for what, provider in (("an API without SDK", NoOpTracerProvider()), ("OTEL_SDK_DISABLED", disabled_provider())):
        others = Hooks(provider)
        yield row(f"run of an engine, {what}", others.execute, UNSAMPLED_NS)
        others.engine.stop()
    # A function that only a compilation calls: what a compilation may cost in all is measured in compile.py.
    yield row("step of a compilation, none around it", step, "compile-class")
    # The dear case: no reader collects for so long that the runs themselves must add durations to the SDK's histogram.
    metrics = hooks.with_metrics(InMemoryMetricReader())
    for number in range(HELD):
        engine.run_times[EXECUTE_PHASE].add(number)
    yield row("run of an engine, metrics read too rarely", execute, "with metrics", 50)
    engine.run_times[EXECUTE_PHASE].take()
    yield row("run of an engine, metrics read", execute, "with metrics", HELD // CALLS - 1)
    metrics.stop()
    engine.stop()
    yield row("run of an engine, bridge disabled", execute, IDLE_NS)
    yield row("run of an execution context, bridge disabled", run, IDLE_NS)
    yield row("step of a compilation, bridge disabled", step, "compile-class")


def verdict(what, figure_ns, target_ns):
    if isinstance(target_ns, str):
        return Row(what, f"{figure_ns:.0f} ns", target_ns, NO_TARGET)
    return Row(what, f"{figure_ns:.0f} ns", f"≤ {target_ns} ns", figure_ns <= target_ns)


# --- how the cost grows ----------------------------------------------------------------------------------------------
FOLDED_US, METRICS_MEAN_US, METRICS_P95_US, GROWTH = 0.6, 0.6, 2.0, 1.2
GROWTH_PASSES = 20
FEW, MANY = 1_000, 100_000
"""Runs below one span, or between two collections of metrics."""
THREADS, RUNS_EACH = 16, 5_000
WORST_INTERVAL_S = 1e-5
"""Between two switches of threads, where losses are looked for."""


def costs_ns(function, calls, timer):
    """What each chunk of `CALLS` calls took, in nanoseconds a call."""
    loop = timeit.Timer("f(inputs, engine)", timer=timer, globals={"f": function, "inputs": [], "engine": TheEngine()})
    return [loop.timeit(CALLS) / CALLS * 1e9 for _ in range(calls // CALLS)]


def below_a_span(runs):
    """Nanoseconds that a run costs over the bare one, as the median over `runs` runs below a span that has had as many."""
    hooks = Hooks(provider := TracerProvider(shutdown_on_exit=False))
    with provider.get_tracer("bench").start_as_current_span("request"):
        costs_ns(hooks.execute, runs, time.thread_time)
        pairs = [
            (costs_ns(execute_engine, CALLS, time.thread_time), costs_ns(hooks.execute, CALLS, time.thread_time))
            for _ in range(max(runs // CALLS, 20))
        ]
    hooks.engine.stop()
    return statistics.median(hooked - bare for (bare,), (hooked,) in pairs)


def lost(threads):
    """How many runs the span does not report, when that many threads run an engine below it."""
    hooks = Hooks(provider := TracerProvider(shutdown_on_exit=False))
    span = provider.get_tracer("bench").start_span("request")
    begin = threading.Barrier(threads)

    def work():
        context_api.attach(trace.set_span_in_context(span))
        engine = TheEngine()
        begin.wait()
        for _ in range(RUNS_EACH):
            hooks.execute([], engine)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(WORST_INTERVAL_S)
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    sys.setswitchinterval(interval_s)
    span.end()
    hooks.engine.stop()
    folded = span.attributes.get(EXECUTE_PHASE.folded.number, 0)
    return threads * RUNS_EACH - hooks.writer.recorded - folded


def between_collections(runs):
    """(mean, 95th percentile) of nanoseconds over the bare run, of `runs` runs after which nothing is collected."""
    hooks = Hooks()
    metrics = hooks.with_metrics(InMemoryMetricReader())
    engine, clock, single = TheEngine(), time.perf_counter_ns, []
    costs_ns(hooks.execute, FEW, time.thread_time)  # what the first runs have made is there for all later ones
    hooks.execute([], engine)
    mean_ns = statistics.mean(costs_ns(hooks.execute, runs, time.thread_time))
    for function in (execute_engine, hooks.execute):
        took = []
        for _ in range(FEW):
            start = clock()
            function([], engine)
            took.append(clock() - start)
        single.append(took)
    metrics.stop()
    hooks.engine.stop()
    bare, hooked = single
    return (
        mean_ns - statistics.median(costs_ns(execute_engine, 20 * CALLS, time.thread_time)),
        statistics.quantiles(hooked, n=20)[-1] - statistics.median(bare),
    )


def at_most(what, figure, limit, unit=""):
    shown = f"{figure:.2f}" if isinstance(figure, float) else f"{figure}"
    return Row(what, f"{shown}{unit}", f"≤ {limit}{unit}", figure <= limit)


def growth():
    """The rows of runs that are counted. Of passes some time apart the fastest counts; of losses, the worst."""
    passes = [
        {runs: (below_a_span(runs), *between_collections(runs)) for runs in (FEW, MANY)} for _ in range(GROWTH_PASSES)
    ]
    best = {
        runs: [min(column) / 1000 for column in zip(*(each[runs] for each in passes), strict=True)]
        for runs in (FEW, MANY)
    }
    folded, means, p95s = ({runs: best[runs][index] for runs in best} for index in range(3))
    for runs in folded:
        yield at_most(f"folded run below a recording span, after {runs:,}", folded[runs], FOLDED_US, " µs")
    yield at_most("  their ratio", folded[MANY] / folded[FEW], GROWTH)
    for threads in (1, THREADS):
        worst = max(lost(threads) for _ in range(PASSES))
        yield at_most(f"runs lost of {threads * RUNS_EACH:,}, {threads} threads below one span", worst, 0)
    for runs in means:
        yield at_most(f"run under a metric reader, {runs:,} held, mean", means[runs], METRICS_MEAN_US, " µs")
        yield at_most(f"run under a metric reader, {runs:,} held, p95", p95s[runs], METRICS_P95_US, " µs")
    yield at_most("  ratio of the means", means[MANY] / means[FEW], GROWTH)


def main():
    parser = argparse.ArgumentParser(description="What a hook costs.")
    parser.add_argument("--growth", action="store_true", help="only the runs that are counted")
    counted = "Runs that are counted, over the bare call"
    if parser.parse_args().growth:
        return write(counted, list(growth()))
    (bare_ns,) = best_ns(execute_engine)
    # A machine may be slow for as long as a row takes; of passes some time apart the fastest counts.
    passes = [list(one_pass()) for _ in range(PASSES)]
    rows = [
        verdict(what, min(each[1] for each in same), target_ns)
        for same in zip(*passes, strict=True)
        for what, _, target_ns in same[:1]
    ]
    title = f"Calls that record nothing, over the bare call (which takes {bare_ns:.0f} ns here)"
    return max(write(title, rows), write(counted, list(growth())))


if __name__ == "__main__":
    raise SystemExit(main())
