# SPDX-License-Identifier: Apache-2.0
"""Calls that an engine was not built for are refused as TensorRT refuses them, and no memory of the caller's is touched."""

from __future__ import annotations

import sys

import pytest
import torch
import torch_tensorrt

from testing.models import Mlp, assert_close, engines, seeded

pytestmark = pytest.mark.stand_in_only("how the C++ runtime refuses is tested by Torch-TensorRT")

REFUSED = (
    r"Set dimension \[{}\] for tensor x does not satisfy any optimization profiles. Valid range for profile 0: {}\.\)"
)
STATIC, RANGE = r"\[4,16\]\.\.\[4,16\]", r"\[1,16\]\.\.\[8,16\]"


def compiled(spec):
    return torch_tensorrt.compile(seeded(Mlp), ir="dynamo", inputs=[spec], min_block_size=1)


@pytest.fixture(scope="module")
def static():
    return compiled(torch.randn(4, 16, device="cuda"))


@pytest.fixture(scope="module")
def ranged():
    return compiled(torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), dtype=torch.float32))


@torch.no_grad()
@pytest.mark.parametrize("shape", [(9, 16), (5, 16), (2, 16), (4, 2, 16), (4, 15), (16,)], ids=str)
def test_an_engine_of_one_size_refuses_every_other_shape_and_then_runs_its_own(static, shape):
    with pytest.raises(RuntimeError, match=REFUSED.format(",".join(map(str, shape)), STATIC)):
        static(torch.ones(shape, device="cuda"))
    x = torch.randn(4, 16, device="cuda")
    assert_close(static(x), seeded(Mlp)(x))


@torch.no_grad()
@pytest.mark.parametrize("shape", [(9, 16), (0, 16), (4, 2, 16), (4, 17)], ids=str)
def test_an_engine_of_a_range_refuses_a_shape_outside_of_it_each_time(ranged, shape):
    for _ in range(2):
        with pytest.raises(RuntimeError, match=REFUSED.format(",".join(map(str, shape)), RANGE)):
            ranged(torch.ones(shape, device="cuda"))
    x = torch.randn(8, 16, device="cuda")
    assert_close(ranged(x), seeded(Mlp)(x))


class Context:
    """An execution context of an engine, as a program without Torch-TensorRT's runtime has it."""

    def __init__(self, module):
        trt = sys.modules["tensorrt"]

        class Errors(trt.ILogger):
            lines = []

            def log(self, severity, message):
                if severity == self.Severity.ERROR:
                    self.lines.append(message)

        self.errors, (module,) = Errors(), engines(module)
        self.engine = trt.Runtime(self.errors).deserialize_cuda_engine(module.serialized_engine)
        self.context = self.engine.create_execution_context()
        self.x, self.out = torch.ones(4, 16), torch.full((4, 4), 7.0)

    def bind(self, *names):
        for name in names:
            memory = self.x if name == "x" else self.out
            assert self.context.set_tensor_address(name, memory.data_ptr())

    def is_untouched(self):
        return bool((self.out == 7).all())


def test_a_context_answers_false_to_a_shape_and_to_a_run_with_it_and_writes_nothing(ranged):
    own = Context(ranged)
    own.bind("x", "output0")
    assert own.context.set_input_shape("x", (4, 16)) is True
    assert own.context.set_input_shape("x", (9, 16)) is False
    assert tuple(own.context.get_tensor_shape("output0")) == (4, 4)
    assert own.context.execute_async_v3(0) is False and own.is_untouched()
    assert [line.partition(": Error Code 3")[0] for line in own.errors.lines] == [
        "IExecutionContext::setInputShape"
    ] * 2
    assert own.context.set_input_shape("x", (4, 16)) is True
    assert own.context.execute_async_v3(0) is True and not own.is_untouched()


def test_a_run_without_the_shape_of_an_input_is_refused(ranged):
    own = Context(ranged)
    own.bind("x", "output0")
    assert own.context.execute_async_v3(0) is False and own.is_untouched()
    assert "Set dimension [-1,16] for tensor x" in own.errors.lines[0]


@pytest.mark.parametrize(("bound", "missing"), [("x", "output0"), ("output0", "x")])
def test_a_run_without_the_memory_of_a_tensor_is_refused(static, bound, missing):
    own = Context(static)
    own.bind(bound)
    assert own.context.execute_async_v3(0) is False and own.is_untouched()
    assert own.errors.lines == [f"Address is not set for {missing}."]


