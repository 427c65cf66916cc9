# SPDX-License-Identifier: Apache-2.0
"""`infer_profile`: smallest, usual and largest sizes for an engine, and what is said of them."""

import enum

import pytest
import torch

from support.observed_calls import Add, Anything, Nested, Optional, Variadic, observed, ones
from torchspan.inputs import InputObserver
from torchspan.inputs.observed.observations import SHAPES_LIMIT

IDS = torch.int64


def ids(*sizes):
    return ones(*sizes, dtype=IDS)


def seen(*sizes, **options):
    """An observer that has seen a tensor `x` of each of these shapes."""
    return observed(Anything(), *((ones(*each),) for each in sizes), **options)


def ranges(profile):
    """min, opt and max of each tensor, by its name."""
    return {each.name: (each.min_shape, each.opt_shape, each.max_shape) for each in profile}


def found(profile):
    return [(each.kind, each.path) for each in profile.findings]


def message(profile, kind):
    (finding,) = (each for each in profile.findings if each.kind == kind)
    return finding.message


# --- min, opt, max ----------------------------------------------------------------------------------------------------
SIZES = [(1, 5), (4, 7), (4, 7), (4, 7), (4, 9), (2, 30)]
FORMS = {
    "positional": [lambda model, x, y: model(x, y)],
    "keyword": [lambda model, x, y: model(y=y, x=x)],
    "mixed": [lambda model, x, y: model(x, y=y)],
    "one after the other": [
        lambda model, x, y: model(x, y),
        lambda model, x, y: model(x, y=y),
        lambda model, x, y: model(y=y, x=x),
    ],
}


@pytest.mark.parametrize("order", [1, -1], ids=["forth", "back"])
@pytest.mark.parametrize("form", FORMS)
def test_a_profile_is_the_smallest_most_frequent_and_largest_sizes_in_any_form_and_order(form, order):
    model, observer = Add(), InputObserver()
    with observer(model):
        for number, sizes in enumerate(SIZES[::order]):
            FORMS[form][number % len(FORMS[form])](model, ids(*sizes), ids(*sizes))
    profile = observer.infer_profile()
    assert ranges(profile) == {"x": ((1, 5), (4, 7), (4, 30)), "y": ((1, 5), (4, 7), (4, 30))}
    assert [each.dtype for each in profile] == [IDS, IDS]
    assert (profile.calls, profile.calls_at_opt, profile.calls_outside) == (6, 3, 0)
    assert found(profile) == []


def test_opt_is_a_combination_that_occurred():
    sizes = [(2, 9), (2, 8), (2, 7), (3, 5), (3, 5), (4, 9)]
    assert ranges(seen(*sizes).infer_profile())["x"] == ((2, 5), (3, 5), (4, 9))


def test_opt_has_sizes_of_at_least_2_in_the_dimensions_that_vary():
    profile = seen((1, 4), (1, 4), (1, 4), (3, 4)).infer_profile()
    assert ranges(profile)["x"] == ((1, 4), (3, 4), (3, 4))
    assert profile.calls_at_opt == 1


def test_a_size_of_1_that_does_not_vary_is_left():
    assert ranges(seen((1, 4), (1, 5)).infer_profile())["x"] == ((1, 4), (1, 4), (1, 5))


def test_of_equally_frequent_combinations_the_first_is_opt():
    assert ranges(seen((3,), (2,), (5,)).infer_profile())["x"] == ((2,), (3,), (5,))


def test_where_no_call_can_be_opt_it_is_composed_with_a_finding():
    observer = observed(Add(), (ones(1, 4), ones(8, 4)), (ones(8, 4), ones(1, 4)))
    profile = observer.infer_profile()
    assert ranges(profile) == {"x": ((1, 4), (8, 4), (8, 4)), "y": ((1, 4), (8, 4), (8, 4))}
    assert profile.calls_at_opt == 0
    assert found(profile) == [("opt", "")]


