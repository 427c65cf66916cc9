# SPDX-License-Identifier: Apache-2.0
"""`infer_dynamic_shapes`: which dimensions vary, in the structure that torch.export takes."""

import dataclasses

import pytest
import torch

from support.observed_calls import Add, Anything, Nested, Optional, Variadic, observed, ones
from torchspan.inputs import InputObserver

DYNAMIC = torch.export.Dim.DYNAMIC


def test_a_dimension_that_varies_is_dynamic():
    observer = observed(Add(), (ones(2, 3), ones(3)), (ones(4, 3), ones(3)))
    assert observer.infer_dynamic_shapes() == ({0: DYNAMIC}, {})


def test_every_call_counts():
    observer = observed(Anything(), *((ones(rows),) for rows in (2, 2, 2, 9, 17)))
    assert observer.infer_dynamic_shapes() == ({0: DYNAMIC},)


@pytest.mark.parametrize("given", [{"x"}, {0}, ["x"], ("x",)])
def test_the_first_dimension_of_a_named_argument_is_dynamic(given):
    observer = observed(Add(), (ones(2, 3), ones(2, 3)))
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=given) == ({0: DYNAMIC}, {})


def test_the_first_dimension_of_all_arguments_is_dynamic():
    observer = observed(Nested(), ([ones(2, 3), torch.tensor(1.0)],))
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=True) == ([{0: DYNAMIC}, {}],)


@pytest.mark.parametrize(("given", "error"), [({"z"}, ValueError), ({7}, ValueError), ("x", TypeError), (3, TypeError)])
def test_arguments_that_do_not_exist_are_refused(given, error):
    with pytest.raises(error, match="set_batch_dimension_for"):
        observed(Add(), (ones(2), ones(2))).infer_dynamic_shapes(set_batch_dimension_for=given)


def test_dimensions_have_the_names_that_were_given():
    observer = observed(Add(), (ones(2, 6), ones(1, 6)), (ones(7, 8), ones(1, 8)))
    assert observer.infer_dynamic_shapes(dim_names={"x": {0: "batch"}}) == (
        {0: "batch", 1: "x_dim_1"},
        {1: "y_dim_1"},
    )
    assert observer.infer_dynamic_shapes(dim_names={0: {0: "batch", 1: "seq"}}) == (
        {0: "batch", 1: "seq"},
        {1: "y_dim_1"},
    )


def test_all_dimensions_get_names():
    observer = observed(Nested(), ([ones(2), {"a": ones(2)}],), ([ones(3), {"a": ones(4)}],))
    assert observer.infer_dynamic_shapes(dim_names=True) == ([{0: "items_0_dim_0"}, {"a": {0: "items_1_a_dim_0"}}],)


@pytest.mark.parametrize(("given", "error"), [({"z": {}}, ValueError), ("x", TypeError)])
def test_names_for_arguments_that_do_not_exist_are_refused(given, error):
    with pytest.raises(error, match="dim_names"):
        observed(Add(), (ones(2), ones(2))).infer_dynamic_shapes(dim_names=given)


def test_a_constant_is_none():
    observer = observed(Optional(), (ones(2), None, 3.0), (ones(3), None, 3.0))
    assert observer.infer_dynamic_shapes() == ({0: DYNAMIC}, None, None)


def test_variadic_arguments_are_below_the_names_of_their_parameters():
    observer, model = InputObserver(), Variadic()
    with observer(model):
        model(ones(2), ones(2), extra=ones(2))
        model(ones(3), ones(3), extra=ones(3))
    assert observer.infer_dynamic_shapes() == {
        "x": {0: DYNAMIC},
        "others": ({0: DYNAMIC},),
        "named": {"extra": {0: DYNAMIC}},
    }


def test_an_object_of_a_registered_class_is_a_list():
    from transformers.modeling_outputs import BaseModelOutput

    calls = [(BaseModelOutput(last_hidden_state=ones(rows, 3)),) for rows in (2, 3)]
    assert observed(Nested(), *calls).infer_dynamic_shapes() == ([{0: DYNAMIC}],)


# --- with torch.export -----------------------------------------------------------------------------------------------
def exported_sizes(model, observer):
    """Export from what was inferred: how many sizes the program leaves open."""
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    program = torch.export.export(model, args, kwargs, dynamic_shapes=observer.infer_dynamic_shapes())
    return len(program.range_constraints)


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


torch.export.register_dataclass(Pair, serialized_type_name="torchspan.tests.Pair")

CONTAINERS = {
    "list of one": lambda rows: [ones(rows, 3)],
    "tuple of one": lambda rows: (ones(rows, 3),),
    "dict of one": lambda rows: {"a": ones(rows, 3)},
    "list of lists": lambda rows: [[ones(rows, 3), ones(rows, 3)], [ones(rows, 3)]],
    "list with None": lambda rows: [ones(rows, 3), None],
    "list with a number": lambda rows: [ones(rows, 3), 5],
    "empty list alongside a list": lambda rows: {"a": [], "b": [ones(rows, 3), ones(rows, 3)]},
    "dataclass": lambda rows: Pair(ones(rows, 3), ones(rows, 3)),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_what_is_inferred_of_a_container_exports(name):
    model = Nested()
    observer = observed(model, *((CONTAINERS[name](rows),) for rows in (2, 3, 3)))
    assert exported_sizes(model, observer) >= 1


@pytest.mark.parametrize("form", ["positional", "keyword", "mixed"])
def test_what_is_inferred_exports_whatever_form_the_calls_had(form):
    model = Optional()
    calls = {
        "positional": lambda rows: model(ones(rows, 3), ones(rows, 3), 2.0),
        "keyword": lambda rows: model(scale=2.0, y=ones(rows, 3), x=ones(rows, 3)),
        "mixed": lambda rows: model(ones(rows, 3), scale=2.0, y=ones(rows, 3)),
    }
    observer = InputObserver()
    with observer(model):
        for rows in (1, 4, 4):
            calls[form](rows)
    assert exported_sizes(model, observer) == 1


def test_what_is_inferred_of_variadic_positional_arguments_exports():
    class Sum(torch.nn.Module):
        def forward(self, x, *others):
            return x + sum(others)

    model = Sum()
    observer = observed(model, *((ones(rows), ones(rows), ones(rows)) for rows in (2, 3)))
    assert exported_sizes(model, observer) == 1
