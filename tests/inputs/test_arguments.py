# SPDX-License-Identifier: Apache-2.0
"""`infer_arguments`: in which form, from which call, and with what in place of what a call lacks."""

from typing import NamedTuple

import pytest
import torch

from support.observed_calls import Add, Anything, Nested, Optional, Variadic, observed, ones, shapes
from torchspan.inputs import InputObserver


# --- the form --------------------------------------------------------------------------------------------------------
def test_positional_arguments_are_a_tuple():
    observer = observed(Add(), (ones(2, 3), ones(3)))
    assert shapes(observer.infer_arguments()) == ((2, 3), (3,))


def test_keyword_arguments_are_a_dictionary_in_the_order_of_the_signature():
    observer = observed(Add(), {"y": ones(3), "x": ones(2, 3)})
    arguments = observer.infer_arguments()
    assert (shapes(arguments), [*arguments]) == ({"x": (2, 3), "y": (3,)}, ["x", "y"])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_positional_keyword_and_mixed_calls_give_one_answer_in_any_order(order):
    calls = [
        lambda model: model(ones(2, 3), ones(2, 3)),
        lambda model: model(ones(4, 3), y=ones(4, 3)),
        lambda model: model(y=ones(5, 3), x=ones(5, 3)),
    ]
    observer, model = InputObserver(), Add()
    with observer(model):
        for index in order:
            calls[index](model)
    dynamic = torch.export.Dim.DYNAMIC
    assert sorted(observer.infer_arguments()) == ["x", "y"]
    assert observer.infer_dynamic_shapes() == {"x": {0: dynamic}, "y": {0: dynamic}}


def test_both_forms_at_once_are_args_and_kwargs():
    observer, model = InputObserver(), Optional()
    with observer(model):
        model(ones(2), y=ones(2))
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    assert (shapes(args), shapes(kwargs)) == (((2,),), {"y": (2,)})


def test_a_default_value_that_was_passed_is_left_out():
    observer = observed(Optional(), {"x": ones(2), "scale": 1.0, "y": None})
    assert shapes(observer.infer_arguments()) == ((2,),) or shapes(observer.infer_arguments()) == {"x": (2,)}


def test_a_default_value_before_another_positional_argument_is_kept():
    observer = observed(Optional(), (ones(2), None, 3.0))
    assert shapes(observer.infer_arguments()) == ((2,), None, 3.0)


def test_a_number_that_is_not_the_default_is_kept():
    observer = observed(Optional(), {"x": ones(2), "scale": 3.0})
    assert shapes(observer.infer_arguments()) == {"x": (2,), "scale": 3.0}


def test_a_keyword_without_a_default_that_is_a_number_is_kept():
    class Model(torch.nn.Module):
        def forward(self, x, *, times, power=None):
            return x * times

    observer = observed(Model(), {"x": ones(2), "times": 3, "power": 2})
    assert shapes(observer.infer_arguments()) == {"x": (2,), "times": 3, "power": 2}


def test_none_for_an_argument_without_a_default_is_kept():
    observer = observed(Anything(), {"x": None, "other": ones(2)})
    assert shapes(observer.infer_arguments()) == {"x": None, "other": (2,)}


def test_variadic_arguments_need_both_forms():
    observer = InputObserver()
    model = Variadic()
    with observer(model):
        model(ones(2), ones(2), ones(2), extra=ones(2))
    with pytest.raises(
        RuntimeError, match=r"because the signature has `\*args`.*infer_arguments\(as_args_kwargs=True\)"
    ):
        observer.infer_arguments()
    args, kwargs = observer.infer_arguments(as_args_kwargs=True)
    assert (shapes(args), shapes(kwargs)) == (((2,), (2,), (2,)), {"extra": (2,)})


def test_variadic_positional_arguments_alone_are_a_tuple():
    observer = observed(Variadic(), (ones(2), ones(2), ones(1)))
    assert shapes(observer.infer_arguments()) == ((2,), (2,), (1,))


