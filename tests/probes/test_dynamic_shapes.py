# SPDX-License-Identifier: Apache-2.0
"""What is read of `dynamic_shapes`, whatever the program passes there."""

import pytest

from torchspan.hooks.probes import Call
from torchspan.hooks.probes.describe import dynamic_shapes


class Model:
    def forward(self, x, y, *, scale=None, **more):
        """Its parameters are what counts."""


def asked(shapes, model=None):
    return dynamic_shapes.asked(model or Model(), shapes)


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        (None, None),
        ({}, None),
        ("SECRET", None),
        ({"x": None, "y": {}}, None),
        ({"y": {1: 4}}, ["inputs[1].shape[1]: 4"]),
        ({"scale": [None, 4]}, ["inputs[2].shape[1]: 4"]),
        ([[None, 4], [2]], ["inputs[0].shape[1]: 4", "inputs[1].shape[0]: 2"]),
        ({"SECRET": {0: 4}}, ["inputs[0].shape[0]: 4"]),
        ({"x": {"SECRET": {0: 4}, "other": {0: 2}}}, ["inputs[0][0].shape[0]: 4", "inputs[0][1].shape[0]: 2"]),
        ({"x": {"SECRET": 4}}, None),
        ({"x": {0: "SECRET", 1: 1.5, 2: True}}, None),
    ],
)
def test_a_dimension_is_reported_by_its_position(shapes, found):
    assert asked(shapes) == found


def test_of_many_dimensions_the_first_twenty_are_reported():
    assert asked([[4] * 30]) == [f"inputs[0].shape[{number}]: 4" for number in range(20)]


def test_a_specification_that_holds_itself_has_an_end():
    endless = [4]
    endless.append(endless)
    assert len(asked([endless])) == 20


def test_a_specification_of_any_size_is_read_for_a_bounded_part():
    class Counting(list):
        pass

    assert asked([Counting([None] * 100_000)]) is None


class Own:
    """What a program may pass for a dimension: everything that is asked of it raises."""

    def __getattribute__(self, name):
        raise AssertionError(name)


def test_an_object_of_the_programs_own_is_not_asked():
    assert asked([{0: Own(), 1: 4}]) == ["inputs[0].shape[1]: 4"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("L['y'].size()[1]", "inputs[1].shape[1]"),
        ("L['scale'][0][2].size()[1]", "inputs[2][0][2].shape[1]"),
        ("L['SECRET'].size()[1]", None),
        ("L['x']['SECRET'].size()[1]", None),
        ("SECRET", None),
    ],
)
def test_where_pytorch_says_a_dimension_is(text, found):
    assert dynamic_shapes.of_source(text, Call(None, (), {"mod": Model()})) == found
