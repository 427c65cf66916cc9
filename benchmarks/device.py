# SPDX-License-Identifier: Apache-2.0
"""What the time on the device costs: decided runs and others, with `gpu_time` off and sampled, which take turns.

First torchspan's own Python, over an empty function and CUDA calls that do nothing: the hook, the listener and the writer are the real ones.
Then, on a machine with a GPU, runs of a compiled graph, with what CUDA's calls take.
"""

import sys
import time
from types import ModuleType, SimpleNamespace

from opentelemetry.sdk.trace import TracerProvider

from hot_path import EXECUTE, TheEngine, execute_engine
from noise import noise_of
from table import NO_TARGET, Row, write
from torchspan import TorchspanInstrumentor, instrument
from torchspan.engine import Engine, LimitedCalls, RateLimits, RunSampling
from torchspan.hooks.adapters import Ports, Provenance
from torchspan.hooks.adapters.engine_runs import wrap_run
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.device import DeviceTimes, _driver
from torchspan.output.writer import SpanParents, SpanWriter
from torchspan.words.sampling.rules import SamplingRules

DECIDED_US, OTHERS_US = 3.0, 0.1
"""What a run may cost more. Others than decided ones must cost nothing more, which no clock shows more exactly."""
DECIDED, OTHERS, ROUNDS = 40, 2_000, 200
"""Runs in a round: below one span not more than 50 are decided."""
EVERY_RUN = 1_000_000
RUNS, PASSES = 300, 16
SIDE = 64
"""Of the square that a run multiplies: little for the device, so that it never delays the host."""


# --- torchspan's own Python -------------------------------------------------------------------------------------------
class EmptyEvent:
    """A CUDA event whose calls do nothing; the device has always reached it."""

    def __init__(self, enable_timing=False): ...
    def record(self, stream=None): ...

    def query(self):
        return True

    def elapsed_time(self, end_event):  # noqa: ARG002 - the real one's signature
        return 1.0


def empty_torch():
    """A module in place of torch, whose CUDA is initialized and does nothing."""
    torch, stream = ModuleType("torch"), SimpleNamespace(device_index=0, cuda_stream=0)
    torch.Tensor, torch.nn = type("Tensor", (), {}), SimpleNamespace(Parameter=type("Parameter", (), {}))
    torch.cuda = SimpleNamespace(
        Event=EmptyEvent,
        current_stream=lambda: stream,
        is_current_stream_capturing=lambda: False,
        is_initialized=lambda: True,
    )
    return torch


class TimedHook:
    """The hook of runs of engines with `gpu_time` off or sampled, around the empty function."""

    def __init__(self, provider, *, is_sampled):
        self._engine = Engine()
        parents, sampling = SpanParents(), RunSampling(RateLimits(), SamplingRules(execute_per_second=EVERY_RUN))
        writer = SpanWriter(provider, parents=parents, holds=sampling.use)
        self._engine.listen([writer, *([DeviceTimes(self._engine)] if is_sampled else [])])
        ports = Ports(
            redact=str,
            annotate_current=lambda _name, _attributes: None,
            parents=parents,
            call_policy=LimitedCalls(RateLimits()),
            sampling=sampling,
        )
        factory = WrapperFactory(self._engine, Provenance())
        self.run = wrap_run(factory, ports, EXECUTE.target, EXECUTE.action, execute_engine)
        writer.look_for_provider()


def own_python():
    """Rows of microseconds that a run takes more with times on the device, of the program's thread and of the process."""
    sys.modules["torch"] = empty_torch()
    _driver.set_thread_local_capture = lambda: True
    provider, engine = TracerProvider(shutdown_on_exit=False), TheEngine()
    tracer = provider.get_tracer("bench")
    hooks = {"off": TimedHook(provider, is_sampled=False), "sampled": TimedHook(provider, is_sampled=True)}
    names = ("decided run, program's thread", "decided run, whole process", "run without a span")
    took = {name: {"off": [], "sampled": []} for name in names}
    for _ in range(ROUNDS):
        for setting, hook in hooks.items():
            with tracer.start_as_current_span("request"):
                hook.run([], engine)
                thread_ns, process_ns = time.thread_time_ns(), time.process_time_ns()
                for _ in range(DECIDED):
                    hook.run([], engine)
                thread_ns = time.thread_time_ns() - thread_ns
                hook._engine.flush()
                process_ns = time.process_time_ns() - process_ns
            took[names[0]][setting].append(thread_ns / DECIDED / 1000)
            took[names[1]][setting].append(process_ns / DECIDED / 1000)
            start_ns = time.thread_time_ns()
            for _ in range(OTHERS):
                hook.run([], engine)
            took[names[2]][setting].append((time.thread_time_ns() - start_ns) / OTHERS / 1000)
    del sys.modules["torch"]
    limits = dict(zip(names, (DECIDED_US, "with torchspan's thread", OTHERS_US), strict=True))
    return [row(f"{name}, CUDA calls empty", times, limits[name]) for name, times in took.items()]


