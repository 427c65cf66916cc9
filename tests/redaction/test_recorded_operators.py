# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's callbacks see: how it is called here, and what of it leaves."""

import pytest

from torchspan.words.redaction.operator_text import Operator, RecordedOperator, operator_name

torch = pytest.importorskip("torch")

RANGES = {
    "TorchDynamo Cache Lookup": "torch.compile.cache_lookup",
    "PythonDispatchMode": "torch.PythonDispatchMode",
    "PythonSubclass": "torch.PythonSubclass",
    "<forward op>": "torchscript.forward",
    "<forked function>": "torchscript.forked_function",
    "Torch-Compiled Region: 7/3": "torch.compile.region",
    "## Call CompiledFxGraph abc123 ##": "torch.inductor.CompiledFxGraph",
    "Optimizer.step#SGD.step": "torch.optim.Optimizer.step",
    "Optimizer.zero_grad#SGD.zero_grad": "torch.optim.Optimizer.zero_grad",
    "autograd::engine::evaluate_function: AddmmBackward0": "autograd.engine.evaluate_function.AddmmBackward0",
    "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad": "autograd.engine.evaluate_function.AccumulateGrad",
    "autograd::engine::evaluate_function: CompiledFunctionBackward": "autograd.engine.evaluate_function.CompiledFunctionBackward",
    "torch::autograd::AccumulateGrad": "AccumulateGrad",
    "AddmmBackward0": "AddmmBackward0",
    "CompiledFunction": "CompiledFunction",
    "aten::add": "aten.add",
}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_of_pytorch_has_one_name_and_leaves(name):
    assert operator_name(name) == RANGES[name]
    assert RecordedOperator().reduced(RANGES[name]) == RANGES[name]


def test_an_operator_with_an_overload_is_called_as_in_graphs():
    assert operator_name("aten::add", "Tensor") == "aten.add.Tensor"


@pytest.mark.parametrize("name", ["patient_of_room_7", "Torch-Uncompiled Region", "autograd::wanda"])
def test_a_range_of_the_program_keeps_its_name_which_does_not_leave(name):
    assert operator_name(name) == name
    assert RecordedOperator().reduced(name) == "?"


def test_the_users_own_file_has_the_whole_name_of_a_range_at_most_256_bytes():
    kind = RecordedOperator()
    assert kind.is_local
    assert kind.whole("patient of room 7") == "patient of room 7"
    assert kind.whole("p" * 300) == "p" * 256
    assert kind.whole("p" * 255 + "é") == "p" * 255
    assert kind.whole("p\ud800") == "p?"


@pytest.mark.parametrize(
    "name",
    ["math.floor", "operator.mul", "_operator.getitem", "builtins.len", "torch.sym_max", "torch.nn.functional.relu"],
)
def test_a_function_of_a_library_that_graphs_have_leaves(name):
    assert Operator().reduced(name) == name


@pytest.mark.parametrize("name", ["os.getcwd", "pytest.raises", "math.wanda", "len", "torch.not_loaded.relu"])
def test_a_function_that_graphs_do_not_have_is_a_question_mark(name):
    assert Operator().reduced(name) == "?"


@pytest.mark.parametrize("name", ["placeholder", "get_attr", "call_function", "call_module", "call_method", "output"])
def test_a_kind_of_node_of_a_graph_leaves(name):
    assert Operator().reduced(name) == name
