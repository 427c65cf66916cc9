# SPDX-License-Identifier: Apache-2.0
"""What the program does while one of torchspan's calls fails.

Each function makes a script, which is run many times, and has the same result with and without torchspan. `tries` has the program's
tracer, and instruments.
"""

import asyncio
import atexit
import contextvars
import functools
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import torchspan
import torchspan.testing
from support.hooked import Hooked, described, recorded
from support.ports import make_ports
from torchspan.callbacks import RecordFunctionCallback, record_function
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.probes import Annotate, Function, Step, Tally
from torchspan.hooks.probes.torch_tensorrt.runtime import PROBES as RUNTIME
from torchspan.observers import observable
from torchspan.output.writer import SpanParents
from torchspan.sdk import (
    FileSpanExporter,
    OperatorSpanProcessor,
    RunFileProcessor,
    TorchspanIdGenerator,
    TorchspanSampler,
)
from torchspan.words import phase, semconv

REFUSED = KeyError("refused")
OPERATOR = next(probe for probe in RUNTIME if probe.target.endswith("execute_engine"))


def add(number):
    return number + 1


def refuse():
    raise REFUSED


def refused(function):
    """What `function` raises, checked to be the very object."""
    try:
        function()
    except KeyError as error:
        if error is not REFUSED:
            return f"another {error!r}"
        error.__traceback__ = None
        return "refused"
    return "not refused"


def phases(library, _tries):
    """A tree of events: in each phase of a library a call that returns and one that raises, below a compilation."""
    others = (*phase.RUNS, phase.BUILD_PHASE)
    kinds = [kind for kind in phase.PHASES if kind.name.partition(".")[0] == library and kind not in others]
    calls = [Hooked(recorded(kind), add) for kind in kinds]
    refusals = [Hooked(recorded(kind), refuse) for kind in kinds]

    def inside():
        return [call(1) for call in calls], [refused(call) for call in refusals]

    return Hooked(recorded(phase.COMPILE), inside)


def actions(_tries):
    """Each other action of a probe, below a compilation."""
    name = Function("library:part")
    parts = (
        lambda factory, function: factory.annotate(name, Annotate((phase.COMPILE,), described, described), function),
        lambda factory, function: factory.step(name, Step(), function),
        lambda factory, function: factory.step(name, Step(annotate=Annotate((phase.COMPILE,), described)), function),
        lambda factory, function: factory.step(name, Step(invalidates=described, follows=described), function),
        lambda factory, function: factory.tally(
            name, Tally((phase.COMPILE,), lambda *_: None, before=described, counts_failures=True), function
        ),
    )
    calls, refusals = [Hooked(part, add) for part in parts], [Hooked(part, refuse) for part in parts]

    def inside():
        return [call(1) for call in calls], [refused(call) for call in refusals]

    return Hooked(recorded(phase.COMPILE), inside)


class TrtEngine:
    """Stands for an engine."""


def runs(tries):
    """Runs of engines on the hot path: outside and below a span, the first one, later ones, and one that fails."""
    engine, fails = TrtEngine(), TrtEngine()
    state = {}

    def execute(inputs, engine):
        if engine is fails:
            raise REFUSED
        return inputs

    def make(factory, function):
        made = functools.partial(factory.provenance.made_runner, origin=None)
        state["make"] = functools.partial(factory.engine.guard.call, "noting an engine", made)
        ports = make_ports(parents=SpanParents())
        return wrap_run(factory, ports, OPERATOR.target, OPERATOR.action, function)

    run = Hooked(make, execute)

    def script():
        if "make" in state:
            state["make"](engine)
        result = [run([1], engine), run([2], engine)]
        with tries.tracer().start_as_current_span("request"):
            result += [run([number], engine) for number in range(3)]
            result.append(refused(lambda: run([1], fails)))
        result.append(refused(lambda: run([1], fails)))
        return result

    return script


