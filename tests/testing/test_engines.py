# SPDX-License-Identifier: Apache-2.0
"""Engines outlive their compile: save, load, copy, cache, refit."""

from __future__ import annotations

import copy
import io
import sys

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.dynamo.conversion import convert_module

import torchspan.testing
from testing.models import (
    Doubles,
    Mlp,
    ReturnsOneTensorTwice,
    WithFallback,
    WritesToItsBuffers,
    WritesToItsInput,
    engines,
    seeded,
)
from torchspan.testing import _engines, _switch
from torchspan.testing._reference import Binding, Reference
from torchspan.testing._runtime import Engine

VERSION = tuple(int(part) for part in torch_tensorrt.__version__.split("+")[0].split(".")[:2])
KV_CACHE = pytest.mark.skipif(VERSION < (2, 14), reason="there are no engines that write to their inputs up to 2.13")
REFITTABLE = {"min_block_size": 1, "immutable_weights": False}


def other_weights():
    torch.manual_seed(1)
    return Mlp().eval().cuda()


def compiled_from(program, *inputs, **settings):
    return torch_tensorrt.dynamo.compile(program, arg_inputs=list(inputs), **{"min_block_size": 1, **settings})


@pytest.fixture
def x():
    return torch.randn(2, 16, device="cuda")


@torch.no_grad()
# The warning is torch_tensorrt's, when it does not retrace.
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")
@pytest.mark.skipif(VERSION < (2, 13), reason="saving runs the runtime module on fake tensors up to 2.12")
@pytest.mark.parametrize("retrace", [True, False])
def test_a_saved_module_loads_and_runs(tmp_path, x, retrace):
    model = seeded(Mlp)
    trt = compiled_from(torch.export.export(model, (x,)), x)
    torch_tensorrt.save(trt, str(tmp_path / "m.ep"), arg_inputs=[x], retrace=retrace)
    loaded = torch_tensorrt.load(str(tmp_path / "m.ep")).module()
    torch.testing.assert_close(loaded(x), model(x))


@torch.no_grad()
# The warning is torch_tensorrt's, when it puts the engines into the graph that it exports again.
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")
@pytest.mark.skipif(VERSION < (2, 13), reason="saving runs the runtime module on fake tensors up to 2.12")
@pytest.mark.parametrize("make", [Doubles, WithFallback])
def test_a_module_saved_with_dynamic_shapes_runs_at_other_sizes(tmp_path, x, make):
    model, shapes = seeded(make), ({0: torch.export.Dim("batch", min=2, max=8)},)
    spec = torch_tensorrt.Input(min_shape=(2, 16), opt_shape=(4, 16), max_shape=(8, 16))
    trt = compiled_from(torch.export.export(model, (x,), dynamic_shapes=shapes), spec)
    torch_tensorrt.save(trt, str(tmp_path / "m.ep"), arg_inputs=[x], retrace=True, dynamic_shapes=shapes)
    loaded = torch_tensorrt.load(str(tmp_path / "m.ep")).module()
    for batch in (2, 5, 8):
        y = torch.randn(batch, 16, device="cuda")
        torch.testing.assert_close(loaded(y), model(y))


@torch.no_grad()
@pytest.mark.skipif(VERSION < (2, 13), reason="exporting runs the runtime module on fake tensors up to 2.12")
def test_sizes_of_an_exported_engines_outputs_stay_symbols(x):
    shapes = ({0: torch.export.Dim("batch", min=2, max=8)},)
    spec = torch_tensorrt.Input(min_shape=(2, 16), opt_shape=(4, 16), max_shape=(8, 16))
    trt = compiled_from(torch.export.export(seeded(Doubles), (x,), dynamic_shapes=shapes), spec)
    nodes = torch.export.export(trt, (x,), dynamic_shapes=shapes).graph.nodes
    (batch,) = (node.meta["val"].shape[0] for node in nodes if node.name == "x")
    ((twice, flat),) = (node.meta["val"] for node in nodes if "execute_engine" in node.name)
    assert str(twice.shape[0]) == f"2*{batch}" and str(flat.shape[0]) == f"4*{batch}"


