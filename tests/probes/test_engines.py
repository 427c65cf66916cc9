# SPDX-License-Identifier: Apache-2.0
"""Engines and their files: sizes, what a cache refused, and what the converters took."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from torchspan.base.scratch import Scratch
from torchspan.hooks.probes import Call
from torchspan.hooks.probes.describe import artifacts, build, cache, cache_neighbors, compilation, conversion
from torchspan.words import semconv

torch = pytest.importorskip("torch")


def called(*args, **kwargs):
    return Call(None, args, kwargs)


# --- sizes ------------------------------------------------------------------------------------------------------------
def test_the_size_of_a_file_is_read_by_a_text_or_a_path_and_of_nothing_else(tmp_path):
    file = tmp_path / "model.ep"
    file.write_bytes(b"12345")
    assert [artifacts.file_size(path) for path in (file, str(file))] == [5, 5]
    assert [
        artifacts.file_size(path) for path in (tmp_path, tmp_path / "none", "a\0b", str(file).encode(), 3, None)
    ] == [None] * 6


@pytest.mark.parametrize("name", ["path", "file_path"])
def test_the_size_of_a_file_that_is_loaded_is_said_whatever_its_argument_is_called(tmp_path, name):
    file = Path(tmp_path, "model.ep")
    file.write_bytes(b"12345")
    assert artifacts.load_mutable(called(**{name: file})) == {
        semconv.ENTRY_POINT: "torch_tensorrt.MutableTorchTensorRTModule.load",
        semconv.FILE_FORMAT: artifacts.MUTABLE,
        semconv.FILE_SIZE: 5,
    }


def test_the_engines_of_a_module_that_was_loaded_are_counted_with_their_bytes():
    module = torch.nn.Module()
    for name, serialized in (("_run_on_acc_0", b"123"), ("_run_on_acc_2", b"4567"), ("_run_on_gpu_1", b"8")):
        piece = torch.nn.Module()
        piece.serialized_engine = serialized
        module.add_module(name, piece)
    facts = artifacts.loaded(called(), SimpleNamespace(gm=module), Scratch())
    assert facts == {semconv.ENGINE_COUNT: 2, semconv.ENGINES_SIZE: 7}


@pytest.mark.parametrize("call", [called(object(), b"12345"), called(object(), serialized_engine=b"12345")])
def test_the_bytes_of_an_engine_are_found_by_position_and_by_name(call):
    assert build.serialized_engine(call)[semconv.ENGINE_SIZE] == 5


def test_a_refit_of_a_mutable_module_is_named_by_its_entry_and_its_model():
    facts = compilation.mutable_refit(called(self=SimpleNamespace(original_model=torch.nn.ReLU())))
    assert facts == {
        semconv.ENTRY_POINT: "torch_tensorrt.MutableTorchTensorRTModule",
        semconv.MODEL_CLASS: "ReLU",
    }


@pytest.mark.parametrize("by_name", [False, True])
def test_a_network_that_is_built_is_described_with_its_inputs_and_its_configuration(by_name):
    trt = pytest.importorskip("tensorrt_rtx")
    builder = trt.Builder(trt.Logger())
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    value = network.add_input("x", trt.float16, (1, 3))
    network.mark_output(network.add_activation(value, trt.ActivationType.RELU).get_output(0))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 20)
    call = called(builder, network=network, config=config) if by_name else called(builder, network, config)
    assert build.network_inputs(call) == {semconv.RUN_SHAPES: ["[1, 3]"], semconv.RUN_DTYPES: ["float16"]}
    facts = build.builder_config(call)
    assert (facts[semconv.NETWORK_LAYERS], facts[semconv.BUILDER_WORKSPACE]) == (1, 1 << 20)


# --- the cache --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("size", "total", "free", "before", "reason"),
    [
        (50, 40, 40, 40, "larger_than_cache"),
        (30, 40, 20, 20, "cache_full"),
        (10, 40, 20, 20, "write_failed"),
        (20, 40, 20, 20, "write_failed"),
        (10, 40, 10, 20, None),
        (10, 40, 20, None, None),
        (10, None, 20, 20, None),
        (None, 40, 20, 20, None),
    ],
)
def test_why_an_entry_was_not_stored_follows_from_the_space_of_the_cache(size, total, free, before, reason):
    own = SimpleNamespace(available_engine_cache_size=free, total_engine_cache_size=total)
    call, scratch = called(self=own, blob=None if size is None else bytes(size)), Scratch()
    call.before = before
    cache.count_saved(scratch, call, None, 0.0)
    assert scratch.get(cache.NOT_STORED) == reason


def test_space_that_was_freed_for_an_entry_counts_as_free_before():
    own = SimpleNamespace(available_engine_cache_size=30, total_engine_cache_size=40)
    scratch = Scratch()
    freeing = called(self=own)
    freeing.before = 10
    cache.count_freed(scratch, freeing, None, 0.0)
    assert scratch[cache.FREED] == 20
    saving = called(self=SimpleNamespace(available_engine_cache_size=25, total_engine_cache_size=40), blob=bytes(5))
    saving.before = 10
    cache.count_saved(scratch, saving, None, 0.0)
    assert scratch.get(cache.NOT_STORED) is None


def test_without_the_librarys_cache_no_folder_is_read(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch_tensorrt.dynamo._engine_cache", raising=False)
    own = SimpleNamespace(engine_cache_dir="/nowhere")
    assert cache_neighbors.facts(called(hash_val="abc", engine_cache=own)) == {}


# --- conversions ------------------------------------------------------------------------------------------------------
def graph_module(*stacks):
    """A graph with a call for each stack of modules."""
    graph = torch.fx.Graph()
    value = graph.placeholder("x")
    for stack in stacks:
        value = graph.call_function(torch.ops.aten.relu.default, (value,))
        value.meta["nn_module_stack"] = stack
    graph.output(value)
    return torch.fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize(
    ("stacks", "modules"),
    [
        ([], None),
        ([{"L['self']": ("L['self']", torch.nn.ReLU)}], None),
        ([{"a": ("L['self'].block", "app.Block")}], ["block"]),
        ([{"a": ("L['self'].block", "app.Block")}, {"b": ("G['model'].head", "app.Head")}], ["block", "head"]),
        ([{"a": ("block", "app.Block"), "b": ("block.conv", "torch.nn.modules.conv.Conv2d")}], ["block"]),
        ([{"a": ("conv", "torch.nn.modules.conv.Conv2d")}], ["conv"]),
        ([{"a": ("block.key.layer", "app.Layer")}], ["block.?.?"]),
        ([{"a": ("block", "app.Block"), "b": ("block.0.layer", "app.Layer")}], ["block.0.?"]),
    ],
)
def test_the_modules_of_an_engine_are_the_first_and_the_last_of_its_graph(stacks, modules):
    assert conversion.module_range(graph_module(*stacks)) == modules


def test_calls_of_converters_are_counted_with_their_time_and_other_nodes_are_not():
    scratch, nodes = Scratch(), list(graph_module({}, {}).graph.nodes)
    for node in nodes:
        conversion.count_converter(scratch, called(n=node), None, 0.5)
    conversion.count_converter(scratch, called(n="call_function"), None, 0.5)
    assert scratch[conversion.CONVERTERS] == {"torch.ops.aten.relu.default": [2, 1.0]}


def test_of_the_converters_the_slowest_come_first():
    scratch = Scratch()
    scratch[conversion.CONVERTERS] = {"a": [1, 0.1], "b": [2, 0.3]}
    own = SimpleNamespace(ctx=SimpleNamespace(net=SimpleNamespace(num_layers=7)))
    assert conversion.network(called(self=own), None, scratch) == {
        semconv.NETWORK_LAYERS: 7,
        semconv.CONVERTER_OPERATORS: ["b", "a"],
        semconv.CONVERTER_COUNTS: [2, 1],
        semconv.CONVERTER_DURATIONS: [0.3, 0.1],
    }


def test_what_is_handed_on_of_a_call_is_its_own_object_or_its_old_engine():
    own, engine = SimpleNamespace(engine="engine", serialized_engine=b"1"), object()
    call = called(self=own, old_engine=engine)
    assert conversion.module_itself(call) is own
    assert conversion.refitted_engine(call) is engine
    assert (conversion.engine_of_module(call), conversion.serialized_of(call)) == ("engine", b"1")