def test_variadic_keyword_arguments_are_in_the_dictionary():
    observer = observed(Variadic(), {"x": ones(2), "extra": ones(2)})
    assert shapes(observer.infer_arguments()) == {"x": (2,), "extra": (2,)}


# --- the call --------------------------------------------------------------------------------------------------------
def test_the_example_is_the_most_frequent_shape():
    observer = observed(Anything(), *((ones(rows),) for rows in (2, 7, 3, 7, 5)))
    assert shapes(observer.infer_arguments()) == ((7,),)


def test_the_example_has_no_size_of_one_where_sizes_vary():
    observer = observed(Anything(), *((ones(rows, 1),) for rows in (1, 1, 1, 4)))
    assert shapes(observer.infer_arguments()) == ((4, 1),)


def test_a_size_of_one_that_every_full_call_has_becomes_a_larger_observed_one():
    calls = [{"x": ones(2, 5)}, {"x": ones(2, 1), "other": ones(4)}, {"x": ones(2, 1), "other": ones(5)}]
    observer = observed(Anything(), *calls)
    assert shapes(observer.infer_arguments()) == {"x": (2, 5), "other": (4,)}
    assert shapes(observer.infer_arguments(calls[1])) == {"x": (2, 1), "other": (4,)}


def test_a_size_that_was_a_sum_grows_with_its_part():
    class Model(torch.nn.Module):
        def forward(self, ids, mask, past=None):
            return ids

    calls = [{"ids": ones(5), "mask": ones(5)}] + [
        {"ids": ones(1), "mask": ones(past + 1), "past": ones(past)} for past in (5, 6)
    ]
    assert shapes(observed(Model(), *calls).infer_arguments()) == {"ids": (5,), "mask": (10,), "past": (5,)}


def test_the_example_is_one_real_combination_of_sizes():
    calls = [(ones(2, 8),), (ones(2, 8),), (ones(4, 9),), (ones(5, 9),), (ones(6, 9),)]
    assert shapes(observed(Anything(), *calls).infer_arguments()) == ((2, 8),)


def test_given_positional_arguments_are_taken_as_they_are():
    observer = observed(Optional(), (ones(2), ones(2)))
    x = ones(2)
    arguments = observer.infer_arguments((x,))
    assert arguments[0] is x
    assert shapes(arguments) == ((2,), (2,))


def test_given_keyword_arguments_are_taken_as_they_are():
    observer = observed(Optional(), {"x": ones(2), "y": ones(2)})
    y = ones(2)
    assert observer.infer_arguments({"x": ones(2), "y": y})["y"] is y


def test_given_values_are_used_where_every_call_had_the_default():
    observer = observed(Optional(), {"x": ones(2)})
    assert shapes(observer.infer_arguments({"x": ones(2), "scale": 3.0})) == {"x": (2,), "scale": 3.0}


@pytest.mark.parametrize("given", ["x", True, 1, [1]])
def test_another_type_than_a_tuple_or_a_dictionary_is_refused(given):
    with pytest.raises(TypeError, match="infer_arguments takes a tuple of arguments or a dictionary of them"):
        observed(Anything(), (ones(2),)).infer_arguments(given)


def test_given_tensors_without_data_are_refused():
    with torch._subclasses.FakeTensorMode():
        fake = torch.empty(2)
    with pytest.raises(ValueError, match="infer_arguments was given a tensor without data"):
        observed(Anything(), (ones(2),)).infer_arguments((fake,))


def test_given_arguments_that_do_not_fit_the_signature_are_refused():
    with pytest.raises(ValueError, match=r"do not fit the signature \(x, other\)"):
        observed(Anything(), (ones(2),)).infer_arguments({"z": ones(2)})


def test_types_and_devices_are_those_of_the_call():
    observer = observed(Add(), (ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool)))
    x, y = observer.infer_arguments()
    assert (x.dtype, y.dtype, x.device.type) == (torch.int64, torch.bool, "cpu")


# --- what a call lacks -----------------------------------------------------------------------------------------------
def test_an_argument_that_some_calls_lack_is_in_the_example():
    observer = observed(Optional(), (ones(3),), (ones(3),), (ones(2), ones(2)))
    assert shapes(observer.infer_arguments()) == ((2,), (2,))