@torch.no_grad()
@pytest.mark.skipif(VERSION < (2, 14), reason="engine modules cannot be pickled: locks of 2.13, Dims of 2.12")
def test_copies_and_pickles_of_a_compiled_module_run(x):
    model = seeded(Mlp)
    trt = compiled_from(torch.export.export(model, (x,)), x)
    torch.testing.assert_close(copy.deepcopy(trt)(x), model(x))
    file = io.BytesIO()
    torch.save(trt, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(x), model(x))


@torch.no_grad()
def test_refitting_changes_the_numbers_and_the_bytes(x):
    model, new = seeded(Mlp), other_weights()
    # Up to 2.12 only modules of the Python runtime can be refitted, and have to be asked for.
    settings = {} if VERSION >= (2, 13) else {"use_python_runtime": True}
    trt = compiled_from(torch.export.export(model, (x,)), x, immutable_weights=False, **settings)
    before = bytes(engines(trt)[0].serialized_engine)
    refitted = torch_tensorrt.dynamo.refit_module_weights(trt, torch.export.export(new, (x,)), arg_inputs=[x])
    torch.testing.assert_close(refitted(x), new(x))
    assert bytes(engines(refitted)[0].serialized_engine) != before
    torch.testing.assert_close(copy.deepcopy(refitted)(x), new(x))


@torch.no_grad()
def test_a_mutable_module_follows_its_weights_and_shapes(x):
    model, new = seeded(Mlp), other_weights()
    mutable = torch_tensorrt.MutableTorchTensorRTModule(model, **REFITTABLE)
    torch.testing.assert_close(mutable(x), seeded(Mlp)(x))
    mutable.load_state_dict(new.state_dict())
    torch.testing.assert_close(mutable(x), new(x))
    y = torch.randn(5, 16, device="cuda")
    torch.testing.assert_close(mutable(y), new(y))


@torch.no_grad()
@pytest.mark.parametrize("strip", [False, True])
def test_a_cache_hit_with_other_weights_returns_their_numbers(tmp_path, x, strip, monkeypatch):
    builds = []
    builder = sys.modules["tensorrt"].Builder
    build = builder.build_serialized_network
    monkeypatch.setattr(builder, "build_serialized_network", lambda *args: builds.append(1) or build(*args))
    cache = {"cache_built_engines": True, "reuse_cached_engines": True, "engine_cache_dir": str(tmp_path)}
    for model in (seeded(Mlp), other_weights()):
        program = torch.export.export(model, (x,))
        trt = compiled_from(program, x, **REFITTABLE, **cache, strip_engine_weights=strip)
        if not strip:
            torch.testing.assert_close(trt(x), model(x))
    assert builds == [1]


def test_bytes_that_are_no_engine_are_answered_as_by_tensorrt():
    trt = sys.modules["tensorrt"]
    assert trt.Runtime(torch_tensorrt.logging.TRT_LOGGER).deserialize_cuda_engine(b"not an engine") is None


def test_an_engine_with_outputs_that_no_graph_explains_is_refused_with_both_counts():
    graph = torch.fx.symbolic_trace(Mlp())
    bindings = {
        name: Binding(is_input, "FLOAT", (2, 16)) for name, is_input in (("x", True), ("a", False), ("b", False))
    }
    context = Engine(b"", Reference(graph, bindings, {})).create_execution_context()
    x = torch.zeros(2, 16)
    context.set_tensor_address("x", x.data_ptr())
    with pytest.raises(torchspan.testing.NeedsGpuError, match="more outputs than its graph") as raised:
        context.execute_async_v3(0)
    assert raised.value.call == (
        "Running an engine with more outputs than its graph (2, not 1), unknown which is which,"
    )