def exported(model, *inputs):
    return torch.export.export(model.eval().cuda(), inputs)


class Net(torch.nn.Module):
    def __init__(self, width=8, activation=torch.relu):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, width), torch.nn.Linear(width, 2)
        self.activation = activation

    def forward(self, x):
        return self.second(self.activation(self.first(x)))


@pytest.fixture(scope="module")
def refittable():
    x = torch.randn(4, 8, device="cuda")
    settings = {"min_block_size": 1, "immutable_weights": False}
    with torch.no_grad():
        return torch_tensorrt.dynamo.compile(exported(Net(), x), arg_inputs=[x], **settings)


@torch.no_grad()
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Net(16), "Refitting failed."),
        (lambda: Net(activation=torch.tanh), "Refitting failed."),
        (
            lambda: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)),
            "first/linear_weight CONSTANT is not found in weight mapping",
        ),
    ],
    ids=["another width", "another operator", "other names"],
)
def test_a_refit_to_more_than_other_values_of_the_weights_fails(refittable, make, message):
    x = torch.randn(4, 8, device="cuda")
    with pytest.raises(AssertionError) as raised:
        torch_tensorrt.dynamo.refit_module_weights(refittable, exported(make(), x), arg_inputs=[x])
    assert str(raised.value) == message
    new = Net().eval().cuda()
    assert_close(torch_tensorrt.dynamo.refit_module_weights(refittable, exported(new, x), arg_inputs=[x])(x), new(x))


@torch.no_grad()
def test_a_cached_engine_of_another_width_is_not_taken(tmp_path):
    settings = {
        "min_block_size": 1,
        "immutable_weights": False,
        "cache_built_engines": True,
        "reuse_cached_engines": True,
    }
    x, narrow, wide = torch.randn(4, 8, device="cuda"), torch.nn.Linear(8, 8), torch.nn.Linear(8, 24)
    for model in (narrow, wide):
        program = exported(model, x)
        if model is wide:  # Torch-TensorRT's hash is the same: it takes no account of the weights' sizes
            with pytest.raises(AssertionError, match="Refitting failed"):
                torch_tensorrt.dynamo.compile(program, arg_inputs=[x], engine_cache_dir=str(tmp_path), **settings)
        else:
            trt = torch_tensorrt.dynamo.compile(program, arg_inputs=[x], engine_cache_dir=str(tmp_path), **settings)
            assert_close(trt(x), model(x))


class Nested(torch.nn.Module):
    def forward(self, pair, options):
        return {"sum": pair[0] + options["bias"], "others": [pair[1] * 2, (pair[0] - 1,)]}


class Named(torch.nn.Module):
    def forward(self, x, *, scale):
        return {"scaled": x * scale}


@torch.no_grad()
@pytest.mark.parametrize(
    ("model", "arguments", "named"),
    [
        (Nested(), ((torch.ones(2, 3), torch.full((2, 3), 2.0)), {"bias": torch.full((2, 3), 5.0)}), {}),
        (Named(), (torch.ones(2, 3),), {"scale": torch.full((2, 3), 4.0)}),
    ],
    ids=["nested arguments", "a keyword and a dictionary"],
)
def test_an_engine_of_a_whole_program_has_flat_inputs_and_outputs_and_runs(model, arguments, named):
    program = torch.export.export(model.eval().cuda(), arguments, named)
    convert = torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine
    plan = convert(program, arg_inputs=arguments, kwarg_inputs=named, min_block_size=1, require_full_compilation=True)
    trt = sys.modules["tensorrt"]
    engine = trt.Runtime(torch_tensorrt.logging.TRT_LOGGER).deserialize_cuda_engine(bytes(plan))
    context, given = engine.create_execution_context(), iter(torch.utils._pytree.tree_leaves((arguments, named)))
    outputs = []
    for name in (engine.get_tensor_name(index) for index in range(engine.num_io_tensors)):
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            tensor = next(given)
        else:
            outputs.append(tensor := torch.empty(tuple(context.get_tensor_shape(name))))
        context.set_tensor_address(name, tensor.data_ptr())
    assert context.execute_async_v3(0)
    for got, expected in zip(outputs, torch.utils._pytree.tree_leaves(model(*arguments, **named)), strict=True):
        assert_close(got, expected)
