# SPDX-License-Identifier: Apache-2.0
"""Tensors, modules and graphs of the program's own classes are described by PyTorch's functions, and not by theirs."""

import pytest
import torch

from support.hostile import RAN, exits, hostile_class
from torchspan.hooks.probes import PROBES, Call
from torchspan.hooks.probes.describe import common, compilation, dynamic_shapes


@pytest.fixture(autouse=True)
def _nothing_has_run():
    RAN.clear()
    yield
    assert RAN == []


class Watching(torch.Tensor):
    """A tensor that PyTorch hands every question about it to."""

    @classmethod
    def __torch_function__(cls, *_args, **_kwargs):
        RAN.append("__torch_function__")
        raise SystemExit

    @property
    def shape(self):
        RAN.append("shape")
        raise SystemExit

    dtype = shape


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, *_args, **_kwargs):
        RAN.append("mode")
        raise SystemExit


class Dispatching(torch.Tensor):
    """A tensor that answers for its own sizes."""

    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(
            cls, (2, 3), dtype=torch.float32, dispatch_sizes_strides_policy="sizes"
        )

    @classmethod
    def __torch_dispatch__(cls, function, _types, _args=(), _kwargs=None):
        RAN.append(str(function))
        raise SystemExit


def watching():
    return torch.ones(2, 3).as_subclass(Watching)


def test_a_tensor_of_a_class_of_the_programs_is_described_by_pytorch():
    assert common.inputs([watching()]) == (["[2, 3]"], ["float32"])


@pytest.mark.fault("libraries", "a TorchFunctionMode of the program's")
def test_a_mode_of_the_programs_sees_no_question():
    tensors = [torch.ones(2, 3), torch.nn.Parameter(torch.ones(4, dtype=torch.float16))]
    with Mode():
        described = common.inputs(tensors)
    assert described == (["[2, 3]", "[4]"], ["float32", "float16"])


def test_a_tensor_that_answers_for_its_sizes_is_not_asked():
    assert common.inputs([Dispatching()]) == (["Dispatching"], ["Dispatching"])


def test_sizes_of_a_fake_tensor_are_known():
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = torch.empty(2, 3)
    assert common.inputs([fake]) == (["[2, 3]"], ["float32"])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def __getattr__(self, name):
        if name in {"layer", "training"}:
            return super().__getattr__(name)
        RAN.append(name)
        raise SystemExit

    @property
    def graph(self):
        RAN.append("graph")
        raise SystemExit

    def forward(self, x, *, scale=1):
        return self.layer(x) * scale


def test_a_model_is_known_by_its_class():
    assert common.model_class(Model()) == "Model"
    assert common.node_count(Model()) is None
    assert dynamic_shapes.parameters(Model()) == ["x", "scale"]


def test_a_compiled_model_hands_no_question_on():
    compiled = torch.compile(torch.nn.Linear(2, 2), backend="eager")
    compiled._modules["_orig_mod"] = Model()  # now: up to 2.13 torch.compile itself asks a model for names
    RAN.clear()
    assert common.model_class(compiled) == "OptimizedModule"
    assert compilation.torch_tensorrt_compiled(None, compiled, None) == {"torch_tensorrt.deferred": True}


def test_graphs_and_exported_programs_are_known_as_usual():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    traced = torch.fx.symbolic_trace(model)
    program = torch.export.export(model, (torch.ones(1, 2),))
    assert common.node_count(traced) == len(traced.graph.nodes)
    assert common.node_count(program) == len(program.graph.nodes)
    assert common.model_class(program) == "Sequential"
    assert [common.operator_name(each.target) for each in common.calls(program)] == ["torch.ops.aten.linear.default"]


def test_what_a_pass_has_noted_of_a_node_is_not_asked():
    hostile = object.__new__(hostile_class(exits))
    graph = torch.fx.Graph()
    given = graph.placeholder("x")
    node = graph.call_function(torch.relu, (given,))
    graph.output(node)
    node.meta = {"val": hostile, "nn_module_stack": {"": ("", hostile)}, "stack_trace": hostile}
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    vars(module)["original"] = hostile
    assert common.model_class(module) is None
    for probe in PROBES:
        start = getattr(probe.action, "start", None)
        if start is not None:
            call = Call(None, (module, module, module), {})
            start(call)
    assert RAN == []