def callbacks(_tries):
    """Events with callbacks of the user, one of which raises."""
    log = []

    def raises(_record):
        raise ValueError("of the user")

    pairs = [
        RecordFunctionCallback(lambda record: log.append(record.name), lambda record, _context: log.append("end")),
        RecordFunctionCallback(raises, scopes={phase.COMPILE}),
    ]
    call, refusal = Hooked(recorded(phase.COMPILE), add), Hooked(recorded(phase.COMPILE), refuse)
    for pair in pairs:
        torchspan.callbacks.add_global_callback(pair)

    def script():
        log.clear()
        return call(1), refused(refusal)

    return script


def observed(_tries):
    """Observed functions of each kind."""
    add_observed, refuse_observed = observable(add), observable(refuse)

    @observable
    def count(numbers):
        yield from range(numbers)

    @observable
    async def wait(number):
        await asyncio.sleep(0)
        return number

    @observable
    async def stream(numbers):
        for number in range(numbers):
            yield number

    async def both():
        return await wait(2), [number async for number in stream(2)]

    def script():
        return add_observed(1), list(count(2)), asyncio.run(both()), refused(refuse_observed)

    return script


def ranges(_tries):
    """`record_function` as a context manager and as a decorator of each kind, with a callback."""
    add_ranged = record_function("add")(add)

    @record_function("count")
    def count(numbers):
        yield from range(numbers)

    refuse_ranged = record_function("refuse")(refuse)
    torchspan.callbacks.add_global_callback(RecordFunctionCallback(lambda record: record.name))

    def script():
        with record_function("outer", inputs=(1,)):
            return add_ranged(1), list(count(2)), refused(refuse_ranged)

    return script


def threads(tries):
    """A thread, a timer and items of pools, started below a span."""

    def script():
        results = []
        with tries.tracer().start_as_current_span("request"):
            thread = threading.Thread(target=results.append, args=(1,))
            thread.start()
            thread.join()
            with ThreadPoolExecutor(1) as pool:
                results.append(pool.submit(add, 1).result())
                results.append(refused(pool.submit(refuse).result))
        return results

    return script


def batches(tries):
    """A batch of two requests, with an event inside."""
    call = Hooked(recorded(phase.COMPILE), add)

    def script():
        spans = [tries.tracer().start_span(name) for name in ("one", "two")]
        try:
            with torchspan.batch(spans):
                return call(1)
        finally:
            for span in spans:
                span.end()

    return script


def operators(_tries):
    """Blocks of operators, nested and decorated."""
    matrix = torch.ones(2, 2)
    multiply = torchspan.operators()(lambda: (matrix @ matrix).tolist())

    def script():
        with torchspan.operators(depth=2):
            return multiply(), refused(torchspan.operators()(refuse))

    return script


def forks(_tries):
    """A fork below an event, whose child has an event of its own."""
    call = Hooked(recorded(phase.COMPILE), add)

    def inside():
        pid = os.fork()
        if pid == 0:
            os._exit(call(1))
        return os.waitpid(pid, 0)[1]

    return Hooked(recorded(phase.COMPILE), inside)


def heartbeats(tries):
    """Long work, which torchspan reports from a thread of its own."""
    tries.options["heartbeat"] = "0.1"

    def inside():
        deadline = time.monotonic() + 1
        while tries.has_torchspan and not tries.telemetry.has("torchspan.progress") and time.monotonic() < deadline:
            time.sleep(0.001)
        return "done"

    return Hooked(recorded(phase.COMPILE), inside)


