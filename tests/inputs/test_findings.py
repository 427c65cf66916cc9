# SPDX-License-Identifier: Apache-2.0
"""What an observer says of the calls: findings, and no exceptions."""

import enum

import numpy as np
import pytest
import torch

from support.observed_calls import Add, Anything, Nested, Optional, Variadic, kinds, observed, ones


class Box:
    """A class that pytree does not know."""


def message(observer):
    (finding,) = observer.findings()
    return str(finding)


def test_calls_without_a_peculiarity_have_no_finding():
    assert observed(Add(), (ones(2), ones(2)), (ones(3), ones(3))).findings() == []


def test_another_type_is_a_finding():
    observer = observed(Anything(), (ones(2),), (ones(2, dtype=torch.float16),), (ones(2),))
    assert message(observer) == (
        "x: It has float32 in 2 calls and float16 in 1 call. An engine takes one: convert it before the call."
    )


def test_another_number_of_dimensions_is_a_finding():
    observer = observed(Anything(), (ones(2, 2),), (ones(2, 2, 2),), (ones(3, 2),))
    assert (
        message(observer)
        == "x: The number of its dimensions changes: 2 in 2 calls, 3 in 1 call. Export a program for each."
    )


def test_what_is_inferred_holds_for_the_most_frequent_number_of_dimensions():
    observer = observed(Anything(), (ones(2, 2, 2),), (ones(2, 2),), (ones(3, 2),), (ones(3, 2),))
    assert observer.infer_arguments()[0].shape == (3, 2)
    assert observer.infer_dynamic_shapes() == ({0: torch.export.Dim.DYNAMIC},)


@pytest.mark.parametrize(
    ("sizes", "found"), [((0, 2, 3), True), ((1, 4), True), ((2, 3), False), ((1, 1), False), ((0,), True)]
)
def test_sizes_that_torch_export_takes_for_constants_are_a_finding(sizes, found):
    observer = observed(Anything(), *((ones(size, 4),) for size in sizes))
    assert kinds(observer) == ([("size_0_or_1", "x")] if found else [])


@pytest.mark.parametrize(
    "value", [Box(), np.ones(2), np.float64(1.0), slice(1), enum.Enum("Kind", "A").A, {1, 2}, "x" * 2_000],
    ids=["object", "array", "number of numpy", "slice", "enum", "set", "long text"],
)  # fmt: skip
def test_a_value_that_cannot_be_inspected_is_a_finding(value):
    observer = observed(Anything(), (ones(2), {"key": [value]}))
    assert kinds(observer) == [("opaque", "other['key'][0]")]


def test_a_registered_class_whose_function_raises_is_opaque():
    class Broken:
        pass

    def flatten(_value):
        raise ValueError

    torch.utils._pytree.register_pytree_node(Broken, flatten, lambda _values, _context: Broken())
    observer = observed(Anything(), (ones(2), Broken()))
    assert message(observer).startswith(
        "other: It is an object of the class Broken, of which nothing is recorded, because the function that flattens it raised."
    )


def test_a_number_that_changes_is_a_finding():
    observer = observed(Anything(), *((ones(2), number) for number in (1, 2, 2, True)))
    assert message(observer).startswith("other: It has 3 values in 4 calls. An exported program holds one of them")


def test_a_number_that_only_some_calls_pass_is_a_finding():
    observer = observed(Optional(), (ones(2),), (ones(2), None, 3.0))
    assert message(observer).startswith("scale: It was given in 1 of 2 calls only. An exported program holds one value")


def test_a_nan_that_stays_is_one_value():
    assert observed(Optional(), *((ones(2), None, float("nan")) for _ in range(3))).findings() == []


def test_many_values_are_counted_up_to_a_limit():
    observer = observed(Anything(), *((ones(2), number) for number in range(100)))
    assert message(observer).startswith("other: It has at least 32 values in ")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([torch.ones(2)], [torch.ones(2), torch.ones(2)]),
        ({"a": torch.ones(2)}, {"b": torch.ones(2)}),
    ],
)
def test_containers_with_other_parts_are_a_finding(one, other):
    observer = observed(Nested(), (one,), (other,))
    assert kinds(observer) == [("structure", "items")]


def test_dictionaries_with_other_keys_are_not_taken_for_one():
    observer = observed(Nested(), ({"a": ones(2)},), ({"b": ones(3)},))
    (arguments,) = observer.infer_arguments()
    assert {name: tuple(each.shape) for name, each in arguments.items()} == {"a": (2,)}
    assert observer.infer_dynamic_shapes() == ({"a": {}},)


def test_keys_in_another_order_are_the_same_dictionary():
    observer = observed(Nested(), ({"a": ones(2), "b": ones(3)},), ({"b": ones(4), "a": ones(2)},))
    assert observer.findings() == []
    assert observer.infer_dynamic_shapes() == ({"a": {}, "b": {0: torch.export.Dim.DYNAMIC}},)


def test_keyword_arguments_that_no_parameter_takes_are_a_finding():
    observer = observed(Variadic(), {"x": ones(2), "extra": ones(2)})
    assert kinds(observer) == [("kwargs", "named.extra")]


def test_a_list_that_contains_itself_is_a_finding():
    items = [ones(2)]
    items.append(items)
    observer = observed(Anything(), (ones(2), items))
    assert [kind for kind, _ in kinds(observer)] == ["opaque"]


def test_a_call_with_too_many_arguments_is_a_finding():
    observer = observed(Anything(), (ones(2), [0] * 5_000))
    assert kinds(observer) == [("too_large", ""), ("no_call", "")] or kinds(observer) == [("too_large", "")]


def test_a_nested_tensor_is_a_finding():
    nested = torch.nested.nested_tensor([ones(2), ones(3)], layout=torch.jagged)
    assert [kind for kind, _ in kinds(observed(Anything(), (nested,)))] == ["opaque"]