def test_a_range_from_0_begins_with_1_with_a_finding():
    profile = seen((0, 4), (3, 4), (5, 4), (3, 4)).infer_profile()
    assert ranges(profile)["x"] == ((1, 4), (3, 4), (5, 4))
    assert profile.calls_outside == 1
    assert message(profile, "size_0") == (
        "Dimension 0 has the size 0 in 1 call. TensorRT takes no empty tensor: the range begins with 1, and such calls must "
        "not reach the engine."
    )


def test_sizes_0_and_1_alone_are_not_a_range():
    (tensor,) = seen((0, 4), (1, 4)).infer_profile()
    assert (tensor.min_shape, tensor.opt_shape, tensor.max_shape, tensor.is_dynamic) == ((1, 4), (1, 4), (1, 4), False)


def test_a_dimension_that_does_not_vary_says_in_how_many_calls():
    (tensor,) = seen((2, 8), (3, 8), (3, 8)).infer_profile()
    assert [str(each) for each in tensor.dimensions] == ["2 to 3 in 3 calls, 2 sizes", "8 in all 3 calls"]


def test_without_calls_there_is_no_profile():
    with pytest.raises(RuntimeError, match="No call was observed"):
        InputObserver().infer_profile()


# --- limits -----------------------------------------------------------------------------------------------------------
def test_a_percentile_leaves_the_largest_sizes_outside_and_says_how_many_calls():
    sizes = [(2,)] * 10 + [(8,)] * 85 + [(500,)] * 5
    profile = seen(*sizes).infer_profile(percentile=95)
    assert ranges(profile)["x"] == ((2,), (8,), (8,))
    assert profile.calls_outside == 5
    assert message(profile, "outside") == (
        "5 of 100 calls (5.0%) have a size outside of the ranges. The engine raises there: run such calls with the model itself."
    )


def test_opt_is_within_the_percentile():
    sizes = [(2,), (3,), (4,), (5,), (90,), (90,)]
    assert ranges(seen(*sizes).infer_profile(percentile=60))["x"] == ((2,), (2,), (5,))


def test_a_percentile_that_leaves_one_size_makes_the_dimension_constant():
    profile = seen(*[(2,)] * 9, (3,)).infer_profile(percentile=90)
    assert ranges(profile)["x"] == ((2,), (2,), (2,))
    assert profile.calls_outside == 1


def test_headroom_goes_above_the_largest_size_of_what_varies():
    assert ranges(seen((2, 10), (3, 30)).infer_profile(headroom=0.1))["x"] == ((2, 10), (2, 10), (4, 33))
    assert ranges(seen((2, 10), (2, 30)).infer_profile(headroom=0.1))["x"] == ((2, 10), (2, 10), (2, 33))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"percentile": 0}, ValueError, "percentile must be above 0 and at most 100, not 0"),
        ({"percentile": 101}, ValueError, "percentile must be above 0 and at most 100, not 101"),
        ({"percentile": "95"}, TypeError, "percentile must be a number, not '95'"),
        ({"headroom": -0.1}, ValueError, "headroom must be a share of the largest size, 0 or more, not -0.1"),
        ({"headroom": float("nan")}, ValueError, "headroom must be a share"),
        ({"headroom": True}, TypeError, "headroom must be a number, not True"),
        ({"set_batch_dimension_for": {"z"}}, ValueError, "set_batch_dimension_for: there is no argument 'z'"),
    ],
)
def test_options_are_checked(options, error, text):
    with pytest.raises(error, match=text):
        seen((2,)).infer_profile(**options)


# --- shared dimensions ------------------------------------------------------------------------------------------------
def shared(profile):
    return {each.name: str(each) for each in profile.shared}


def test_dimensions_that_were_equal_in_every_call_share_a_name_and_say_on_how_many_sizes():
    calls = [(ids(*each), ids(*each)) for each in SIZES]
    profile = observed(Add(), *calls).infer_profile()
    assert shared(profile) == {
        "d0": "x[0], y[0]: equal in every call, 3 sizes",
        "d1": "x[1], y[1]: equal in every call, 4 sizes",
    }
    assert [each.shared_dims for each in profile] == [{0: "d0", 1: "d1"}, {0: "d0", 1: "d1"}]