def test_a_tensor_that_the_graph_returns_twice_is_one_output_of_the_engine():
    x = torch.arange(3.0, device="cuda").reshape(1, 3)
    graph = torch.export.export(ReturnsOneTensorTwice(), (x,)).graph_module
    first, doubled = convert_module(graph, [torch_tensorrt.Input.from_tensor(x)])(x)
    assert first.tolist() == [[1, 2, 3]] and doubled.tolist() == [[2, 4, 6]]


@torch.no_grad()
@KV_CACHE
def test_an_engine_writes_to_the_memory_of_its_input():
    model, cache, update = seeded(WritesToItsInput), torch.zeros(2, 4, 16, 8), torch.ones(2, 4, 1, 8)
    trt = compiled_from(torch.export.export(model, (cache, update)), cache, update)
    expected = cache.clone()
    for factor in (1, 2):
        torch.testing.assert_close(trt(cache, factor * update), model(expected, factor * update))
        torch.testing.assert_close(cache, expected)
    assert cache[:, :, 3].all() and not cache[:, :, 4].any()


@torch.no_grad()
@KV_CACHE
def test_an_engine_says_which_output_is_in_the_memory_of_which_input():
    cache, update = torch.zeros(2, 4, 16, 8), torch.ones(2, 4, 1, 8)
    trt = compiled_from(torch.export.export(seeded(WritesToItsInput), (cache, update)), cache, update)
    engine = engines(trt)[0].engine.cuda_engine
    assert [engine.get_aliased_input_tensor(name) for name in ("output0", "output1")] == [None, "cache"]


@torch.no_grad()
@KV_CACHE
def test_an_engine_writes_to_buffers_of_the_module():
    model, keys, values = seeded(WritesToItsBuffers), torch.ones(2, 4, 1, 8), torch.ones(2, 4, 2, 8)
    trt = compiled_from(torch.export.export(model, (keys, values)), keys, values)
    sums = [trt(keys, values), trt(2 * keys, 3 * values)]  # in a tuple each, where the module has buffers
    assert [float(total) for (total,) in sums] == [192, 512]
    assert [trt.keys.sum().item(), trt.values.sum().item()] == [128, 384]


@torch.no_grad()
@KV_CACHE
def test_a_refitted_engine_writes_to_its_input_with_the_new_weights():
    model, cache, update = seeded(WritesToItsInput), torch.zeros(2, 4, 16, 8), torch.ones(2, 4, 1, 8)
    trt = compiled_from(torch.export.export(model, (cache, update)), cache, update, immutable_weights=False)
    new, expected = WritesToItsInput().eval(), cache.clone()
    program = torch.export.export(new, (cache, update))
    refitted = torch_tensorrt.dynamo.refit_module_weights(trt, program, arg_inputs=[cache, update])
    torch.testing.assert_close(refitted(cache, update), new(expected, update))
    torch.testing.assert_close(cache, expected)


@KV_CACHE
def test_an_output_that_shows_an_input_is_as_before_the_engine_wrote_there():
    class ShowsTheOld(torch.nn.Module):
        def forward(self, cache, update):
            return torch.slice_scatter(cache, update, 0, 0, 1), cache[1:], cache[:1]

    graph = torch.fx.symbolic_trace(ShowsTheOld())
    shapes = {
        "cache": (True, (2,)),
        "update": (True, (1,)),
        "new": (False, (2,)),
        "b": (False, (1,)),
        "a": (False, (1,)),
    }
    bindings = {name: Binding(is_input, "FLOAT", shape) for name, (is_input, shape) in shapes.items()}
    context = Engine(b"", Reference(graph, bindings, {})).create_execution_context()
    cache, update, a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0]), torch.zeros(1), torch.zeros(1)
    for name, tensor in (("cache", cache), ("update", update), ("new", cache), ("a", a), ("b", b)):
        context.set_tensor_address(name, tensor.data_ptr())
    context.execute_async_v3(0)
    assert (cache.tolist(), a.tolist(), b.tolist()) == ([3, 2], [1], [2])


