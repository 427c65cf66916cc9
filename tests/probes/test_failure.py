# SPDX-License-Identifier: Apache-2.0
"""What is said of a conversion that failed, and where in the program its cause is."""

import sys
from types import SimpleNamespace

import pytest

import torchspan.callbacks
from torchspan.base.scratch import Scratch
from torchspan.hooks.probes import Call, signature_of
from torchspan.hooks.probes.describe import failure, place
from torchspan.hooks.probes.describe.common import without_none

FOLDER = torchspan.__path__[0]


def overload():
    """What the target of a call of `torch.ops.aten.add.Tensor` looks like."""
    return SimpleNamespace(_overloadname="Tensor", _name="aten::add.Tensor")


def graph_of(*nodes):
    graph = SimpleNamespace(nodes=nodes)
    for node in nodes:
        node.graph = graph
    return nodes


def node(name="add", op="call_function", target=None, stack=None):
    return SimpleNamespace(name=name, op=op, target=target or overload(), meta={"stack_trace": stack})


class Interpreter:
    def __init__(self, current, done=()):
        self._cur_node, self.env = current, Done(done)


class Done(list):
    """The nodes that were converted, compared by identity."""

    def __contains__(self, node):
        return any(each is node for each in self)


def _construct_trt_network_def(self):
    """The function whose arguments a call has."""


def facts(current, done=(), error=None):
    call = Call(signature_of(_construct_trt_network_def), (Interpreter(current, done),), {})
    return without_none(failure.conversion(call, error or ValueError(), Scratch()))


@pytest.mark.parametrize("name", ["add", "add_1", "add_tensor", "add_tensor_12"])
def test_a_name_that_was_made_from_the_operator_is_said(name):
    (current,) = graph_of(node(name))
    assert facts(current)["torch_tensorrt.failed.node.name"] == name


@pytest.mark.parametrize("name", ["SECRET", "secret_add", "add_secret", "", "_1"])
def test_a_name_of_the_programs_own_stays(name):
    (current,) = graph_of(node(name))
    assert facts(current) == {
        "torch_tensorrt.failed.operator": "torch.ops.aten.add.Tensor",
        "torch_tensorrt.failed.node.position": 1,
        "torch_tensorrt.failed.nodes.count": 1,
    }


def test_an_input_is_its_kind_and_its_position():
    nodes = graph_of(node("SECRET", "placeholder", "SECRET"), node(), node("output", "output", "output"))
    assert facts(nodes[0]) == {
        "torch_tensorrt.failed.operator": "placeholder",
        "torch_tensorrt.failed.node.position": 1,
        "torch_tensorrt.failed.nodes.count": 3,
    }


def test_without_a_node_and_after_one_was_converted_nothing_is_said():
    (current,) = graph_of(node())
    assert facts(None) == {}
    assert facts(current, done=[current]) == {}


def converting(converter):
    """An exception that passed the interpreter's frame, from a function that it was calling."""
    source = "def call_function(converter):\n    return converter()\n"
    scope = {"__name__": "torch_tensorrt.dynamo.conversion._TRTInterpreter"}
    exec(compile(source, "interpreter.py", "exec"), scope)
    try:
        scope["call_function"](converter)
    except ValueError as error:
        return error
    raise AssertionError


def own_converter():
    raise ValueError("SECRET")


def test_the_converter_is_the_one_that_was_called():
    (current,) = graph_of(node())
    assert facts(current, error=converting(own_converter))["torch_tensorrt.failed.converter"] == (
        f"{__name__}.own_converter"
    )


def test_a_converter_that_is_called_what_no_function_is_called_stays():
    def secret():
        raise ValueError

    secret.__qualname__ = "open sesame"
    (current,) = graph_of(node())
    assert "torch_tensorrt.failed.converter" not in facts(current, error=converting(secret))


STACK = f"""\
  File "/app/serve.py", line 3, in <module>
    model(x)
  File "/app/model.py", line 12, in forward
    return self.block(x)
  File "{FOLDER}/anything.py", line 4, in call
    return function(x)
"""


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (STACK, ("/app/model.py", 12, "forward")),
        ('File "/app/a b, line 1.py", line 7, in <listcomp>\n    x', ("/app/a b, line 1.py", 7, "<listcomp>")),
        ('File "<string>", line 7, in <module>\n    x', ("<string>", 7, "<module>")),
        ('File "/app/a.py", line 1, in f\n    x\nFile "<string>", line 7, in __init__', ("/app/a.py", 1, "f")),
        ('File "<eval_with_key>.5", line 7, in forward\n    x', None),
        (f'File "{FOLDER}/__init__.py", line 1, in x', None),
        ("File without a form", None),
        ("", None),
        (None, None),
    ],
    ids=[
        "innermost",
        "strange file",
        "no file",
        "a file first",
        "generated code",
        "libraries alone",
        "no frame",
        "empty",
        "none",
    ],
)
def test_the_place_is_the_innermost_frame_of_the_program(stack, expected):
    assert place.of_stack(stack) == expected


def test_of_an_exception_it_is_the_innermost_frame_of_the_program_as_well():
    try:
        torchspan.callbacks.RecordFunctionCallback(3)
    except TypeError:
        found = place.of_traceback(sys.exc_info()[2])
    assert found is not None
    assert (found.file, found.function) == (
        __file__,
        "test_of_an_exception_it_is_the_innermost_frame_of_the_program_as_well",
    )