def test_one_size_is_not_evidence():
    profile = observed(Add(), (ones(4, 2), ones(4, 1)), (ones(4, 3), ones(4, 1))).infer_profile()
    assert profile.shared == ()


def test_one_call_in_which_dimensions_differ_is_enough_to_keep_them_apart():
    calls = [(ones(rows), ones(rows)) for rows in (2, 3, 4, 5)]
    assert observed(Add(), *calls, (ones(6), ones(1))).infer_profile().shared == ()


def test_dimensions_of_one_tensor_share_a_name():
    assert shared(seen((2, 2), (5, 5)).infer_profile()) == {"d0": "x[0], x[1]: equal in every call, 2 sizes"}


def test_an_argument_that_is_missing_in_some_calls_shares_what_it_had_in_the_others():
    observer = observed(Optional(), (ones(2), ones(2)), (ones(3), ones(3)), (ones(9),))
    profile = observer.infer_profile()
    assert shared(profile) == {"d0": "x[0], y[0]: equal in every call, 2 sizes"}
    assert ranges(profile) == {"x": ((2,), (2,), (9,)), "y": ((2,), (2,), (9,))}
    assert found(profile) == [("optional", "y")]


def test_equality_is_not_known_where_calls_beyond_the_limit_are_ranges():
    calls = [(ones(rows), ones(rows)) for rows in range(2, SHAPES_LIMIT + 3)]
    profile = observed(Add(), *calls).infer_profile()
    assert ranges(profile) == {"x": ((2,), (2,), (1_026,)), "y": ((2,), (2,), (1_026,))}
    assert profile.shared == ()
    assert found(profile) == [("beyond_limit", "")]


# --- a first dimension that is said to vary ---------------------------------------------------------------------------
def test_a_batch_of_one_size_gets_a_range_from_1():
    profile = seen((4, 8), (4, 8)).infer_profile(set_batch_dimension_for={"x"})
    assert ranges(profile)["x"] == ((1, 8), (4, 8), (4, 8))
    assert found(profile) == []


def test_a_batch_of_1_in_every_call_is_a_finding():
    observer = seen((1, 8), (1, 8))
    assert observer.findings() == []
    (finding,) = observer.findings(set_batch_dimension_for=True)
    assert str(finding) == (
        "x: Dimension 0 is to vary, but had the size 1 in every call. torch.export treats 1 as a constant. Observe larger "
        "batches, or call infer_arguments with an example of a larger batch."
    )
    profile = observer.infer_profile(set_batch_dimension_for=True, headroom=3)
    assert ranges(profile)["x"] == ((1, 8), (2, 8), (8, 8))
    assert message(profile, "batch_of_1").endswith("The range is 1 to 8: observe larger batches, or give headroom.")


def test_a_batch_that_varies_in_the_calls_is_as_observed():
    assert ranges(seen((1, 8), (4, 8)).infer_profile({"x"}))["x"] == ((1, 8), (4, 8), (4, 8))


def test_batches_of_one_size_share_a_name():
    profile = observed(Add(), (ones(4, 8), ones(4, 1))).infer_profile(set_batch_dimension_for=True)
    assert shared(profile) == {"d0": "x[0], y[0]: the batch"}


# --- arguments --------------------------------------------------------------------------------------------------------
def test_an_argument_that_had_its_default_in_every_call_is_not_an_input():
    assert [each.name for each in observed(Optional(), (ones(2),), (ones(3), None, 1.0)).infer_profile()] == ["x"]


