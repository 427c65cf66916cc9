# SPDX-License-Identifier: Apache-2.0
"""The public API: what completion offers, and that each docstring documents each parameter."""

import copy
import dataclasses
import enum
import functools
import importlib
import inspect
import pickle
import re
import typing
from pathlib import Path

import pytest

import torchspan
from torchspan.words import phase
from torchspan.words.settings import ARGUMENTS

MODULES = (
    "torchspan",
    "torchspan.answers",
    "torchspan.callbacks",
    "torchspan.comparison",
    "torchspan.environment_variables",
    "torchspan.exceptions",
    "torchspan.inputs",
    "torchspan.observers",
    "torchspan.observers.tensorrt",
    "torchspan.observers.torch",
    "torchspan.observers.torch_tensorrt",
    "torchspan.phase",
    "torchspan.sdk",
    "torchspan.testing",
    "torchspan.traces",
)


def test_the_public_modules_are_those_of_the_page():
    page = Path(__file__).resolve().parents[1] / "docs" / "reference" / "api" / "index.md"
    assert sorted(re.findall(r"^\| \[`(.+?)`\]", page.read_text(encoding="utf-8"), re.MULTILINE)) == sorted(MODULES)


def exporting_modules():
    """Every module that lists its names, the packages of the architecture among them."""
    source = Path(torchspan.__file__).parent
    for path in sorted(source.rglob("*.py")):
        if re.search(r"^__all__ = ", path.read_text(encoding="utf-8"), re.MULTILINE):
            parts = path.relative_to(source.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if path.stem == "__init__" else parts)


@pytest.mark.parametrize("name", list(exporting_modules()))
def test_a_module_has_each_name_that_it_exports(name):
    module = importlib.import_module(name)
    assert [exported for exported in module.__all__ if not hasattr(module, exported)] == []


def public_names():
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


def unwrapped(member):
    """The function below a property or a method; None for anything else."""
    member = getattr(member, "fget", member)
    member = member.func if isinstance(member, functools.cached_property) else member
    member = getattr(member, "__func__", member)
    return member if inspect.isfunction(member) else None


def is_inherited_contract(owner, name):
    """Whether a method implements one of a class of another library, whose documentation holds."""
    return any(name in vars(base) for base in owner.__mro__[1:] if not base.__module__.startswith("torchspan"))


def functions():
    """Every public function and method: (its dotted name, the function, whether it is read as an attribute)."""
    for dotted, value in public_names():
        if inspect.isclass(value) and (getattr(value, "__module__", "")).startswith("torchspan"):
            for name, member in vars(value).items():
                function = unwrapped(member)
                if function is not None and not name.startswith("_") and not is_inherited_contract(value, name):
                    yield f"{dotted}.{name}", function, isinstance(member, (property, functools.cached_property))
            called = unwrapped(vars(value).get("__call__"))
            if called is not None and value.__name__ != "ObservedCallable":
                yield f"{dotted}.__call__", called, False
        elif inspect.isfunction(value):
            yield dotted, value, False


def classes():
    """Every public class of torchspan's with the names of its parameters."""
    for dotted, value in public_names():
        if inspect.isclass(value) and value.__module__.startswith("torchspan") and not issubclass(value, enum.Enum):
            yield dotted, value


def parameters(function):
    if function is torchspan.instrument:  # the stub has the names of its settings
        return ARGUMENTS
    return [name for name in inspect.signature(function).parameters if name not in {"self", "cls"}]


def documented(docstring, *sections):
    """The names that sections of a docstring document."""
    found = set()
    for section in sections:
        text = re.search(rf"^ *{section}:\n((?: +\S.*\n|\n)*)", f"{inspect.cleandoc(docstring)}\n", re.MULTILINE)
        if text:
            found |= set(re.findall(r"^    \*{0,2}(\w+): ", text[1], re.MULTILINE))
    return found


FUNCTIONS = {name: (function, is_attribute) for name, function, is_attribute in functions()}
CLASSES = dict(classes())


