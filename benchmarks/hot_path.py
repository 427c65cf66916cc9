# SPDX-License-Identifier: Apache-2.0
"""What a hook costs where nothing is recorded: nanoseconds a call, over the same call without the hook.

Imports neither torch nor needs a GPU: the rows and the wrappers are the real ones, the observed function is an empty one,
so that the wrapper is all there is to see. Bare and hooked calls alternate, and of each the fastest round counts: what a
busy machine adds to a round is not the hook's.
"""

import dataclasses
import timeit

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import NonRecordingSpan, SpanContext

from table import NO_TARGET, Row, write
from torchspan.adapters import Ports, Provenance
from torchspan.adapters._machinery.wrap import WrapperFactory
from torchspan.adapters.engine_runs import wrap_run
from torchspan.engine import ActiveWork, Engine, LimitedRuns, Pipeline, RateLimits
from torchspan.engine.run_times import HELD
from torchspan.probes import PROBES, Operator, Step
from torchspan.writer import MetricWriter, SpanParents, SpanWriter

IDLE_NS, UNSAMPLED_NS = 100, 150
CALLS, ROUNDS, PASSES = 1_000, 500, 5
"""Short rounds: one in many then falls between two interruptions."""

EXECUTE = next(probe for probe in PROBES if isinstance(probe.target, Operator))
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


def one_pass():
    """(what, nanoseconds over the bare call, target in nanoseconds or why there is none) of each row, measured once."""
    # As the session puts them together.
    engine, writer = Engine(), SpanWriter()
    engine.pipeline = Pipeline([writer.callback])
    factory = WrapperFactory(engine, Provenance())
    ports = dataclasses.replace(Ports.closed(), parents=SpanParents(), run_policy=LimitedRuns(RateLimits()))
    execute = wrap_run(factory, ports, EXECUTE.target, EXECUTE.action, execute_engine)
    step = factory.step(STEP.target, STEP.action, execute_engine)
    # Of contexts that the program makes itself; where Torch-TensorRT makes all of them this is not hooked.
    run = wrap_run(factory, ports, RUN_CONTEXT.target, RUN_CONTEXT.action, execute_engine)

    def row(what, hooked, target_ns, rounds=ROUNDS):
        bare_ns, hooked_ns = best_ns(execute_engine, hooked, rounds=rounds)
        return what, hooked_ns - bare_ns, target_ns

    yield row("run of an engine, no span around it", execute, UNSAMPLED_NS)
    yield row("run of an execution context, no span around it", run, UNSAMPLED_NS)
    token = context_api.attach(trace.set_span_in_context(UNSAMPLED_SPAN))
    yield row("run of an engine below an unsampled span", execute, UNSAMPLED_NS)
    yield row("run of an execution context below an unsampled span", run, UNSAMPLED_NS)
    context_api.detach(token)
    # A function that only a compilation calls: what a compilation may cost in all is measured in compile.py.
    yield row("step of a compilation, none around it", step, "compile-class")
    # The dear case: nobody collects for so long that the runs themselves must add durations to the SDK's histogram.
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    metrics = MetricWriter(engine, meters, active=ActiveWork(), dropped=int)
    for number in range(HELD):
        engine.run_times.add(number)
    yield row("run of an engine, metrics read too rarely", execute, "with metrics", 50)
    engine.run_times.forget()
    yield row("run of an engine, metrics read", execute, "with metrics", HELD // CALLS - 1)
    metrics.close()
    engine.stop()
    yield row("run of an engine, bridge switched off", execute, IDLE_NS)
    yield row("run of an execution context, bridge switched off", run, IDLE_NS)
    yield row("step of a compilation, bridge switched off", step, "compile-class")


def verdict(what, figure_ns, target_ns):
    if isinstance(target_ns, str):
        return Row(what, f"{figure_ns:.0f} ns", target_ns, NO_TARGET)
    return Row(what, f"{figure_ns:.0f} ns", f"≤ {target_ns} ns", figure_ns <= target_ns)


def main():
    (bare_ns,) = best_ns(execute_engine)
    # A machine may be slow for as long as a row takes; of passes some time apart the fastest counts.
    passes = [list(one_pass()) for _ in range(PASSES)]
    rows = [
        verdict(what, min(each[1] for each in same), target_ns)
        for same in zip(*passes, strict=True)
        for what, _, target_ns in same[:1]
    ]
    return write(f"Calls that record nothing, over the bare call (which takes {bare_ns:.0f} ns here)", rows)


if __name__ == "__main__":
    raise SystemExit(main())
