# SPDX-License-Identifier: Apache-2.0
"""`export`: a program with the ranges of the calls, and what it says of dimensions that are not what was observed."""

import dataclasses

import pytest
import torch

from support.observed_calls import Add, Anything, Nested, Optional, Variadic, observed, ones, shapes
from torchspan.inputs import InputObserver


def ranges(exported):
    """The ranges of the program's symbols."""
    return sorted((int(each.lower), int(each.upper)) for each in exported.program.range_constraints.values())


def inputs(exported):
    """min, opt and max of each tensor that the program takes."""
    return [each and (each.min_shape, each.opt_shape, each.max_shape) for each in exported.inputs]


def example(exported):
    return shapes(exported.program.example_inputs)


class Specializes(torch.nn.Module):
    """Makes constants of the first dimensions of `x` and `y`."""

    def forward(self, x, y):
        if x.shape[0] == 7:
            x = x + 1
        return x, y.reshape(3, -1)


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_the_example_has_the_opt_shapes_and_the_program_the_ranges(strict):
    model = Add()
    observer = observed(model, *((ones(*each), ones(*each)) for each in [(2, 5), (4, 7), (4, 7), (3, 30)]))
    exported = observer.export(model, strict=strict)
    assert example(exported) == (((4, 7), (4, 7)), {})
    assert ranges(exported) == [(2, 4), (5, 30)]
    assert inputs(exported) == [((2, 5), (4, 7), (4, 30))] * 2
    assert exported.findings == ()
    assert exported.program.module()(ones(3, 6), ones(3, 6)).shape == (3, 6)


def test_a_profile_of_the_users_choice_is_exported():
    model = Anything()
    observer = observed(model, (ones(2, 3),), (ones(4, 3),))
    exported = observer.export(model, observer.infer_profile(headroom=1.0))
    assert ranges(exported) == [(2, 8)]


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_a_dimension_that_became_a_constant_is_reported(strict):
    model = Specializes()
    observer = observed(model, *((ones(rows, 4), ones(more, 4)) for rows, more in [(7, 3), (7, 3), (3, 6)]))
    x, y = observer.export(model, strict=strict).findings
    assert str(x) == (
        "x: Dimension 0, from 3 to 7 in the profile, became the constant 7. The code compares or computes with the "
        "size: change it, or call the program with this size alone. With TORCH_LOGS=dynamic, PyTorch logs the place."
    )
    assert (y.kind, y.path) == ("specialized", "y")
    assert "became the constant 3." in y.message


def test_what_a_specialized_program_takes_has_the_constant():
    model = Specializes()
    observer = observed(model, *((ones(rows, 4), ones(3, 4)) for rows in (7, 7, 5)))
    exported = observer.export(model)
    assert inputs(exported) == [((7, 4), (7, 4), (7, 4)), ((3, 4), (3, 4), (3, 4))]


def test_a_narrower_range_of_the_program_is_reported():
    class Branches(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] > 6 else x

    model = Branches()
    exported = observed(model, (ones(2, 4),), (ones(4, 4),), (ones(4, 4),), (ones(8, 4),)).export(model)
    (finding,) = exported.findings
    assert str(finding) == (
        "x: Dimension 0, from 2 to 8 in the profile, ranges from 2 to 6 in the program. It depends on the size of another "
        "dimension there, or the code compares it."
    )
    assert inputs(exported) == [((2, 4), (4, 4), (6, 4))]


def test_a_range_from_1_is_not_a_finding():
    model = Anything()
    exported = observed(model, (ones(1, 4),), (ones(3, 4),)).export(model)
    assert inputs(exported) == [((1, 4), (3, 4), (3, 4))]
    assert exported.findings == ()


# --- structure --------------------------------------------------------------------------------------------------------
@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


torch.export.register_dataclass(Pair, serialized_type_name="torchspan.tests.ExportedPair")