def test_what_given_arguments_lack_has_the_shape_of_the_most_similar_call():
    observer = observed(Anything(), (ones(2), ones(4)), (ones(3), ones(6)), (ones(3),))
    assert shapes(observer.infer_arguments((ones(3),))) == ((3,), (6,))


def test_a_size_that_always_equalled_another_one_follows_it():
    observer = observed(Add(), (ones(2, 5), ones(2, 1)), (ones(3, 5), ones(3, 1)))
    assert shapes(observer.infer_arguments({"x": ones(7, 5)})) in [{"x": (7, 5), "y": (7, 1)}, ((7, 5), (7, 1))]


def test_sizes_that_were_equal_by_chance_do_not_follow():
    observer = observed(Anything(), (ones(4), ones(4)), (ones(5),))
    assert shapes(observer.infer_arguments((ones(5),))) == ((5,), (4,))


def test_a_number_that_a_call_lacks_is_its_default_where_a_later_argument_goes_by_position():
    class Model(torch.nn.Module):
        def forward(self, x, scale=1.0, y=None):
            return x

    observer = observed(Model(), (ones(2), 3.0, ones(4)), (ones(2),))
    assert shapes(observer.infer_arguments((ones(2),))) == ((2,), 1.0, (4,))


def test_a_number_that_given_arguments_lack_is_the_observed_one():
    class Model(torch.nn.Module):
        def forward(self, x, times):
            return x * times

    assert shapes(observed(Model(), (ones(2), 3)).infer_arguments((ones(5),))) == ((5,), 3)


def test_none_in_a_container_is_filled_from_a_call_that_has_a_tensor_there():
    observer = observed(Nested(), ([ones(2), None],), ([None, ones(3)],))
    assert shapes(observer.infer_arguments(([ones(2), None],))) == ([(2,), (3,)],)
    assert shapes(observer.infer_arguments(([None, ones(3)],))) == ([(2,), (3,)],)


@pytest.mark.parametrize("empty", [None, [], (), {}, [None]])
def test_an_empty_container_is_a_missing_argument(empty):
    observer = observed(Anything(), (ones(2), empty), (ones(2), [ones(4), ones(4)]))
    assert shapes(observer.infer_arguments((ones(2), empty))) == ((2,), [(4,), (4,)])


def test_an_argument_that_is_empty_in_every_call_is_kept_as_it_is():
    assert shapes(observed(Anything(), (ones(2), [])).infer_arguments()) == ((2,), [])


# --- containers ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "items",
    [
        [torch.ones(2)],
        (torch.ones(2),),
        {"a": torch.ones(2)},
        [[torch.ones(2)], [torch.ones(3), torch.ones(4)]],
        {"b": [torch.ones(2)], "a": (torch.ones(3), {"c": torch.ones(4)})},
        torch.return_types.max((torch.ones(2), torch.ones(3))),
    ],
    ids=["list", "tuple", "dict", "lists", "nested", "named tuple"],
)
def test_a_container_comes_back_as_it_was(items):
    observer = observed(Nested(), (items,))
    (found,) = observer.infer_arguments()
    assert type(found) is type(items)
    assert shapes(found) == shapes(items)


def test_a_named_tuple_of_the_program_comes_back_as_one():
    class Pair(NamedTuple):
        first: torch.Tensor
        second: torch.Tensor

    (found,) = observed(Nested(), (Pair(ones(2), ones(3)),)).infer_arguments()
    assert (type(found), found.first.shape, found.second.shape) == (Pair, (2,), (3,))


def test_an_object_of_a_registered_class_comes_back_as_one():
    from transformers.modeling_outputs import BaseModelOutput

    (found,) = observed(Nested(), (BaseModelOutput(last_hidden_state=ones(2, 3)),)).infer_arguments()
    assert (type(found), found.last_hidden_state.shape) == (BaseModelOutput, (2, 3))


