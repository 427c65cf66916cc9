# SPDX-License-Identifier: Apache-2.0
"""Compiled modules return what the model returns, through torch_tensorrt's real pipeline."""

from __future__ import annotations

import concurrent.futures
import importlib.util

import pytest
import torch
import torch_tensorrt

import torchspan.testing
from testing.models import ConvNet, MakesTensorsOnCuda, Mixed, Mlp, WithFallback, assert_close, engines, seeded


def compiled(model, *inputs, **settings):
    settings = {"min_block_size": 1, "ir": "dynamo", **settings}
    return torch_tensorrt.compile(model, inputs=list(inputs), **settings)


def bert():
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    from transformers import BertConfig, BertModel

    size = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    return BertModel(BertConfig(num_hidden_layers=2, vocab_size=100, attn_implementation="eager", **size))


@torch.no_grad()
def test_a_transformer_of_two_layers():
    model, ids = seeded(bert), torch.randint(0, 100, (2, 16), device="cuda")
    trt = compiled(model, ids)
    got, expected = trt(ids), model(ids)
    assert len(engines(trt)) >= 1
    assert_close(got["last_hidden_state"], expected.last_hidden_state)
    assert_close(got["pooler_output"], expected.pooler_output)


@torch.no_grad()
def test_a_convolutional_net():
    model, x = seeded(ConvNet), torch.randn(2, 3, 16, 16, device="cuda")
    trt = compiled(model, x)
    assert_close(trt(x), model(x))
    assert len(engines(trt)) == 1 and engines(trt)[0].serialized_engine[1:4] == b"trt"


@torch.no_grad()
@pytest.mark.parametrize("fast", [True, False])
def test_a_net_with_an_operator_that_falls_back(fast):
    model, x = seeded(WithFallback), torch.randn(2, 16, device="cuda")
    trt = compiled(model, x, use_fast_partitioner=fast)
    assert_close(trt(x), model(x))
    assert len(engines(trt)) == 2


@torch.no_grad()
def test_dynamic_shapes():
    model = seeded(Mlp)
    spec = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), name="x")
    trt = compiled(model, spec)
    for batch in (1, 4, 7, 1):
        x = torch.randn(batch, 16, device="cuda")
        assert_close(trt(x), model(x))


@torch.no_grad()
def test_outputs_of_several_types_and_ranks():
    model, x = seeded(Mixed), torch.randn(2, 8, device="cuda")
    trt = compiled(model, x)
    for got, expected in zip(trt(x), model(x), strict=True):
        assert_close(got, expected)


@torch.no_grad()
def test_outputs_that_are_one_tensor_or_an_input():
    class Repeats(torch.nn.Module):
        def forward(self, x):
            y = torch.relu(x) * 3
            return y, x, y, y.sum(0), x + 1

    model, x = Repeats(), torch.randn(2, 8, device="cuda")
    for got, expected in zip(compiled(model, x)(x), model(x), strict=True):
        assert_close(got, expected)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    model, x = seeded(Mlp).to(dtype), torch.randn(2, 16, dtype=dtype, device="cuda")
    assert_close(compiled(model, x, use_explicit_typing=True)(x), model(x))


@torch.no_grad()
def test_a_model_that_says_cuda_in_its_forward():
    model, x = seeded(MakesTensorsOnCuda), torch.randn(3, 16)
    assert_close(compiled(model, x)(x), model(x))


@torch.no_grad()
@pytest.mark.parametrize(
    "device",
    [
        "cuda:0",
        torch.device("cuda:0"),
        pytest.param(
            torch.device("cpu"), marks=pytest.mark.stand_in_only("with a real GPU, Torch-TensorRT takes CUDA alone")
        ),
        torch_tensorrt.Device("cuda:0"),
    ],
    ids=str,
)
def test_every_form_of_the_device_setting(device):
    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    assert_close(compiled(model, x, device=device)(x), model(x))


@torch.no_grad()
def test_exported_programs_of_both_kinds():
    model, x = seeded(MakesTensorsOnCuda), torch.randn(3, 16, device="cuda")
    for strict in (False, True):
        program = torch.export.export(model, (x,), strict=strict)
        trt = torch_tensorrt.dynamo.compile(program, arg_inputs=[x], min_block_size=1)
        assert_close(trt(x), model(x))


