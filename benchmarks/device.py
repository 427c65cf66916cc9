# SPDX-License-Identifier: Apache-2.0
"""What the time on the device costs the host: runs of a compiled graph with `gpu_time` off and sampled, which take turns.

Without a GPU, `torchspan.testing`'s stand-in answers in its place: what is left is torchspan's own Python.
"""

import sys
import time

import torch
from opentelemetry.sdk.trace import TracerProvider

import torchspan.testing
from noise import noise_of
from table import Row, write
from torchspan import TorchspanInstrumentor

DECIDED_US, OTHERS_US = 3.0, 0.1
"""What a run may cost more. Others than decided ones must cost nothing more, which no clock shows more exactly."""
RUNS, PASSES = 300, 8
EVERY_RUN = 1_000_000
SIDE = 64
"""Of the square that a run multiplies: little for the device, so that it never delays the host."""


def square(x):
    return x @ x


def bridged(setting, provider):
    """The bridge with that setting of gpu_time, and a compiled graph whose runs it sees."""
    instrumentor = TorchspanInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    torchspan.instrument(
        tracer_provider=provider, graph_runs=True, gpu_time=setting, sample_execute_per_second=EVERY_RUN
    )
    torch._dynamo.reset()
    # Inductor's code needs a compiler; this backend runs the operators as they are.
    return torch.compile(square, backend="aot_eager")


def each_us(function, x):
    """Microseconds on the host of some runs."""
    for _ in range(RUNS):
        start = time.perf_counter_ns()
        function(x)
        yield (time.perf_counter_ns() - start) / 1000
        if x.is_cuda:
            torch.cuda.synchronize()


def measured(provider):
    """What a run takes in each pass, in microseconds: the fastest of a pass, by setting, of decided runs and of the others."""
    tracer, x = provider.get_tracer("bench"), torch.ones(SIDE, SIDE, device="cuda")
    decided, others = {"off": [], "sampled": []}, {"off": [], "sampled": []}
    for setting in ("off", "sampled") * PASSES:
        function = bridged(setting, provider)
        list(each_us(function, x))  # compiles, and makes what the first runs make
        others[setting].append(min(each_us(function, x)))
        with tracer.start_as_current_span("request"):
            decided[setting].append(min(each_us(function, x)))
    return decided, others


def row(what, times_us, target_us):
    """times_us: by setting. Where two halves of the runs without times differ by more than the target, the row says nothing."""
    more_us = min(times_us["sampled"]) - min(times_us["off"])
    noise_us = noise_of(times_us["off"], lambda one_us, other_us: one_us - other_us)
    is_noise = noise_us > target_us or target_us < more_us <= target_us + noise_us
    return Row(
        what, f"{more_us:.2f} ± {noise_us:.2f} µs", f"≤ {target_us} µs", None if is_noise else more_us <= target_us
    )


def main():
    has_gpu = torch.cuda.is_available()
    if not has_gpu:
        torchspan.testing.without_gpu()
    where = torch.cuda.get_device_name(0) if has_gpu else "stand-in"
    decided, others = measured(TracerProvider(shutdown_on_exit=False))
    rows = [
        row(f"decided run of a graph, {where}", decided, DECIDED_US),
        row(f"run of a graph without a span, {where}", others, OTHERS_US),
    ]
    status = write("Time of the host with time on the device, over the same without it", rows)
    TorchspanInstrumentor().uninstrument()
    return status


if __name__ == "__main__":
    sys.exit(main())