# --- docstrings -----------------------------------------------------------------------------------------------
def test_every_public_name_has_a_docstring():
    described = [name for name, value in public_names() if inspect.isclass(value) or inspect.isfunction(value)]
    nothing = [name for name in (*FUNCTIONS, *described) if not lookup(name).__doc__]
    assert nothing == []


def lookup(dotted):
    if dotted in FUNCTIONS:
        return FUNCTIONS[dotted][0]
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_each_of_its_parameters_and_no_other(name):
    function, _ = FUNCTIONS[name]
    assert documented(function.__doc__, "Args") == set(parameters(function))


@pytest.mark.parametrize("name", [each for each, (_, is_attribute) in FUNCTIONS.items() if not is_attribute])
def test_a_function_with_parameters_that_returns_something_documents_it(name):
    function, _ = FUNCTIONS[name]
    returned = inspect.signature(function).return_annotation
    if parameters(function) and returned not in {"None", "NoReturn"}:
        assert re.search(r"^ *(?:Returns|Yields):$", function.__doc__, re.MULTILINE)


def fields_of(each):
    fields = [field.name for field in dataclasses.fields(each)] if dataclasses.is_dataclass(each) else []
    return [*fields, *getattr(each, "_fields", ())]


def constructor_parameters(each):
    """What a class is called with, where torchspan defines that; the fields of a dataclass and of a named tuple."""
    fields = fields_of(each)
    inherited = [name for base in each.__mro__[1:] for name in fields_of(base)]
    if fields:
        return [name for name in fields if name not in inherited]
    if getattr(each, "_is_protocol", False):
        return []
    own = [base for base in each.__mro__ if base.__module__.startswith("torchspan") and "__init__" in vars(base)]
    return parameters(own[0].__init__) if own else []


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_documents_each_of_its_parameters(name):
    undocumented = set(constructor_parameters(CLASSES[name])) - documented(CLASSES[name].__doc__, "Args", "Attributes")
    assert undocumented == set()


# --- signatures -----------------------------------------------------------------------------------------------
def test_no_public_signature_has_a_private_parameter():
    found = {name: parameters(function) for name, (function, _) in FUNCTIONS.items()}
    found.update({name: constructor_parameters(each) for name, each in CLASSES.items()})
    assert {name: names for name, names in found.items() if any(each.startswith("_") for each in names)} == {}


def test_every_parameter_of_a_public_function_has_a_type():
    untyped = [
        f"{name}({parameter.name})"
        for name, (function, _) in FUNCTIONS.items()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in {"self", "cls"} and parameter.annotation is inspect.Parameter.empty
    ]
    assert untyped == []


# --- completion -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("module", MODULES)
def test_completion_offers_every_public_name_and_each_name_is_there(module):
    module = importlib.import_module(module)
    assert [name for name in module.__all__ if name not in dir(module)] == []
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_a_module_lists_its_names_once_and_in_order(module):
    names = importlib.import_module(module).__all__
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda kind: pickle.loads(pickle.dumps(kind))])
def test_a_copy_of_a_phase_is_the_phase_itself(again):
    assert [again(kind) is kind for kind in phase.SPANS] == [True] * len(phase.SPANS)


def test_the_phases_are_the_public_names_of_their_module():
    phases = {name for name, value in vars(phase).items() if isinstance(value, phase.Phase) and value in phase.PHASES}
    assert set(phase.__all__) == {*phases, "PHASES", "Folded", "Phase"}


@pytest.mark.parametrize("library", ["tensorrt", "torch", "torch_tensorrt"])
def test_completion_offers_every_official_pair_of_a_library(library):
    from torchspan import observers

    module = getattr(observers, library)
    official = {name.removeprefix(f"{library}.") for name in observers.PHASES if name.startswith(f"{library}.")}
    assert set(module.__all__) == official
    assert {type(getattr(module, name)) for name in official} == {observers.CallableObservers}
    assert typing.get_type_hints(module) == dict.fromkeys(official, observers.CallableObservers)
