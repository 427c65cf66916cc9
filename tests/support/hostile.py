# SPDX-License-Identifier: Apache-2.0
"""Objects of which nothing may be asked: each of their methods notes that it ran, and then does harm."""

import collections.abc
import itertools
import time
import types

RAN: list[str] = []
"""What has run, by class and method."""

_DUNDERS = sorted(
    {
        name
        for kind in (
            bytes, complex, dict, float, int, list, memoryview, object, property, set, str, type, BaseException,
            collections.abc.AsyncGenerator, collections.abc.Awaitable, collections.abc.AsyncIterable,
            collections.abc.Generator, collections.abc.MutableMapping, types.FunctionType, types.ModuleType,
        )
        for name in dir(kind)
        if name.startswith("__") and name.endswith("__")
    }
    | {"__aenter__", "__aexit__", "__buffer__", "__bytes__", "__complex__", "__copy__", "__deepcopy__", "__enter__", "__exit__"}
    | {"__fspath__", "__getattr__", "__instancecheck__", "__subclasscheck__", "__length_hint__", "__missing__", "__index__"}
    | {"__array__", "__array_function__", "__torch_function__", "__torch_dispatch__", "__round__", "__trunc__", "__floor__"}
)  # fmt: skip
_MAKING = frozenset(
    {"__new__", "__init__", "__init_subclass__", "__prepare__", "__slots__", "__weakref__", "__mro_entries__", "__subclasshook__"}
    | {"__abstractmethods__", "__doc__", "__annotations__", "__type_params__", "__static_attributes__", "__firstlineno__"}
    | {"__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__", "__flags__", "__base__", "__bases__", "__mro__"}
    | {"__text_signature__", "__call__", "__set_name__", "__class_getitem__", "__orig_bases__", "mro"}
)  # fmt: skip
"""What Python itself calls or reads when it makes a class or an object, and what calling an object means."""

_ORDINARY = (
    "shape",
    "dtype",
    "graph",
    "name",
    "nbytes",
    "text",
    "engine",
    "serialized_engine",
    "items",
    "values",
    "keys",
)
_OF_THE_CLASS = frozenset({"__qualname__"})
_READ = ("__class__", "__dict__", "__module__", "__name__", "__qualname__", "__wrapped__", "__signature__", "__code__")
"""Attributes that are asked for by name."""


_OF_METACLASSES = frozenset(
    {
        "__eq__",
        "__getattribute__",
        "__hash__",
        "__instancecheck__",
        "__iter__",
        "__len__",
        "__repr__",
        "__subclasscheck__",
    }
)


def exits(name):
    raise SystemExit(name)


def sleeps(_name):
    time.sleep(0.2)


def allocates(_name):
    return bytearray(1 << 28)


HARMS = (exits, sleeps, allocates)


def hostile_class(harm, *bases, name="Hostile"):
    """A class whose every method, and that of its metaclass, does `harm`."""

    def method(dunder, owner):
        def run(*_args, **_kwargs):
            RAN.append(f"{owner}.{dunder}")
            return harm(dunder)

        return run

    kinds = {type(each) for each in bases} - {type}
    meta_bases = (*kinds, type) if not kinds else tuple(kinds)
    meta = type("Meta", meta_bases, {})
    own = {each: method(each, name) for each in _DUNDERS if each not in _MAKING and each not in _READ}
    own |= {each: property(method(each, name)) for each in (*_READ, *_ORDINARY) if each not in _OF_THE_CLASS}
    cls = meta(name, bases, own)
    # Python itself asks the class of an exception that is raised whether it is one of its subclasses.
    raised = {"__subclasscheck__"} if any(issubclass(each, BaseException) for each in bases) else set()
    for dunder in sorted(_OF_METACLASSES - raised):
        setattr(meta, dunder, method(dunder, "Meta"))
    return cls


def made(cls, base=object):
    """An object of a hostile class, made without asking the class."""
    return base.__new__(cls)


def hostiles():
    """One of each kind: an object, and one derived from each of Python's own types that code likes to inspect."""
    bases = (object, str, int, float, bytes, list, tuple, dict, set, ValueError)
    for base, harm in zip(bases, itertools.cycle(HARMS), strict=False):
        derived = () if base is object else (base,)
        yield made(hostile_class(harm, *derived, name=f"Hostile_{base.__name__}"), base)
