# SPDX-License-Identifier: Apache-2.0
"""What is said of validators that refused a node."""

import functools
from types import SimpleNamespace

import pytest

from torchspan.base.scratch import Scratch
from torchspan.hooks.probes.describe import refusal


class SymInt:
    """What a symbolic size looks like: its value is not to be asked for."""

    def __int__(self):
        raise AssertionError("a guard")

    __bool__ = __index__ = __eq__ = __int__
    __hash__ = None


def never(_node, _settings):
    return False


def made(limit):
    def validator(_node, _settings):
        return limit < 0

    return validator


def tensor(*shape, dtype="float32"):
    return SimpleNamespace(shape=shape, dtype=f"torch.{dtype}")


def node(*values, kwargs=None, result=None):
    """A node whose arguments have these values; a tensor is that of another node."""
    arguments = [
        SimpleNamespace(meta={"val": value}) if isinstance(value, SimpleNamespace) else value for value in values
    ]

    def target():
        """The operator."""

    target.__module__, target.__name__ = "app", "op"
    target._schema = SimpleNamespace(arguments=[SimpleNamespace(name=name) for name in ("self", "dim", "largest")])
    inputs = [each for each in arguments if isinstance(each, SimpleNamespace)]
    return SimpleNamespace(
        target=target, args=arguments, kwargs=kwargs or {}, meta={"val": result}, all_input_nodes=inputs
    )


def candidate(validator, *, dynamic=True):
    return SimpleNamespace(capability_validator=validator, supports_dynamic_shapes=dynamic)


def noted(node, *candidates, assume_dynamic=False):
    scratch = Scratch()
    refusal.note(scratch, node, candidates, assume_dynamic=assume_dynamic)
    ((_, found),) = scratch[refusal.REFUSALS].items()
    return found


@pytest.mark.parametrize(
    ("validator", "name"),
    [
        (never, "never"),
        (functools.partial(never, 1), "never"),
        (made(3), "made"),
        (lambda node, settings: never(node, settings) and made(1)(node, settings), "never, made"),
    ],
    ids=["function", "partial", "made by a function", "lambda"],
)
def test_a_validator_is_named_by_what_a_reader_can_look_up(validator, name):
    names = ", ".join(f"{__name__}.{each}" for each in name.split(", "))
    assert noted(node(tensor(2)), candidate(validator)).validators == names


def test_each_candidate_is_named_once():
    candidates = [candidate(never), candidate(made(1)), candidate(never)]
    assert noted(node(tensor(2)), *candidates).validators == f"{__name__}.never, {__name__}.made"


def test_a_converter_for_static_shapes_alone_refuses_dynamic_ones_without_being_asked():
    dynamic = node(tensor(SymInt(), 8))
    assert noted(dynamic, candidate(never, dynamic=False)).validators == "supports_dynamic_shapes=False"
    assert noted(dynamic, candidate(never, dynamic=False), assume_dynamic=True).validators == f"{__name__}.never"


def test_arguments_are_said_with_their_types_and_without_their_values():
    given = node(tensor(SymInt(), 8, dtype="float64"), 4711, kwargs={"largest": "SECRET"})
    assert noted(given, candidate(never)).arguments == "self: float64 dynamic, dim, largest"


def test_the_first_node_of_an_operator_stands_for_all():
    scratch = Scratch()
    for dtype in ("float32", "int64"):
        refusal.note(scratch, node(tensor(1, dtype=dtype)), [candidate(never)], assume_dynamic=False)
    assert refusal.facts(scratch, ["app.op"]) == {
        "torch_tensorrt.refused.operators.names": ["app.op"],
        "torch_tensorrt.refused.operators.validators": [f"{__name__}.never"],
        "torch_tensorrt.refused.operators.arguments": ["self: float32"],
    }


def test_operators_that_are_not_left_are_not_said():
    scratch = Scratch()
    refusal.note(scratch, node(tensor(1)), [candidate(never)], assume_dynamic=False)
    assert refusal.facts(scratch, ["another"]) == {}
