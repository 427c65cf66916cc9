# SPDX-License-Identifier: Apache-2.0
"""torch.compile sees what it would see on a GPU: no graph breaks of the stand-in's making."""

from __future__ import annotations

import json
import logging

import pytest
import torch
import torch_tensorrt

from testing.models import ConvNet, MakesTensorsOnCuda, Mlp, WithFallback, assert_close, seeded

VERSION = tuple(int(part) for part in torch_tensorrt.__version__.split("+")[0].split(".")[:2])
OPTIONS = {"min_block_size": 1, "pass_through_build_failures": True}


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@torch.no_grad()
@pytest.mark.parametrize("make", [Mlp, WithFallback, MakesTensorsOnCuda])
def test_the_tensorrt_backend_returns_the_models_numbers(make):
    model, x = seeded(make), torch.randn(3, 16, device="cuda")
    trt = torch.compile(model, backend="tensorrt", options=OPTIONS, fullgraph=True)
    for _ in range(2):
        assert_close(trt(x), model(x))


@torch.no_grad()
def test_the_tensorrt_backend_on_a_convolutional_net():
    model, x = seeded(ConvNet), torch.randn(2, 3, 16, 16, device="cuda")
    assert_close(torch.compile(model, backend="tensorrt", options=OPTIONS)(x), model(x))


@torch.no_grad()
def test_dynamic_shapes_need_one_graph():
    model, graphs = seeded(Mlp), []

    def counting(gm, inputs):
        graphs.append(gm)
        return gm.forward

    seen = torch.compile(model, backend=counting, dynamic=True, fullgraph=True)
    trt = torch.compile(model, backend="tensorrt", dynamic=True, options=OPTIONS)
    for batch in (4, 6, 7):
        x = torch.randn(batch, 16, device="cuda")
        seen(x)
        assert_close(trt(x), model(x))
    assert len(graphs) == 1


def test_what_says_cuda_breaks_no_graph():
    model, x = seeded(MakesTensorsOnCuda), torch.randn(3, 16)
    explained = torch._dynamo.explain(model)(x)
    assert explained.graph_break_count == 0 and explained.graph_count == 1
    with torch.no_grad():
        assert_close(torch.compile(model, backend="eager", fullgraph=True)(x), model(x))
        assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), model(x))


@pytest.mark.stand_in_only("no tensor on a real GPU can be pinned")
def test_like_functions_tensors_of_numbers_autocast_and_default_devices_trace_whole():
    def forward(x):
        y = torch.zeros_like(x, device="cuda") + torch.tensor([1.0, 2.0], device="cuda") + x.new_ones(2, device="cuda")
        y = y + torch.tensor(x.shape[0], device="cuda") + torch.empty(2, device="cuda").fill_(3).pin_memory()
        with torch.autocast("cuda"):
            z = y @ x.T
        return z, torch.cuda.is_available() + torch.cuda.current_device()

    x = torch.randn(2, 2)
    z, count = torch.compile(forward, backend="eager", fullgraph=True)(x)
    assert z.dtype is torch.float16 and count == 1
    assert_close(z, forward(x)[0])


@torch.no_grad()
@pytest.mark.stand_in_only("with a real GPU, inputs on the CPU are moved, and the log says it")
@pytest.mark.skipif(VERSION < (2, 13), reason="the runtime module is traced through, and logs on its way")
def test_a_compiled_module_on_cpu_inputs_compiles_whole_and_logs_nothing(caplog):
    model, x = seeded(Mlp), torch.randn(2, 16)
    trt = torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)
    with caplog.at_level(logging.WARNING):
        trt(x)
    assert not [r for r in caplog.records if "CUDA device" in r.getMessage()]
    assert_close(torch.compile(trt, backend="eager", fullgraph=True)(x), model(x))
    assert torch._dynamo.explain(trt)(x).graph_break_count == 0
    for strict in (True, False):
        assert_close(torch.export.export(trt, (x,), strict=strict).module()(x), model(x))


def test_the_runtimes_other_warnings_are_logged_from_where_they_are(caplog):
    from torch_tensorrt.dynamo.runtime import _TorchTensorRTModule

    with caplog.at_level(logging.WARNING):
        _TorchTensorRTModule.logger.warning("something %s", "else")
    (record,) = caplog.records
    assert record.getMessage() == "something else" and record.module == "test_dynamo"


@pytest.mark.stand_in_only("the stand-in adds it")
def test_what_is_added_to_dynamos_settings_can_be_written_with_the_summary_of_a_frame():
    assert "torchspan" in json.dumps(sorted(torch._dynamo.config.ignore_logging_functions))
