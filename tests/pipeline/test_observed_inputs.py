# SPDX-License-Identifier: Apache-2.0
"""What was observed goes through Torch-TensorRT: the profile of the engine that was built is what was inferred."""

import pytest
import torch
import torch_tensorrt
from torch_tensorrt.dynamo.partitioning.common import construct_submodule_inputs

from pipeline.expected import VERSION
from support.observed_calls import ones
from support.tree import named
from torchspan.inputs import InputObserver

SIZES = [(1, 5), (4, 7), (4, 7), (4, 7), (4, 9), (2, 30)]
RANGE = ((1, 5), (4, 7), (4, 30))
SMALLEST = 2 if VERSION >= (2, 14) else 3
"""Before 2.14 a lower limit of 2 becomes 1, whatever `compile` is given."""

names_dimensions = pytest.mark.skipif(VERSION < (2, 13), reason="torch_tensorrt.Input has no shared_dims before 2.13")


class Masked(torch.nn.Module):
    def forward(self, x, mask):
        return torch.relu(x * mask)


class Cached(torch.nn.Module):
    """Takes what `trace` cannot: pairs in a list, and a number."""

    def forward(self, x, past, scale):
        return torch.relu(x * past[0][0] + past[0][1]) * scale


def engine_profiles(compiled):
    """min, opt and max of each input of the one engine, by its name."""
    if VERSION < (2, 13):
        (module,) = (each for each in compiled.modules() if hasattr(each, "input_names"))
        names, engine = module.input_names, module.engine
    else:
        (module,) = (each for each in compiled.modules() if hasattr(each, "input_binding_names"))
        names, engine = module.input_binding_names, module.engine.cuda_engine
    # TensorRT has a list of its own type for dimensions, the stand-in tuples.
    return {name: tuple(map(tuple, engine.get_tensor_profile_shape(name, 0))) for name in names}


def by_keyword(model, x, mask):
    return model(mask=mask, x=x)


FORMS = {
    "positional": [lambda model, x, mask: model(x, mask)],
    "keyword": [by_keyword],
    "mixed": [lambda model, x, mask: model(x, mask=mask), by_keyword, lambda model, x, mask: model(x, mask)],
}


def observe(form, order=1):
    model, observer = Masked(), InputObserver()
    with observer(model):
        for number, sizes in enumerate(SIZES[::order]):
            FORMS[form][number % len(FORMS[form])](model, ones(*sizes), ones(*sizes))
    return model, observer


@names_dimensions
@pytest.mark.parametrize(("form", "order"), [("positional", 1), ("keyword", -1), ("mixed", 1), ("mixed", -1)])
def test_the_profile_of_the_exported_graph_is_what_was_observed(form, order):
    model, observer = observe(form, order)
    program = torch_tensorrt.dynamo.trace(model, **observer.to_torch_tensorrt())
    inputs = construct_submodule_inputs(program.module())
    assert [tuple(each.shape[f"{name}_shape"] for name in ("min", "opt", "max")) for each in inputs] == [RANGE, RANGE]


@names_dimensions
def test_the_engine_is_built_for_what_was_observed(instrument, exporter):
    model, observer = observe("mixed")
    inputs = observer.to_torch_tensorrt()
    instrument()
    program = torch_tensorrt.dynamo.trace(model, **inputs)
    compiled = torch_tensorrt.dynamo.compile(program, **inputs, min_block_size=1)
    assert engine_profiles(compiled) == {"x": RANGE, "mask": RANGE}
    conversion = named(exporter.get_finished_spans(), "torch_tensorrt.convert")
    assert conversion.attributes["torch.inputs.shapes"] == ("[1..4..4, 5..7..30]",) * 2
    for sizes in ((1, 5), (4, 30), (3, 6)):
        x = torch.randn(*sizes)
        torch.testing.assert_close(compiled(x, mask=ones(*sizes)), model(x, ones(*sizes)))


@names_dimensions
def test_what_the_program_text_makes_is_the_same():
    model, observer = observe("keyword")
    text = observer.infer_profile().to_python()
    made = {}
    exec(text.partition("compiled = ")[0], {"model": model}, made)
    expected = observer.to_torch_tensorrt()
    assert made["arg_inputs"] == expected["arg_inputs"] == ()
    for name, each in expected["kwarg_inputs"].items():
        assert str(made["kwarg_inputs"][name]) == str(each)
        assert (made["kwarg_inputs"][name].name, made["kwarg_inputs"][name].shared_dims) == (
            each.name,
            each.shared_dims,
        )
    assert {(int(each.lower), int(each.upper)) for each in made["program"].range_constraints.values()} == {
        (1, 4),
        (5, 30),
    }


@names_dimensions
def test_dictionaries_and_lists_of_tensors_go_through_trace():
    class Nested(torch.nn.Module):
        def forward(self, x, parts):
            return x + parts["a"][0] + parts["b"]["c"]

    model, observer = Nested(), InputObserver()
    with observer(model):
        for rows in (2, 3, 3, 5):
            model(ones(rows, 4), {"a": [ones(rows, 4)], "b": {"c": ones(rows, 4)}})
    program = torch_tensorrt.dynamo.trace(model, **observer.to_torch_tensorrt())
    assert program.module()(ones(4, 4), parts={"a": [ones(4, 4)], "b": {"c": ones(4, 4)}}).shape == (4, 4)
    assert [(int(each.lower), int(each.upper)) for each in program.range_constraints.values()] == [(2, 5)]


def test_an_engine_of_an_exported_model_has_the_profile_whatever_the_structure():
    model, observer = Cached(), InputObserver()
    with observer(model):
        for rows in (SMALLEST, 4, 4, 5):
            model(ones(rows, 4), [(ones(rows, 4), ones(rows, 4))], 2)
    with pytest.raises(RuntimeError, match="cannot take the argument past"):
        observer.infer_profile().to_python()
    exported = observer.export(model)
    compiled = torch_tensorrt.dynamo.compile(exported.program, **exported.to_torch_tensorrt(), min_block_size=1)
    expected = ((SMALLEST, 4), (4, 4), (5, 4))
    assert engine_profiles(compiled) == {"x": expected, "past_0_0": expected, "past_0_1": expected}
    x, past = torch.randn(5, 4), [(torch.randn(5, 4), torch.randn(5, 4))]
    torch.testing.assert_close(compiled(x, past, 2), model(x, past, 2))


def test_equal_dimensions_are_refused_where_torch_tensorrt_cannot_name_them(monkeypatch):
    monkeypatch.delattr(torch_tensorrt.Input, "shared_dims", raising=False)  # as before 2.13
    with pytest.raises(
        RuntimeError, match=r"cannot declare these dimensions as equal, which 2.13 can: x\[0\], mask\[0\]"
    ):
        observe("mixed")[1].to_torch_tensorrt()


def test_torch_compile_builds_the_engine_for_what_was_observed(instrument, exporter):
    model, observer = Masked(), InputObserver()
    with observer(model):
        for rows in (3, 7, 7, 30):
            model(ones(rows, 4), ones(rows, 4))
    instrument()
    compiled = torch.compile(model, backend="tensorrt", options={"min_block_size": 1})
    x, mask = ones(5, 4), ones(5, 4)
    assert observer.mark_dynamic((x, mask)) == 2
    compiled(x, mask)
    conversion = named(exporter.get_finished_spans(), "torch_tensorrt.convert")
    assert conversion.attributes["torch.inputs.shapes"] == ("[3..7..30, 4]",) * 2