def test_names_are_identifiers_and_unlike():
    observer = observed(Variadic(), {"x": ones(2), "y": ones(1)}, {"x": ones(3), "y": ones(1)})
    assert [each.name for each in observer.infer_profile()] == ["x", "named_y"]
    items = {"a b": ones(2), "a_b": ones(2), 0: [ones(2)], "é": ones(2)}
    names = [each.name for each in observed(Nested(), (items,)).infer_profile()]
    assert names == ["items_a_b", "items_a_b_2", "items_0_0", "items__"]
    assert all(each.isidentifier() for each in names)


def test_another_number_of_dimensions_lies_outside():
    profile = observed(Anything(), (ones(2, 2),), (ones(3, 2),), (ones(2, 2, 2),)).infer_profile()
    assert ranges(profile)["x"] == ((2, 2), (2, 2), (3, 2))
    assert profile.calls_outside == 1


# --- program text -----------------------------------------------------------------------------------------------------
def test_the_program_text_has_each_input_and_what_it_was_inferred_from():
    model, observer = Optional(), InputObserver()
    with observer(model):
        for sizes in ((2, 4), (3, 4), (3, 4)):
            model(ones(*sizes), y=ones(*sizes))
    assert (
        observer.infer_profile().to_python()
        == """\
import torch
import torch_tensorrt

# From 3 calls, 2 of them with the opt shapes.
# x: 2 to 3 in 3 calls, 2 sizes; 4 in all 3 calls
# y: 2 to 3 in 3 calls, 2 sizes; 4 in all 3 calls
# d0: x[0], y[0]: equal in every call, 2 sizes
arg_inputs = (
    torch_tensorrt.Input(min_shape=(2, 4), opt_shape=(3, 4), max_shape=(3, 4), dtype=torch.float32, name='x', shared_dims={0: 'd0'}),
)
kwarg_inputs = {
    'y': torch_tensorrt.Input(min_shape=(2, 4), opt_shape=(3, 4), max_shape=(3, 4), dtype=torch.float32, name='y', shared_dims={0: 'd0'}),
}
program = torch_tensorrt.dynamo.trace(model, arg_inputs=arg_inputs, kwarg_inputs=kwarg_inputs)
compiled = torch_tensorrt.dynamo.compile(program, arg_inputs=arg_inputs, kwarg_inputs=kwarg_inputs)
"""
    )


REFUSED = {
    "a list in a list": (([[ones(2)]],), "items has a container in a list"),
    "a tuple": (((ones(2),),), "items is a tuple, which `trace` makes a list of"),
    "None in a list": (([ones(2), None],), "items[1] is None"),
    "a number": (({"a": ones(2), "b": 5},), "items['b'] is a constant"),
    "a type": ((ones(2, dtype=torch.int16),), "items has the type int16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_trace_cannot_take_is_refused_with_the_reason_and_the_other_way(name):
    call, reason = REFUSED[name]
    observer = observed(Nested(), call)
    expected = (
        f"torch_tensorrt.dynamo.trace cannot take the argument items: {reason}. Call export(model) of the observer, "
    )
    for attempt in (observer.infer_profile().to_python, observer.to_torch_tensorrt):
        with pytest.raises(RuntimeError) as caught:
            attempt()
        assert str(caught.value).startswith(expected)


def test_a_key_that_has_no_literal_is_refused_in_a_text():
    kind = enum.Enum("Kind", "A")
    observer = observed(Nested(), ({kind.A: ones(2)},))
    with pytest.raises(RuntimeError, match=r"A key of the class Kind has no literal in Python. Call to_torch_tensorrt"):
        observer.infer_profile().to_python()


def test_arguments_that_no_parameter_takes_are_refused():
    for call in ((ones(2), ones(2)), {"x": ones(2), "extra": ones(2)}):
        with pytest.raises(RuntimeError, match="it is an argument of `\\*args` or `\\*\\*kwargs`"):
            observed(Variadic(), call).infer_profile().to_python()


def test_what_is_not_a_profile_is_refused():
    with pytest.raises(TypeError, match="profile must be what infer_profile"):
        seen((2,)).to_torch_tensorrt({"x": (2, 3)})
