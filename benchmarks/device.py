# SPDX-License-Identifier: Apache-2.0
"""What the time on the device costs: the same runs with `gpu_time` off and sampled.

Python alone: an empty function stands for the engine and a stand-in for CUDA's events, so that what torchspan itself does is all
there is to see. On a GPU: runs of a compiled graph, on the host's clock. Runs with and without times alternate.
"""

import statistics
import sys
import time

import torch

import torchspan
from hot_path import best_ns
from opentelemetry.sdk.trace import TracerProvider
from table import NOT_MEASURED, Row, write
from torchspan import TorchspanInstrumentor

MORE_US = 3.0
"""What a decided run may cost more."""
OTHERS_NS = 20
"""What a run that is not decided may cost more: what differs between two measurements of the same."""
RUNS, PASSES = 300, 5
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


def decided_us(function, x, tracer):
    """Microseconds on the host of a run that is a span, as the median of some."""
    took = []
    with torch.no_grad(), tracer.start_as_current_span("request"):
        for _ in range(RUNS):
            start = time.perf_counter_ns()
            function(x)
            took.append(time.perf_counter_ns() - start)
            if x.is_cuda:
                torch.cuda.synchronize()
    return statistics.median(took) / 1000


def on_the_device():
    """Rows of a decided run and of one outside every span, with and without times."""
    whats = ("decided run, over the same without time on the device", "run without a span, over the same")
    if not torch.cuda.is_available():
        return [
            Row(f"{what}, on a GPU", "-", target, NOT_MEASURED)
            for what, target in zip(whats, (f"≤ {MORE_US} µs", f"≤ {OTHERS_NS} ns"), strict=True)
        ]
    provider = TracerProvider(shutdown_on_exit=False)
    tracer, x = provider.get_tracer("bench"), torch.ones(SIDE, SIDE, device="cuda")
    decided, others = {"off": [], "sampled": []}, {"off": [], "sampled": []}
    for _ in range(PASSES):
        for setting in decided:
            function = bridged(setting, provider)
            function(x)
            decided_us(function, x, tracer)
            decided[setting].append(decided_us(function, x, tracer))
            others[setting].append(best_ns(lambda _inputs, _engine, run=function: run(x), rounds=5)[0])
    more_us = min(decided["sampled"]) - min(decided["off"])
    more_ns = min(others["sampled"]) - min(others["off"])
    return [
        Row(f"{whats[0]}, on a GPU", f"{more_us:.2f} µs", f"≤ {MORE_US} µs", more_us <= MORE_US),
        Row(f"{whats[1]}, on a GPU", f"{more_ns:.0f} ns", f"≤ {OTHERS_NS} ns", more_ns <= OTHERS_NS),
    ]


def main():
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    status = write(f"Time on the device ({device}, torch {torch.__version__})", on_the_device())
    TorchspanInstrumentor().uninstrument() if TorchspanInstrumentor().is_instrumented_by_opentelemetry else None
    return status


if __name__ == "__main__":
    sys.exit(main())
