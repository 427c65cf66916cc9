# SPDX-License-Identifier: Apache-2.0
"""Memory of the device during a build, and a forked child after CUDA was initialized."""

import torch

import torchspan
from support import gpu_runs
from support.forked import in_forked_child
from torchspan.words import semconv

pytestmark = gpu_runs.MARKS


def test_the_peak_of_a_build_is_not_below_what_was_used_before_and_after(timed, exporter, figure):
    timed()
    gpu_runs.freed()
    gpu_runs.compiled()
    (build,) = [span.attributes for span in exporter.get_finished_spans() if span.name == "tensorrt.build_engine"]
    total = build[semconv.GPU_MEMORY_TOTAL]
    free = min(build[semconv.GPU_MEMORY_FREE_BEFORE], build[semconv.GPU_MEMORY_FREE_AFTER])
    peak_mb, least_mb = build[semconv.GPU_MEMORY_USED_PEAK] / 1e6, (total - free) / 1e6
    figure("peak of used memory in a build: before and after", peak_mb, least_mb, "MB", (least_mb, total / 1e6))


def test_a_forked_child_records_no_time_on_the_device(timed, exporter, tracer):
    timed()
    gpu_runs.compiled_square(torch.ones(64, 64, device="cuda"))
    graph = torch.compile(torch.sin, backend="aot_eager")
    x = torch.ones(4, 4)
    graph(x)
    torchspan.flush()
    exporter.clear()

    def child():
        with tracer.start_as_current_span("request"):
            graph(x)
        keys = {semconv.RUN_GRAPH_GPU_DURATION, semconv.GPU_TIME_MISSING}
        return [
            (span.name.partition(" ")[0], sorted(keys & span.attributes.keys()))
            for span in exporter.get_finished_spans()
        ]

    assert in_forked_child(child) == repr([("torch.run_graph", []), ("request", [])])