def row(what, times_us, target_us):
    """The row of one figure.

    times_us: by setting. Where two halves of the runs without times differ by more than the target, the row says nothing.
    target_us: or why there is none.
    """
    more_us = min(times_us["sampled"]) - min(times_us["off"])
    noise_us = noise_of(times_us["off"], lambda one_us, other_us: one_us - other_us)
    if isinstance(target_us, str):
        return Row(what, f"{more_us:.2f} ± {noise_us:.2f} µs", target_us, NO_TARGET)
    is_noise = noise_us > target_us or target_us < more_us <= target_us + noise_us
    return Row(
        what, f"{more_us:.2f} ± {noise_us:.2f} µs", f"≤ {target_us} µs", None if is_noise else more_us <= target_us
    )


# --- a GPU ------------------------------------------------------------------------------------------------------------
def bridged(setting, provider):
    """The bridge with that setting of gpu_time, and a compiled graph whose runs it sees."""
    import torch

    instrumentor = TorchspanInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    instrument(tracer_provider=provider, graph_runs=True, gpu_time=setting, sample_execute_per_second=EVERY_RUN)
    torch._dynamo.reset()
    # Inductor's code needs a compiler; this backend runs the operators as they are.
    return torch.compile(lambda x: x @ x, backend="aot_eager")


def each_us(function, x, runs):
    """Microseconds on the host of some runs."""
    import torch

    for _ in range(runs):
        start = time.perf_counter_ns()
        function(x)
        yield (time.perf_counter_ns() - start) / 1000
        torch.cuda.synchronize()


def calls_us(x):
    """Microseconds that CUDA takes for what torchspan asks of it in a decided run, through PyTorch."""
    import torch

    cuda = torch.cuda
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)

    def with_calls(x):
        stream = cuda.current_stream()
        cuda.is_current_stream_capturing()
        start.record(stream)
        x @ x
        cuda.is_current_stream_capturing()
        end.record(stream)

    took = {function: [] for function in (with_calls, lambda x: x @ x)}
    for function in [*took] * PASSES:
        took[function].append(min(each_us(function, x, RUNS)))
    with_us, without_us = map(min, took.values())
    return with_us - without_us


def on_gpu(name):
    """Rows of microseconds that a run of a graph takes more on the host with times on the device, without what CUDA's calls take."""
    import torch

    provider = TracerProvider(shutdown_on_exit=False)
    tracer, x = provider.get_tracer("bench"), torch.ones(SIDE, SIDE, device="cuda")
    decided, others = {"off": [], "sampled": []}, {"off": [], "sampled": []}
    for setting in ("off", "sampled") * PASSES:
        function = bridged(setting, provider)
        list(each_us(function, x, RUNS))  # compiles, and makes what the first runs make
        others[setting].append(min(each_us(function, x, RUNS)))
        with tracer.start_as_current_span("request"):
            decided[setting].append(min(each_us(function, x, DECIDED)))
    TorchspanInstrumentor().uninstrument()
    cuda_us = calls_us(x)
    decided["sampled"] = [took_us - cuda_us for took_us in decided["sampled"]]
    return [
        row(f"decided run of a graph, next to CUDA's calls ({cuda_us:.1f} µs), {name}", decided, DECIDED_US),
        row(f"run of a graph without a span, {name}", others, OTHERS_US),
    ]


def main():
    rows = own_python()
    import torch

    if torch.cuda.is_available():
        rows += on_gpu(torch.cuda.get_device_name(0))
    return write("Time of the host with time on the device, over the same without it", rows)


if __name__ == "__main__":
    sys.exit(main())