@pytest.mark.stand_in_only("graphs name a real GPU")
@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_names_no_gpu(strict):
    program = torch.export.export(seeded(MakesTensorsOnCuda), (torch.randn(3, 16, device="cuda"),), strict=strict)
    assert not any("cuda" in str(node.kwargs) for node in program.graph.nodes)


@torch.no_grad()
def test_engines_run_in_other_threads():
    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    trt = compiled(model, x)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for result in pool.map(trt, [x, x + 1]):
            assert result.shape == (2, 4)
        assert_close(pool.submit(torch.no_grad()(lambda: trt(x))).result(), model(x))


@torch.no_grad()
def test_changing_the_model_afterwards_does_not_change_the_engine():
    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    expected = model(x)
    trt = compiled(model, x)
    for parameter in model.parameters():
        parameter.zero_()
    assert_close(trt(x), expected)


@torch.no_grad()
def test_modes_and_autocast_of_the_program_do_not_reach_into_an_engine():
    from torch.utils.flop_counter import FlopCounterMode

    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    trt, expected = compiled(model, x), model(x)
    with torch.autocast("cuda"):
        assert_close(trt(x), expected, rtol=0, atol=1e-6)
    with FlopCounterMode(display=False) as flops:
        trt(x)
    assert flops.get_total_flops() == 0
    with torch.autograd.profiler.profile() as profile:
        trt(x)
    names = {event.key for event in profile.key_averages()}
    assert names and "aten::addmm" not in names
    with torch.autograd.profiler.profile() as profile:
        x + 1
    assert "aten::add" in {event.key for event in profile.key_averages()}


@torch.no_grad()
def test_preallocated_outputs_and_the_output_allocator():
    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    trt, expected = compiled(model, x), model(x)
    with torch_tensorrt.runtime.enable_pre_allocated_outputs(trt):
        trt(x)
        assert_close(trt(x), expected)
    with torch_tensorrt.runtime.enable_output_allocator(trt):
        assert_close(trt(x), expected)


@torch.no_grad()
@pytest.mark.stand_in_only("on a real GPU, TensorRT need not build the same bytes twice")
def test_engine_bytes_do_not_depend_on_being_observed():
    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    first, second = (engines(compiled(model, x))[0].serialized_engine for _ in range(2))
    assert bytes(first) == bytes(second)


@pytest.mark.stand_in_only("refused")
def test_cuda_graphs_are_refused_by_name():
    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    trt = compiled(model, x)
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"CUDAGraph|cuda_graph_strategy"):
        with torch_tensorrt.runtime.enable_cudagraphs(trt) as graphed:
            graphed(x)


@pytest.mark.stand_in_only("refused")
def test_layer_times_and_layer_information_are_refused_by_name():
    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    (engine,) = engines(compiled(model, x))
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"tensorrt.IExecutionContext.profiler"):
        engine.enable_profiling()
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"tensorrt.ICudaEngine.create_engine_inspector"):
        engine.get_layer_info()


def test_no_file_is_left_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, x = seeded(Mlp), torch.randn(2, 16, device="cuda")
    compiled(model, x)(x)
    assert list(tmp_path.iterdir()) == []


class SizeAsNumber(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.token = torch.nn.Parameter(torch.randn(1, 1, 8))
        self.linear = torch.nn.Linear(8, 24)

    def forward(self, x):
        batch = x.shape[0]
        x = self.linear(torch.cat([self.token.expand(batch, -1, -1), x], dim=1))
        return x.reshape(batch, x.size(1), 3, -1)


@torch.no_grad()
def test_a_size_that_varies_is_a_number_the_engine_takes():
    model, x = seeded(SizeAsNumber), torch.randn(4, 5, 8, device="cuda")
    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(x, 0, min=2, max=32)
    trt = torch.compile(model, backend="tensorrt", options={"min_block_size": 1, "pass_through_build_failures": True})
    for batch in (x, torch.randn(7, 5, 8, device="cuda")):
        assert_close(trt(batch), model(batch))
