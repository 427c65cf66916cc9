# SPDX-License-Identifier: Apache-2.0
"""Times on the device against PyTorch's profiler, a synchronized clock, and runs without them."""

import statistics
import time

import pytest
import torch

import torchspan
from support import gpu_runs
from torchspan.words import semconv

pytestmark = gpu_runs.MARKS
EXECUTE, RUN_GRAPH = "torch_tensorrt.execute", "torch.run_graph"
OF_ENGINE, OF_GRAPH = semconv.EXECUTE_GPU_DURATION, semconv.RUN_GRAPH_GPU_DURATION
RUNTIMES = pytest.mark.parametrize("python", [True, False], ids=["the Python runtime", "the C++ runtime"])
SHARE = 0.03


def near(oracle):
    return oracle * (1 - SHARE), oracle * (1 + SHARE)


@RUNTIMES
def test_the_time_of_an_engine_is_that_from_its_first_kernel_to_its_last(timed, exporter, tracer, figure, python):
    timed()
    module = gpu_runs.compiled(python=python)
    x = gpu_runs.rows()
    with tracer.start_as_current_span("request"), gpu_runs.profiled() as profile, gpu_runs.busy_device() as stream:
        module(x)
        stream.synchronize()
    (run,) = gpu_runs.arrived(exporter, EXECUTE, 1)
    oracle_ms = gpu_runs.kernels_ms(profile)
    assert oracle_ms > 1
    name = f"engine, {'Python' if python else 'C++'} runtime: torch.profiler"
    figure(name, run.attributes[OF_ENGINE] * 1000, oracle_ms, "ms", near(oracle_ms))


def test_the_time_of_a_compiled_graph_is_that_from_its_first_kernel_to_its_last(timed, exporter, tracer, figure):
    timed()
    x = torch.ones(8192, 8192, device="cuda")
    function = gpu_runs.compiled_square(x)
    with tracer.start_as_current_span("request"), gpu_runs.profiled() as profile, gpu_runs.busy_device() as stream:
        function(x)
        stream.synchronize()
    (run,) = gpu_runs.arrived(exporter, RUN_GRAPH, 1)
    oracle_ms = gpu_runs.kernels_ms(profile)
    assert oracle_ms > 1
    figure("graph of Inductor: torch.profiler", run.attributes[OF_GRAPH] * 1000, oracle_ms, "ms", near(oracle_ms))


@RUNTIMES
def test_the_time_is_not_more_than_a_synchronized_clock_says(timed, exporter, tracer, figure, python):
    timed()
    module = gpu_runs.compiled(python=python)
    x = gpu_runs.rows()
    torch.cuda.synchronize()
    start = time.perf_counter()
    with tracer.start_as_current_span("request"):
        module(x)
    torch.cuda.synchronize()
    clock_ms = (time.perf_counter() - start) * 1000
    (run,) = gpu_runs.arrived(exporter, EXECUTE, 1)
    host_ms = (run.end_time - run.start_time) / 1e6
    name = f"engine, {'Python' if python else 'C++'} runtime: synchronized clock"
    # Before the first event and after the last one there is time of the host alone.
    figure(name, run.attributes[OF_ENGINE] * 1000, clock_ms, "ms", (clock_ms - host_ms - 0.5, clock_ms))


def test_a_span_ends_when_the_call_returns_not_when_the_device_has_finished(timed, exporter, tracer, figure):
    timed()
    module = gpu_runs.compiled()
    x = gpu_runs.rows()
    with tracer.start_as_current_span("request"), gpu_runs.busy_device() as stream:
        module(x)
        was_running = not stream.query()
        returned_ns = time.time_ns()
    (run,) = gpu_runs.arrived(exporter, EXECUTE, 1)
    assert was_running
    after_ms = (returned_ns - run.end_time) / 1e6
    figure("end of the span before the call returned", after_ms, 0.0, "ms", (0.0, 5.0))


def test_runs_with_and_without_times_give_the_same_outputs(timed, tracer, figure):
    host_ms, outputs = {}, {}
    x, module = gpu_runs.rows(), gpu_runs.compiled()
    for setting in ("off", "sampled"):
        timed(gpu_time=setting)
        took = []
        with tracer.start_as_current_span("request"):
            for _ in range(100):
                start = time.perf_counter()
                outputs[setting] = module(x)
                took.append((time.perf_counter() - start) * 1000)
                torch.cuda.synchronize()
        host_ms[setting] = statistics.median(took)
        torchspan.flush()
    assert torch.equal(outputs["off"], outputs["sampled"])
    bound = (0.0, host_ms["off"] * 1.5 + 0.05)
    figure("host time of a decided run, with and without times", host_ms["sampled"], host_ms["off"], "ms", bound)


def test_runs_on_streams_of_their_own_each_have_a_time(timed, exporter, tracer):
    timed()
    module = gpu_runs.compiled()
    x = gpu_runs.rows()
    exporter.clear()
    with tracer.start_as_current_span("request"):
        for _ in range(8):
            with gpu_runs.busy_device():
                module(x)
    runs = gpu_runs.arrived(exporter, EXECUTE, 8)
    assert [run.attributes.get(semconv.GPU_TIME_MISSING) for run in runs] == [None] * 8
    assert all(run.attributes[OF_ENGINE] > 0 for run in runs)
