# SPDX-License-Identifier: Apache-2.0
"""Engines whose outputs are not those of their graph: a tensor returned twice, a write to an input (a KV-cache update)."""

from __future__ import annotations

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.dynamo.conversion import convert_module

import torchspan.testing
from testing.models import (
    Mlp,
    ReturnsOneTensorTwice,
    WritesToItsBuffers,
    WritesToItsInput,
    assert_close,
    engines,
    seeded,
)
from torchspan.hooks.without_gpu._engine_folder import EngineFolder
from torchspan.hooks.without_gpu._reference import Binding, Reference, private_copy
from torchspan.hooks.without_gpu._runtime import StandInEngine

VERSION = tuple(int(part) for part in torch_tensorrt.__version__.split("+")[0].split(".")[:2])
KV_CACHE = pytest.mark.skipif(VERSION < (2, 14), reason="there are no engines that write to their inputs up to 2.13")


def compiled(model, *inputs, **settings):
    program = torch.export.export(model, inputs)
    return torch_tensorrt.dynamo.compile(program, arg_inputs=list(inputs), min_block_size=1, **settings)


def empty_cache():
    return torch.zeros(2, 4, 16, 8, device="cuda")


def update(factor=1):
    return torch.full((2, 4, 1, 8), float(factor), device="cuda")


@pytest.fixture(scope="module")
def writing():
    """WritesToItsInput, compiled."""
    return compiled(seeded(WritesToItsInput), empty_cache(), update())


@pytest.mark.stand_in_only("refused")
def test_an_engine_with_outputs_that_no_graph_explains_is_refused_with_both_counts():
    graph = torch.fx.symbolic_trace(Mlp())
    bindings = {
        name: Binding(is_input, "FLOAT", (2, 16)) for name, is_input in (("x", True), ("a", False), ("b", False))
    }
    context = StandInEngine(b"", Reference(graph, bindings, {})).create_execution_context()
    memory = {name: torch.zeros(2, 16) for name in bindings}
    for name, tensor in memory.items():
        context.set_tensor_address(name, tensor.data_ptr())
    with pytest.raises(torchspan.testing.NeedsGpuError, match="which cannot be matched with") as raised:
        context.execute_async_v3(0)
    assert raised.value.call == (
        "Running an engine with 2 outputs, which cannot be matched with the 1 outputs of its graph,"
    )


def test_a_tensor_that_the_graph_returns_twice_is_one_output_of_the_engine():
    x = torch.arange(3.0, device="cuda").reshape(1, 3)
    graph = torch.export.export(ReturnsOneTensorTwice(), (x,)).graph_module
    first, doubled = convert_module(graph, [torch_tensorrt.Input.from_tensor(x)])(x)
    assert first.tolist() == [[1, 2, 3]] and doubled.tolist() == [[2, 4, 6]]


@torch.no_grad()
@KV_CACHE
def test_an_engine_writes_to_the_memory_of_its_input(writing):
    model, cache, expected = seeded(WritesToItsInput), empty_cache(), empty_cache()
    for factor in (1, 2):
        assert_close(writing(cache, update(factor)), model(expected, update(factor)))
        assert_close(cache, expected)
    assert cache[:, :, 3].all() and not cache[:, :, 4].any()


@KV_CACHE
def test_an_engine_says_which_output_is_in_the_memory_of_which_input(writing):
    engine = engines(writing)[0].engine.cuda_engine
    assert [engine.get_aliased_input_tensor(name) for name in ("output0", "output1")] == [None, "cache"]


@torch.no_grad()
@KV_CACHE
def test_an_engine_writes_to_buffers_of_the_module():
    model, keys, values = seeded(WritesToItsBuffers), update(), torch.ones(2, 4, 2, 8, device="cuda")
    trt = compiled(model, keys, values)
    sums = [trt(keys, values), trt(2 * keys, 3 * values)]  # in a tuple each, where the module has buffers
    assert [float(total) for (total,) in sums] == [192, 512]
    assert [trt.keys.sum().item(), trt.values.sum().item()] == [128, 384]


@torch.no_grad()
@KV_CACHE
def test_a_refitted_engine_writes_to_its_input_with_the_new_weights():
    trt = compiled(seeded(WritesToItsInput), empty_cache(), update(), immutable_weights=False)
    new, cache, expected = WritesToItsInput().eval().cuda(), empty_cache(), empty_cache()
    program = torch.export.export(new, (cache, update()))
    refitted = torch_tensorrt.dynamo.refit_module_weights(trt, program, arg_inputs=[cache, update()])
    assert_close(refitted(cache, update()), new(expected, update()))
    assert_close(cache, expected)


@pytest.mark.stand_in_only("real engines have no reference")
@KV_CACHE
def test_a_file_of_an_engine_keeps_what_it_writes_and_where(writing, tmp_path):
    kept = engines(writing)[0].engine.cuda_engine.reference
    folder, key = EngineFolder(tmp_path), "0" * 64
    folder.write(key, kept)
    read = folder.read(key)
    assert (read.bindings, read.profiles, read.outputs) == (kept.bindings, kept.profiles, [0, "slice_scatter"])
    _, written = read.run([update(), empty_cache()])
    assert written[:, :, 3].all() and not written[:, :, 4].any()


@pytest.mark.stand_in_only("the engine is the stand-in's own")
def test_an_output_that_shows_an_input_is_as_before_the_engine_wrote_there():
    class ShowsTheOld(torch.nn.Module):
        def forward(self, cache, update):
            return torch.slice_scatter(cache, update, 0, 0, 1), cache[1:], cache[:1]

    graph = torch.fx.symbolic_trace(ShowsTheOld())
    sizes = {"cache": 2, "update": 1, "new": 2, "second": 1, "first": 1}
    bindings = {name: Binding(name in ("cache", "update"), "FLOAT", (size,)) for name, size in sizes.items()}
    context = StandInEngine(b"", Reference(graph, bindings, {})).create_execution_context()
    cache, update, first, second = torch.tensor([1.0, 2.0]), torch.tensor([3.0]), torch.zeros(1), torch.zeros(1)
    for name, tensor in zip(sizes, (cache, update, cache, second, first), strict=True):
        context.set_tensor_address(name, tensor.data_ptr())
    context.execute_async_v3(0)
    assert (cache.tolist(), first.tolist(), second.tolist()) == ([3, 2], [1], [2])


@pytest.mark.stand_in_only("the engine is the stand-in's own")
def test_the_size_of_an_output_depends_on_an_input_that_an_operator_takes_as_a_number():
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.ops.aten.arange.start_step, (0, graph.placeholder("end"), 1)),))
    bindings = {"end": Binding(True, "INT64", (1,)), "numbers": Binding(False, "INT64", (-1,))}
    reference = Reference(private_copy(torch.fx.GraphModule(torch.nn.Module(), graph)), bindings, {})
    context = StandInEngine(b"", reference).create_execution_context()
    end = torch.tensor([4])
    context.set_tensor_address("end", end.data_ptr())
    assert context.get_tensor_shape("numbers") == (4,)
    numbers = torch.zeros(4, dtype=torch.int64)
    context.set_tensor_address("numbers", numbers.data_ptr())
    context.execute_async_v3(0)
    assert numbers.tolist() == [0, 1, 2, 3]