def test_an_engine_of_another_process_says_what_to_do():
    runtime = sys.modules["tensorrt"].Runtime(torch_tensorrt.logging.TRT_LOGGER)
    with pytest.raises(torchspan.testing.UnknownEngineError, match=r"built in another process.*engine_dir=") as raised:
        runtime.deserialize_cuda_engine(b"vtrt" + bytes(100))
    assert isinstance(raised.value, torchspan.testing.WithoutGpuError)


def test_the_stand_ins_say_so_and_lack_what_the_real_thing_lacks(x):
    (module,) = engines(compiled_from(torch.export.export(seeded(Mlp), (x,)), x))
    runtime = sys.modules["tensorrt"].Runtime(torch_tensorrt.logging.TRT_LOGGER)
    assert runtime.deserialize_cuda_engine.__torchspan_stand_in__
    engine = runtime.deserialize_cuda_engine(module.serialized_engine)
    context = engine.create_execution_context()
    assert type(engine).__torchspan_stand_in__ and type(context).__torchspan_stand_in__
    assert type(engine.create_runtime_config()).__torchspan_stand_in__
    assert engine.num_io_tensors == 2 and engine.get_tensor_name(0) == "x"
    assert not hasattr(engine, "no_such_method") and not hasattr(context, "__array__")
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"tensorrt.ICudaEngine.profiling_verbosity"):
        _ = engine.profiling_verbosity
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"tensorrt.IExecutionContext.set_aux_streams"):
        context.set_aux_streams([])
    with pytest.raises(torchspan.testing.NeedsGpuError, match=r"Refitter.refit_cuda_engine"):
        sys.modules["tensorrt"].Refitter(engine, None).refit_cuda_engine()


@torch.no_grad()
@pytest.mark.skipif(VERSION < (2, 14), reason="engine modules cannot be pickled: locks of 2.13, Dims of 2.12")
def test_an_engine_folder_carries_engines_between_processes(python, tmp_path, monkeypatch):
    monkeypatch.setattr(_engines, "_folder", None)
    monkeypatch.setattr(_switch, "_engine_dir", None)
    torchspan.testing.without_gpu(engine_dir=tmp_path / "engines")
    model, x = seeded(Mlp), torch.arange(32.0, device="cuda").reshape(2, 16)
    trt = compiled_from(torch.export.export(model, (x,)), x)
    torch.save((trt, x, model(x)), tmp_path / "model.pt")
    program = """
import torchspan.testing
torchspan.testing.without_gpu(engine_dir="engines")
import torch, torch_tensorrt
module, x, expected = torch.load("model.pt", weights_only=False)
print(torch.allclose(module(x), expected))
"""
    assert python(program).splitlines()[-1] == "True"
    assert [p.suffix for p in (tmp_path / "engines").iterdir()] == [".pt"]


@KV_CACHE
def test_an_engine_folder_keeps_what_an_engine_writes_and_where(tmp_path, monkeypatch):
    monkeypatch.setattr(_engines, "_folder", None)
    _engines.share(tmp_path / "engines")
    cache, update = torch.zeros(2, 4, 16, 8), torch.ones(2, 4, 1, 8)
    trt = compiled_from(torch.export.export(seeded(WritesToItsInput), (cache, update)), cache, update)
    kept = engines(trt)[0].engine.cuda_engine.reference
    (file,) = (tmp_path / "engines").iterdir()
    read = _engines._read(file)
    assert (read.bindings, read.profiles, read.outputs) == (kept.bindings, kept.profiles, kept.outputs)
    _, written = read.run([update, cache])
    assert read.outputs == [0, "slice_scatter"] and written[:, :, 3].all() and not written[:, :, 4].any()