def test_an_object_that_cannot_be_built_is_named_with_what_to_do():
    class Box:
        pass

    observer = observed(Anything(), (ones(2), [Box()]))
    with pytest.raises(
        RuntimeError,
        match=r"The argument other\[0\] contains an object of the class Box, .*remove_inputs\(\['other'\]\)",
    ):
        observer.infer_arguments()
    box = Box()
    assert observer.infer_arguments((ones(2), [box]))[1] == [box]


# --- value_if_missing ------------------------------------------------------------------------------------------------
def test_a_value_for_a_missing_argument_gives_its_shape():
    observer = observed(Anything(), (ones(2),), (ones(3),), value_if_missing={"other": ones(4, 5)})
    assert shapes(observer.infer_arguments()) in [{"x": (2,), "other": (4, 5)}, ((2,), (4, 5))]


def test_a_value_for_a_missing_argument_does_not_replace_a_given_one():
    observer = observed(Anything(), (ones(2), ones(3)), (ones(2), ones(3)), value_if_missing={1: ones(9)})
    assert shapes(observer.infer_arguments()) == ((2,), (3,))
    assert observer.infer_dynamic_shapes() == ({}, {})


def test_a_value_for_a_missing_argument_makes_its_dimensions_vary():
    observer = observed(Anything(), (ones(2), ones(3)), (ones(2),), value_if_missing={"other": ones(0)})
    assert shapes(observer.infer_arguments()) == ((2,), (3,))
    assert observer.infer_dynamic_shapes() == ({}, {0: torch.export.Dim.DYNAMIC})


def test_a_value_for_a_missing_argument_does_not_reach_the_model():
    seen = []

    class Model(torch.nn.Module):
        def forward(self, x, other=None):
            seen.append(other)

    observed(Model(), (ones(2),), value_if_missing={"other": ones(3)})
    assert seen == [None]


# --- remove_inputs ---------------------------------------------------------------------------------------------------
def test_removed_arguments_are_in_nothing_that_is_inferred():
    observer = observed(Optional(), {"x": ones(2), "y": ones(2)}, {"x": ones(3), "y": ones(3)}, {"x": ones(4)})
    assert observer.remove_inputs(["y"]) == 2
    assert shapes(observer.infer_arguments()) == {"x": (2,)}
    assert observer.infer_dynamic_shapes() == {"x": {0: torch.export.Dim.DYNAMIC}}


def test_an_argument_is_removed_by_its_position():
    observer = observed(Optional(), (ones(2), ones(2)))
    assert observer.remove_inputs([1]) == 1
    assert shapes(observer.infer_arguments()) == ((2,),)


def test_shapes_that_are_the_same_without_a_removed_argument_count_together():
    observer = observed(
        Optional(), (ones(3), ones(1)), (ones(2), ones(2)), (ones(2), ones(1)), (ones(3), ones(3)), (ones(3),)
    )
    observer.remove_inputs(["y"])
    assert shapes(observer.infer_arguments()) == ((3,),)


def test_a_name_that_the_signature_cannot_take_is_ignored():
    observer = observed(Optional(), {"x": ones(2), "scale": 2.0}, {"x": ones(3)})
    assert observer.remove_inputs(["cache_position", "scale"]) == 1
    assert shapes(observer.infer_arguments()) == {"x": (2,)}


def test_a_name_that_no_call_has_yet_is_left_out_of_later_calls():
    model = Variadic()
    observer = observed(model, {"x": ones(2)})
    assert observer.remove_inputs(["cache_position"]) == 0
    with observer(model):
        model(x=ones(2), cache_position=ones(2))
    assert shapes(observer.infer_arguments()) == {"x": (2,)}


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("x", TypeError, r"such as \['x'\], not a string"),
        (["named"], ValueError, "remove_inputs cannot remove 'named', which takes several arguments"),
        (["others"], ValueError, "remove_inputs cannot remove 'others', which takes several arguments"),
        ([7], ValueError, "no argument has position 7"),
        ([None], TypeError, "takes names"),
    ],
)
def test_what_cannot_be_removed_is_refused(names, error, message):
    observer = observed(Variadic(), (ones(2), ones(2)))
    with pytest.raises(error, match=message):
        observer.remove_inputs(names)