CONTAINERS = {
    "list of one": lambda rows: [ones(rows, 3)],
    "tuple": lambda rows: (ones(rows, 3), ones(rows, 2)),
    "dict of one": lambda rows: {"a": ones(rows, 3)},
    "list of lists": lambda rows: [[ones(rows, 3)], [ones(rows, 3), ones(2, 3)]],
    "list of dicts": lambda rows: [{"b": ones(rows, 3), "a": ones(2, 3)}],
    "with None": lambda rows: [None, ones(rows, 3)],
    "with a number": lambda rows: {"k": 5, "a": ones(rows, 3)},
    "dataclass": lambda rows: Pair(ones(rows, 3), ones(rows, 3)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_structure_is_exported_and_its_tensors_have_their_ranges(name):
    model = Nested()
    observer = observed(model, *((CONTAINERS[name](rows),) for rows in (2, 3, 3)))
    exported = observer.export(model)
    assert set(ranges(exported)) == {(2, 3)}
    tensors = [each for each in exported.inputs if each is not None]
    assert [each.path for each in tensors] == [each.path for each in exported.profile]
    assert all(each.max_shape[0] == 3 or each.max_shape == (2, 3) for each in tensors)
    assert exported.program.module()(CONTAINERS[name](2)).shape == ()


def test_an_argument_of_an_opaque_class_is_refused_with_what_to_do():
    observer = observed(Anything(), (ones(2), object()))
    with pytest.raises(RuntimeError, match="The argument other contains an object of the class object"):
        observer.export(Anything())


def test_keyword_arguments_go_by_keyword_in_any_order():
    model, observer = Optional(), InputObserver()
    with observer(model):
        for rows in (2, 3, 3):
            model(scale=2.0, y=ones(rows, 4), x=ones(rows, 4))
    exported = observer.export(model)
    assert example(exported) == ((), {"x": (3, 4), "y": (3, 4), "scale": 2.0})
    assert [each and each.name for each in exported.inputs] == ["x", "y", None]


def test_positional_arguments_without_a_parameter_are_exported():
    class Sum(torch.nn.Module):
        def forward(self, x, *others):
            return x + sum(others)

    model = Sum()
    exported = observed(model, *((ones(rows), ones(rows)) for rows in (2, 3))).export(model)
    assert [each.name for each in exported.inputs] == ["x", "others_0"]


@pytest.mark.skipif(
    torch.__version__ < (2, 14), reason="torch.export refuses dynamic shapes with `**kwargs` before 2.14"
)
def test_keyword_arguments_without_a_parameter_are_exported():
    model = Variadic()
    observer = observed(model, *({"x": ones(rows), "extra": ones(rows)} for rows in (2, 3)))
    exported = observer.export(model, strict=True)
    assert [each.name for each in exported.inputs] == ["x", "named_extra"]
    assert ranges(exported) == [(2, 3)]
    assert exported.program.module()(x=ones(2), extra=ones(2)).shape == (2,)


def test_a_batch_of_1_in_every_call_is_exported_with_an_example_of_2():
    model = Anything()
    observer = observed(model, (ones(1, 4),))
    exported = observer.export(model, observer.infer_profile(set_batch_dimension_for=True, headroom=7))
    assert example(exported) == (((2, 4),), {})
    assert inputs(exported) == [((1, 4), (2, 4), (16, 4))]
    assert [each.kind for each in exported.findings] == ["opt", "batch_of_1"]


# --- around it --------------------------------------------------------------------------------------------------------
def test_an_export_that_fails_raises_what_pytorch_raised():
    class Fails(torch.nn.Module):
        def forward(self, x):
            if torch.compiler.is_exporting():
                raise LookupError("no")
            return x

    observer = observed(Fails(), (ones(2),))
    with pytest.raises(LookupError, match="no"):
        observer.export(Fails())


def test_an_export_in_the_block_is_not_a_call():
    model, observer = Add(), InputObserver()
    with observer(model):
        model(ones(2), ones(2))
        observer.export(model)
    assert observer.num_obs() == 1
