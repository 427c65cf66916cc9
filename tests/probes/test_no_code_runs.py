# SPDX-License-Identifier: Apache-2.0
"""No code of the program's runs to describe something: every describing function is handed objects that do harm when asked."""

import ast
import dataclasses
import importlib
import inspect
import itertools
import pkgutil
import re
import types
from collections.abc import Mapping
from types import FunctionType, SimpleNamespace

import pytest

from support.hostile import RAN, hostiles
from torchspan.base.scratch import Scratch
from torchspan.hooks.probes import PROBES, Call
from torchspan.hooks.probes import describe as package

MODULES = [
    importlib.import_module(each.name) for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]
FUNCTIONS = [
    function
    for module in MODULES
    for function in vars(module).values()
    if type(function) is FunctionType and function.__module__ == module.__name__
]
NAMES = sorted(
    {
        name
        for function in FUNCTIONS
        for name in (*function.__code__.co_names, *function.__code__.co_consts)
        if type(name) is str and name.isidentifier()
    }
)
"""Every name that describing functions ask objects for."""


class Given(dict):
    """The arguments of a call, whatever they are called."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def get(self, name, _otherwise):
        return None, self.given


def call_of(given):
    return Call(Given(given), (given,) * 5, {})


def variants():
    """Hostile objects, and what holds them: containers and things that look like nodes, graphs, settings and results."""
    for each in hostiles():
        yield each
        yield [each, each]
        yield (each, each)
        yield {"key": each}
        node = SimpleNamespace(op="call_function", target=each, name="node", args=(each,), kwargs={"key": each})
        node.meta, node.all_input_nodes = (
            {"val": each, "nn_module_stack": {"": ("", each)}, "stack_trace": each},
            [each],
        )
        graph = SimpleNamespace(nodes=[node])
        node.graph = graph
        yield SimpleNamespace(**dict.fromkeys(NAMES, each))
        yield SimpleNamespace(**{**dict.fromkeys(NAMES, each), "graph": graph, "_cur_node": node, "n": node})
        yield node
        yield (SimpleNamespace(graph=graph), each)


def exhausted(found):
    """Iterators are what they yield; a function that was made is a describing function of its own."""
    return list(found) if type(found) is types.GeneratorType else found


def describing_of(action):
    """(field, function) of everything that a row has for describing and selecting."""
    for field in dataclasses.fields(action):
        value = getattr(action, field.name)
        if type(value) is FunctionType:
            yield field.name, value
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from describing_of(value)


ROWS = [(probe, field, function) for probe in PROBES for field, function in describing_of(probe.action)]

ARGUMENTS = {
    "start": lambda given, error: (call_of(given),),
    "before": lambda given, error: (call_of(given),),
    "links_to": lambda given, error: (call_of(given),),
    "creates": lambda given, error: (call_of(given),),
    "invalidates": lambda given, error: (call_of(given),),
    "end": lambda given, error: (call_of(given), given, Scratch()),
    "failed": lambda given, error: (call_of(given), error, Scratch()),
    "count": lambda given, error: (Scratch(), call_of(given), given, 0.1),
    "describe": lambda given, error: (given, given, True),
    "follows": lambda given, error: (call_of(given), given),
}
"""What the adapters hand to the function in a field of a row."""


@pytest.fixture(autouse=True)
def _nothing_has_run():
    RAN.clear()
    yield
    assert RAN == []


def error_of(given):
    """An exception: the hostile one where `given` is one, else one that has it for an argument."""
    return given if issubclass(type(given), ValueError) else ValueError(given)


def test_every_field_of_a_row_that_holds_a_function_is_known_here():
    assert {field for _, field, _ in ROWS} == ARGUMENTS.keys()


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[f"{probe.target}-{field}" for probe, field, _ in ROWS])
def test_what_a_row_describes_is_not_asked(row):
    _, field, function = ROWS[row]
    for given in variants():
        exhausted(function(*ARGUMENTS[field](given, error_of(given))))
        assert RAN == []


def argument(parameter, given):
    """What a function of `describe` is handed for a parameter: by its annotation, and hostile wherever that is open."""
    kind = str(parameter.annotation)
    if kind.startswith("Call") and "Callable" not in kind:
        return call_of(given)
    fixed = {
        "Scratch": Scratch(),
        "str": "text",
        "str | None": "text",
        "bool": True,
        "int": 1,
        "float": 0.1,
        "Facts": {},
        "Event | None": None,
        "FrameType | None": None,
        "LibraryMessage | None": None,
        "list[LibraryMessage]": [],
        "Callable[[str], LibraryMessage]": str,
        "TracebackType | None": None,
        "Callable[[Call], Facts]": lambda call: {},
        "Counter[str]": __import__("collections").Counter(["a"]),
        "Left": [("a", "b")],
        "BaseException": error_of(given),
        "Iterable[str]": ["text"],
        "Iterable[tuple[str, str]]": [("te", "a")],
        "Iterator[None]": itertools.repeat(None, 10),
        "list[str]": ["text"],
        "set[str]": {"text"},
        "Iterable[Any]": [given, given],
        "list[Any]": [given, given],
        "Iterable[StackPlace]": [],
        "Mapping[str, Any]": {"key": given},
        "Mapping[str, list[str]]": {"key": ["text"]},
        "Measured": dict.fromkeys(NAMES, given),
        "Measured | None": dict.fromkeys(NAMES, given),
        "Mapping[str, object]": dict.fromkeys(NAMES, given),
        "tuple[Any, ...]": ("logger", given, given),
        "dict[str, Any]": {},
        "memoryview": memoryview(b"engine"),
        "ast.expr": ast.parse("n == 3", mode="eval").body,
        "_Hash": ("a", "b", "c"),
        "tuple[_Sizes, list[str]]": ({("x", 0): "4"}, ["a guard"]),
        "Mapping[tuple[str, int], int]": {("x", 0): 4},
        "re.Match[str] | None": re.match("(?P<module>a)(?P<qualname>b)(?P<reason>c)", "abc"),
    }
    return fixed.get(kind, given)


@pytest.mark.parametrize(
    "function", FUNCTIONS, ids=lambda each: f"{each.__module__.rpartition('.')[2]}.{each.__name__}"
)
def test_a_describing_function_asks_nothing(function):
    parameters = inspect.signature(function).parameters.values()
    for given in variants():
        positional, named = [], {}
        for each in parameters:
            if each.kind is each.VAR_POSITIONAL:
                positional += [given, given]
            elif each.kind is each.KEYWORD_ONLY:
                named[each.name] = argument(each, given)
            elif each.kind is not each.VAR_KEYWORD:
                positional.append(argument(each, given))
        try:
            found = exhausted(function(*positional, **named))
        except Exception:  # parts of a description are handed what their callers have looked at
            found = None
        assert RAN == []
        if type(found) is FunctionType:
            exhausted(found(call_of(given)))
            assert RAN == []


def values_of(facts):
    for value in facts.values():
        yield from value if type(value) in (list, tuple) else (value,)


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[f"{probe.target}-{field}" for probe, field, _ in ROWS])
def test_what_is_said_of_hostile_objects_is_plain(row):
    _, field, function = ROWS[row]
    if field not in {"start", "end", "failed", "describe"}:
        return
    for given in variants():
        facts = function(*ARGUMENTS[field](given, error_of(given)))
        assert isinstance(facts, Mapping)
        assert {type(each) for each in values_of(facts)} <= {str, int, float, bool, types.NoneType} | {
            type(each)
            for each in values_of(facts)
            if issubclass(type(each), str) and type(each).__module__.startswith("torchspan.")
        }
