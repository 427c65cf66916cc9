# SPDX-License-Identifier: Apache-2.0
"""Engines of Torch-TensorRT and their time on a simulated device: spans, metrics, results, and a program that ends.

The stand-in runs the engines on the CPU; what they queue on the device is simulated.
"""

import sys
import time

import pytest
import torch
import torch_tensorrt

from support import models
from torchspan.words import semconv

pytestmark = pytest.mark.stand_in_only("the stand-in runs the engines")

EXECUTE = "torch_tensorrt.execute"


@pytest.fixture
def module():
    """A compiled net, and its input. Up to 2.12 it keeps the streams of its first run, which are those of one device."""
    x = models.image()
    with torch.no_grad():
        return torch_tensorrt.compile(models.seeded(models.Fallback), ir="dynamo", inputs=[x], min_block_size=1), x


@pytest.fixture
def compiled(module, gpu, instrument, monkeypatch):
    """The net whose engines queue 3 ms of work on the device, instrumented from now on."""
    context_type = sys.modules["tensorrt"].IExecutionContext
    run = context_type.execute_async_v3

    def queueing(context, stream):
        gpu.launch(0.003)
        return run(context, stream)

    monkeypatch.setattr(context_type, "execute_async_v3", queueing)
    gpu.forbid_synchronizing = False  # Torch-TensorRT's streams wait for each other
    instrument(gpu_time="sampled")
    return module


def spans(exporter, name, number):
    deadline = time.monotonic() + 30
    while True:
        ended = [span for span in exporter.get_finished_spans() if span.name == name]
        if len(ended) >= number:
            return ended
        assert time.monotonic() < deadline, "spans are missing"
        time.sleep(0.005)


def test_the_span_of_a_run_has_the_time_of_its_engine_on_the_device(compiled, gpu, exporter, tracer):
    net, x = compiled
    with torch.no_grad(), tracer.start_as_current_span("request") as request:
        net(x)
    gpu.finish()
    runs = spans(exporter, EXECUTE, 2)
    assert [run.attributes[semconv.EXECUTE_GPU_DURATION] for run in runs] == [pytest.approx(0.003)] * 2
    assert {run.parent.span_id for run in runs} == {request.get_span_context().span_id}
    assert all(semconv.GPU_TIME_MISSING not in run.attributes for run in runs)


def test_the_metric_has_the_times_of_runs_that_are_spans(compiled, gpu, exporter, tracer, metrics):
    net, x = compiled
    with torch.no_grad(), tracer.start_as_current_span("request"):
        net(x)
    gpu.finish()
    spans(exporter, EXECUTE, 2)
    (point,) = metrics.read()["torch_tensorrt.execute.gpu.duration"]
    assert (point.count, point.sum) == (2, pytest.approx(0.006))


def test_runs_without_a_time_are_counted_by_reason(compiled, gpu, exporter, tracer, metrics):
    net, x = compiled
    with torch.no_grad(), tracer.start_as_current_span("request"), gpu.capturing(torch.cuda.Stream()):
        net(x)
    spans(exporter, EXECUTE, 2)
    (point,) = metrics.read()["torchspan.gpu_time.missing_runs"]
    assert (point.attributes, point.value) == ({"torchspan.gpu_time.missing": "capturing"}, 2)


def test_results_are_those_without_the_time_on_the_device(module, compiled, gpu, instrument, tracer):
    net, x = compiled
    with torch.no_grad(), tracer.start_as_current_span("request"):
        measured = net(x)
    gpu.finish()
    instrument(gpu_time="off")
    with torch.no_grad():
        assert torch.equal(net(x), measured)


def test_without_the_setting_no_cuda_event_is_recorded(compiled, gpu, instrument, exporter, tracer):
    net, x = compiled
    instrument(gpu_time="off")
    before = len(gpu.calls)
    with torch.no_grad(), tracer.start_as_current_span("request"):
        net(x)
    assert len(spans(exporter, EXECUTE, 2)) == 2
    assert {call.name for call in gpu.calls[before:] if call.module.startswith("torchspan.hooks.device")} == set()