def exports(tries):
    """Spans of the program, of an event and of operators by what torchspan adds to the SDK: a sampler, an exporter, two processors."""
    folder, operators, tracers = Path(tempfile.mkdtemp()), InMemorySpanExporter(), tries.telemetry.tracers
    of_run, of_exporter = folder / "of_run.jsonl", folder / "of_exporter.jsonl"
    tracers.sampler, tracers.id_generator = TorchspanSampler(), TorchspanIdGenerator()
    tracers.add_span_processor(RunFileProcessor(of_run, "run"))
    tracers.add_span_processor(BatchSpanProcessor(FileSpanExporter(of_exporter)))
    tracers.add_span_processor(OperatorSpanProcessor(operators))
    tries.telemetry.add(operators, [of_run, of_exporter])
    compiles = Hooked(recorded(phase.COMPILE), add)
    matrix = torch.ones(2, 2)

    def spans():
        with tries.tracer().start_as_current_span("request"), torchspan.operators(min_duration=0):
            compiled, product = compiles(1), matrix @ matrix
        start_s = time.monotonic()
        tracers.force_flush(10_000)
        return compiled, product.tolist(), time.monotonic() - start_s < 5

    # The SDK leaves instrumentation suppressed in the context in which an export was interrupted.
    return lambda: contextvars.copy_context().run(spans)


def flushes(_tries):
    """`torchspan.flush` after an event."""
    call = Hooked(recorded(phase.COMPILE), add)

    def script():
        call(1)
        torchspan.flush(10)
        return "flushed"

    return script


def compiles(_tries):
    """A compilation by `torch.compile` with a graph break and a recompilation."""

    def script():
        torch._dynamo.reset()

        @torch.compile(backend="eager", dynamic=False)
        def compiled(values):
            doubled = values * 2
            torch._dynamo.graph_break()
            return doubled + 1

        return [compiled(torch.ones(size)).tolist() for size in (2, 3)]

    return script


def instrumenting(tries):
    """`uninstrument` and `instrument` outside and inside a call that is observed."""
    call = Hooked(recorded(phase.COMPILE), add)

    def again():
        if tries.has_torchspan:
            torchspan.uninstrument()
            tries.instrument()
        return call(1)

    inside = Hooked(recorded(phase.CONVERT), again)

    def script():
        return again(), inside()

    return script


def exits(_tries):
    """The exit of a process: what is registered with `atexit` runs in a fork after an event."""
    call = Hooked(recorded(phase.COMPILE), add)

    def script():
        result = call(1)
        atexit._run_exitfuncs()
        return result

    return script


def tensorrt_model():
    """Torch-TensorRT, without a GPU: torchspan's stand-in runs the engines. With a model, and its input."""
    torchspan.testing.without_gpu()
    import torch_tensorrt

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    return torch_tensorrt, model, torch.ones(2, 4)


OPTIONS = {"min_block_size": 1, "immutable_weights": False, "truncate_double": True}


def tensorrt_compiles(_tries):
    """`torch_tensorrt.compile` of a module, with its export, and a run."""
    torch_tensorrt, model, ones = tensorrt_model()

    def script():
        return torch_tensorrt.compile(model, ir="dynamo", inputs=[ones], **OPTIONS)(ones).shape

    return script


def tensorrt_backends(_tries):
    """`torch.compile` with Torch-TensorRT's backend."""
    _, model, ones = tensorrt_model()

    def script():
        torch._dynamo.reset()
        return torch.compile(model, backend="torch_tensorrt", options=OPTIONS)(ones).shape

    return script


def unguarded(_tries):
    """A hook that calls torchspan's code without a guard, which the tries must find."""
    call = Hooked(lambda _factory, function: lambda number: semconv.identifier("x") and function(number), add)
    return lambda: call(1)


LIBRARIES = ("torch", "torch_tensorrt", "tensorrt", "torchspan")

SCRIPTS = {f"phases_{library}": functools.partial(phases, library) for library in LIBRARIES} | {
    script.__name__: script
    for script in (
        observed, actions, runs, callbacks, ranges, threads, batches, operators, forks, heartbeats, exports, flushes,
        compiles, instrumenting, exits, tensorrt_compiles, tensorrt_backends,
    )
}  # fmt: skip
"""Name -> what makes the script."""

CONTROLS = {"unguarded": unguarded}
"""Those that are not without differences."""
