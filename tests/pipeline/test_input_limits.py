# SPDX-License-Identifier: Apache-2.0
"""What real compiled and loaded modules say of the sizes that they were built for."""

import warnings

import pytest
import torch
import torch_tensorrt

from pipeline.expected import since_2_13
from support.tree import named
from torchspan.inputs.observed.signatures import signature_of
from torchspan.inputs.watched.compiled_limits import limits_of
from torchspan.inputs.watched.engine_limits import SizeRange

UP_TO_8, FOUR = SizeRange(1, 3, 8), SizeRange(4, 4, 4)
RELU, COS = torch.ops.aten.relu.default, torch.ops.aten.cos.default


class Parts(torch.nn.Module):
    """The first of two tensors goes into an engine, the other one into an operator of PyTorch's before."""

    def forward(self, x, parts, *, last=None):
        return torch.relu(x + parts["a"]) @ torch.cos(parts["b"][0]).T


def rows():
    return torch.ones(3, 4)


def limits(module):
    return limits_of(module, signature_of(module.forward))


def exported(model, args, shapes, **kwargs):
    return torch.export.export(model.eval(), args, kwargs, dynamic_shapes=shapes)


@pytest.fixture(scope="module")
def compiled():
    """`Parts`, whose cosine runs in PyTorch. The batch may have up to 8 rows."""
    batch, other = torch.export.Dim("batch", min=1, max=8), torch.export.Dim("other", min=2, max=6)
    args = (rows(), {"a": rows(), "b": [rows()]})
    program = exported(Parts(), args, ({0: batch}, {"a": {0: batch}, "b": [{0: other}]}, None), last=None)
    return torch_tensorrt.dynamo.compile(
        program, arg_inputs=args, kwarg_inputs={"last": None}, min_block_size=1, torch_executed_ops={COS}
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(False, marks=since_2_13, id="by surgery"),
        pytest.param(True, marks=since_2_13, id="exported again"),
    ],
)
def loaded(request, tmp_path_factory):
    """Up to 8 rows of 4 numbers, saved in either way and loaded again."""
    path = str(tmp_path_factory.mktemp("limits") / "relu.ep")
    shapes = ({0: torch.export.Dim("size", min=2, max=8)},)
    module = torch_tensorrt.dynamo.compile(
        exported(torch.nn.ReLU(), (rows(),), shapes), arg_inputs=[rows()], min_block_size=1
    )
    again = {"arg_inputs": [rows()], "dynamic_shapes": shapes} if request.param else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's surgery warns of its own node
        torch_tensorrt.save(module, path, retrace=request.param, **again)
    return torch_tensorrt.load(path).module()


def test_an_argument_that_goes_into_an_engine_has_the_range_of_the_engines_profile(compiled):
    assert limits(compiled).ranges["x",] == (UP_TO_8, FOUR)


def test_a_tensor_in_a_container_is_known_by_its_path(compiled):
    assert limits(compiled).ranges["parts", "a"] == (UP_TO_8, FOUR)


def test_an_argument_that_pytorch_gets_first_has_the_range_of_the_exported_program(compiled):
    assert limits(compiled).ranges["parts", "b", 0] == (SizeRange(1, 3, 6), FOUR)


def test_an_argument_that_is_not_a_tensor_has_no_range(compiled):
    assert limits(compiled).ranges.keys() == {("x",), ("parts", "a"), ("parts", "b", 0)}


def test_a_loaded_program_has_the_ranges_of_its_engines_profile(loaded):
    assert list(limits(loaded).ranges.values()) == [(UP_TO_8, FOUR)]


def test_without_a_readable_profile_the_range_of_the_program_counts(loaded, monkeypatch):
    """As in the C++ runtime, whose engine shows none."""
    for each in loaded.modules():
        for engine in vars(each).values():
            if hasattr(engine, "cuda_engine"):
                monkeypatch.setattr(engine, "in_binding_names", None)
    assert list(limits(loaded).ranges.values()) == [(UP_TO_8, FOUR)]


def test_a_module_that_is_not_a_graph_has_no_limits():
    assert limits(torch.nn.ReLU()) is None


def test_asking_a_module_for_its_limits_leaves_it_as_it_was(compiled):
    before, graph = dict(vars(compiled)), str(compiled.graph)
    limits(compiled)
    assert (dict(vars(compiled)), str(compiled.graph)) == (before, graph)


# --- a module that compiles itself again ------------------------------------------------------------------------------
def outside(span):
    """The dimensions outside that a span or an event names."""
    found = [
        span.attributes.get(f"torchspan.input.outside.{key}")
        for key in ("paths", "axes", "sizes", "minimums", "maximums")
    ]
    return list(zip(*found, strict=True)) if None not in found else None


def test_a_compilation_for_another_shape_says_what_in_the_call_did_not_fit(instrument, exporter, tracer):
    module = torch_tensorrt.MutableTorchTensorRTModule(torch.nn.ReLU().eval(), min_block_size=1)
    module(rows())
    instrument()
    with tracer.start_as_current_span("request"):
        module(torch.ones(5, 4))
    spans = exporter.get_finished_spans()
    compilation = named(spans, "torch_tensorrt.compile")
    assert outside(compilation) == [("input", 0, 5, 3, 3)]
    assert compilation.parent.span_id == named(spans, "request").context.span_id


def test_a_compilation_for_a_shape_outside_the_expected_range_names_that_range(instrument, exporter):
    module = torch_tensorrt.MutableTorchTensorRTModule(torch.nn.ReLU().eval(), min_block_size=1)
    module.set_expected_dynamic_shape_range(({0: torch.export.Dim("size", min=2, max=8)},), {})
    module(rows())
    instrument()
    module(torch.ones(8, 4))
    assert not exporter.get_finished_spans()
    module(torch.ones(9, 4))
    assert outside(named(exporter.get_finished_spans(), "torch_tensorrt.compile")) == [("input", 0, 9, 1, 8)]


def test_a_first_compilation_and_one_for_a_shape_that_fits_name_no_dimension(instrument, exporter):
    instrument()
    module = torch_tensorrt.MutableTorchTensorRTModule(torch.nn.Linear(4, 4).eval(), min_block_size=1)
    module(rows())
    module.compile()
    compilations = [each for each in exporter.get_finished_spans() if each.name == "torch_tensorrt.compile"]
    assert [outside(each) for each in compilations] == [None, None]
