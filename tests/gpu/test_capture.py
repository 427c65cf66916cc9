# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs, of Torch-TensorRT's runtime and of the program, while torchspan times runs."""

import threading
import time

import pytest
import torch
import torch_tensorrt

from support import gpu_runs
from torchspan.hooks import device
from torchspan.words import semconv

pytestmark = gpu_runs.MARKS
EXECUTE, RUN_GRAPH = "torch_tensorrt.execute", "torch.run_graph"
CAPTURE_S = 0.2


@pytest.mark.parametrize("python", [True, False], ids=["the Python runtime", "the C++ runtime"])
def test_cuda_graphs_of_the_runtime_give_the_same_outputs(timed, exporter, tracer, python):
    timed()
    module = gpu_runs.compiled(python=python)
    x = gpu_runs.rows()
    expected = module(x)
    torch.cuda.synchronize()
    exporter.clear()
    with tracer.start_as_current_span("request"), torch_tensorrt.runtime.enable_cudagraphs(module) as graphed:
        outputs = [graphed(x).clone() for _ in range(5)]
        torch.cuda.synchronize()
    for output in outputs:
        torch.testing.assert_close(output, expected)
    runs = gpu_runs.arrived(exporter, EXECUTE, 5)
    assert [semconv.EXECUTE_GPU_DURATION in run.attributes for run in runs[1:]] == [True] * 4


def test_a_run_that_the_program_captures_has_no_time_and_says_why(timed, exporter, tracer):
    timed()
    x = torch.ones(512, 512, device="cuda")
    function = gpu_runs.compiled_square(x)
    exporter.clear()
    graph = torch.cuda.CUDAGraph()
    with tracer.start_as_current_span("request"), torch.cuda.graph(graph):
        captured = function(x)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, torch.full((512, 512), 512.0, device="cuda"))
    (run,) = gpu_runs.arrived(exporter, RUN_GRAPH, 1)
    assert run.attributes[semconv.GPU_TIME_MISSING] == "capturing"


def test_a_capture_in_another_thread_is_not_invalidated_while_runs_are_in_flight(timed, exporter, tracer):
    timed()
    x = torch.ones(4096, 4096, device="cuda")
    function = gpu_runs.compiled_square(x)
    exporter.clear()
    total, side, graph, failures = torch.zeros(1, device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph(), []
    torch.cuda.synchronize()

    def capture():
        added = 0
        try:
            # Not `torch.cuda.graph`, which would wait until no run is in flight.
            with torch.cuda.stream(side):
                graph.capture_begin(capture_error_mode="global")
                until = time.monotonic() + CAPTURE_S
                while time.monotonic() < until or added < 10:
                    total.add_(1)
                    added += 1
                    time.sleep(0.001)
                graph.capture_end()
        except Exception as error:
            failures.append(error)
        return added

    with tracer.start_as_current_span("request"), gpu_runs.busy_device():
        for _ in range(20):
            function(x)
        counts = []
        thread = threading.Thread(target=lambda: counts.append(capture()))
        thread.start()
        thread.join()
    torch.cuda.synchronize()
    assert failures == []
    graph.replay()
    torch.cuda.synchronize()
    assert [total.item()] == counts
    runs = gpu_runs.arrived(exporter, RUN_GRAPH, 20)
    assert all(run.attributes[semconv.RUN_GRAPH_GPU_DURATION] > 0 for run in runs)


def test_a_capture_stays_valid_while_another_thread_asks_for_the_free_memory():
    """As the thread that samples the memory of the device during builds does."""
    total, graph, side = torch.zeros(1, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    captures, answers = threading.Event(), []

    def ask():
        captures.wait()
        answers.append(device.set_thread_local_capture())
        answers.append(torch.cuda.mem_get_info()[0] > 0)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    with torch.cuda.stream(side):
        graph.capture_begin(capture_error_mode="global")
        captures.set()
        thread.join()
        total.add_(1)
        graph.capture_end()
    graph.replay()
    torch.cuda.synchronize()
    assert answers == [True, True]
    assert total.item() == 1
