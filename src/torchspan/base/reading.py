# SPDX-License-Identifier: Apache-2.0
"""Reading objects of the program without running its code.

Ordinary access to an object runs code: `obj.x` runs properties and `__getattr__`, `isinstance` reads `__class__`, `str`,
`len`, `bool`, `==`, `in` and `for` call methods, and a metaclass can change what a class is called. Therefore torchspan reads
objects of the program here. It reads what Python itself stores (instance dictionaries, slots, entries of built-in
containers). It uses properties only if they belong to the observed libraries or are written in C.

What cannot be read in this way is unknown. The functions then return a default, and raise nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    TracebackType,
)
from typing import Any

import wrapt

from torchspan.base.by_identity import ByIdentity

LIBRARIES = frozenset(
    {"torch", "torch_tensorrt", "numpy", "torchspan"}
    | {f"{name}{end}" for name in ("tensorrt", "tensorrt_rtx", "tensorrt_lean", "tensorrt_dispatch") for end in ("", "_bindings")}
)  # fmt: skip
"""Packages whose properties may run: the observed ones, those that they build on, and torchspan's stand-ins for them."""

_BASES = frozenset({"abc", "builtins", "collections", "enum", "pybind11_builtins", "typing"})
"""Modules in which classes of libraries may have their bases."""

IDENTIFIER_LIMIT = 128
"""Characters of the longest name of a class or function that is accepted as one."""

_IDENTIFIER = re.compile(r"[\w.<>]+")

_MISSING: Any = object()
_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: Python's `class` statement makes nothing else."""

# The getters of `type` itself: a metaclass may define attributes of these names.
_DICT: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__
_MRO: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_FLAGS: Callable[[type], int] = type.__dict__["__flags__"].__get__
_MODULE: Callable[[type], Any] = type.__dict__["__module__"].__get__
_QUALNAME: Callable[[type], Any] = type.__dict__["__qualname__"].__get__


_PLAIN_TYPES = frozenset(map(id, (BuiltinFunctionType, FunctionType, SimpleNamespace)))
"""Types of Python that only store: reading an attribute of their objects runs no code."""

_PROXIES: tuple[type, ...] = (getattr(wrapt, "BaseObjectProxy", wrapt.ObjectProxy),)


# --- objects ---------------------------------------------------------------------------------------------------------
def is_a(instance: Any, kind: Any) -> bool:
    """Whether the type of `instance` is `kind` or derived from it. The `__class__` that `instance` reports does not matter.

    Args:
        kind: A class of Python or of a library, or a tuple of them. Only the real bases count: an abstract class would
            call the hash of the type of `instance`.
    """
    bases = _MRO(type(instance))
    for allowed in kind if type(kind) is tuple else (kind,):
        for base in bases:
            if base is allowed:
                return True
    return False


def exactly(instance: Any, *kinds: type) -> bool:
    """Whether the type of `instance` is one of these. (`type(instance) in kinds` would call `__eq__` of its metaclass.)"""
    kind = type(instance)
    for allowed in kinds:  # noqa: SIM110 - a generator would take longer than all the rest
        if allowed is kind:
            return True
    return False


def attribute(instance: Any, name: str, default: Any = None) -> Any:
    """The attribute `name` of `instance`, if no code of the program runs to read it; otherwise `default`.

    Raises what a property of a library raises.
    """
    kind = type(instance)
    if only_stores(kind):
        return getattr(instance, name, default)
    stored = _held(instance, kind, name)
    return default if stored is _MISSING else stored


def has(instance: Any, name: str) -> bool:
    """Whether `attribute` finds something."""
    return attribute(instance, name, _MISSING) is not _MISSING


def _held(instance: Any, kind: type, name: str) -> Any:
    """Read what Python stores of an object whose class may be the program's."""
    if kind is MethodType:
        return attribute(instance.__func__, name, _MISSING)
    if issubclass(kind, type):
        return _of_class(instance, name)
    in_class, owner = _looked_up(kind, name)
    how = type(in_class)
    if how is MemberDescriptorType or (how is GetSetDescriptorType and _may_be_asked(owner)):
        return _asked(in_class.__get__, instance, kind)
    if how is property:
        getter = in_class.fget
        return getter(instance) if type(getter) is BuiltinFunctionType and _may_be_asked(owner) else _MISSING
    attributes = instance_dict(instance)
    if name in attributes:
        return attributes[name]
    if in_class is _MISSING and issubclass(kind, _PROXIES):
        wrapped = _looked_up(kind, "__wrapped__")[0]
        return attribute(_asked(wrapped.__get__, instance, kind), name, _MISSING)
    return in_class if in_class is not _MISSING and _looked_up(how, "__get__")[0] is _MISSING else _MISSING


def _of_class(cls: type, name: str) -> Any:
    if name == "__module__":
        return _asked(_MODULE, cls)
    if name in {"__qualname__", "__name__"}:
        qualname = _QUALNAME(cls)
        return qualname if name == "__qualname__" or type(qualname) is not str else qualname.rpartition(".")[2]
    member = next((_DICT(base)[name] for base in _MRO(cls) if name in _DICT(base)), _MISSING)
    return member if _looked_up(type(member), "__get__")[0] is _MISSING else _MISSING


def _looked_up(kind: type, name: str) -> tuple[Any, type]:
    """The entry `name` of a class, unbound, and the class among its bases that contains it."""
    for base in _MRO(kind):
        members = _DICT(base)
        if name in members:
            return members[name], base
    return _MISSING, kind


def _asked(getter: Callable[..., Any], *args: Any) -> Any:
    try:
        return getter(*args)
    except AttributeError:  # an empty slot
        return _MISSING


def _may_be_asked(owner: type) -> bool:
    """Whether a getter in C of this class reads the object without calling its class, unlike that of a tensor."""
    return _is_known(owner) and not _is_tensor(owner)


def instance_dict(instance: Any) -> dict[str, Any]:
    """The attributes that `instance` itself holds. Empty if it has no dictionary."""
    getter, _ = _looked_up(type(instance), "__dict__")
    stored = getter.__get__(instance) if exactly(getter, GetSetDescriptorType, MemberDescriptorType) else None
    return stored if type(stored) is dict else {}


def method(kind: type, name: str) -> Any:
    """The function that a class has under `name`; None if there is none, or something else."""
    member, _ = _looked_up(kind, name)
    return member if type(member) is FunctionType else None


def definer(kind: type, name: str) -> type | None:
    """The class, among `kind` and its bases, that defines `name`; None if there is none."""
    member, owner = _looked_up(kind, name)
    return None if member is _MISSING else owner


# --- what is of a library --------------------------------------------------------------------------------------------
def is_of_library(kind: type) -> bool:
    """Whether the class and all of its bases are a library's, and their objects delegate no attribute to another object.

    False for modules of PyTorch, which do delegate (a compiled module to the program's), and for tensors (`__torch_function__`).
    """
    known = _KINDS.held.get(id(kind))
    if known is not None:
        return known[1]
    is_known = _KINDS[kind] = _root(kind) in LIBRARIES and all(map(_is_known, _MRO(kind))) and not _is_asking(kind)
    return is_known


def only_stores(kind: type) -> bool:
    """Whether reading an attribute of objects of this class runs no code of the program."""
    return id(kind) in _PLAIN_TYPES or is_of_library(kind)


def _root(cls: type) -> str:
    return module_of(cls).partition(".")[0]


def _is_known(cls: type) -> bool:
    """Whether the class really is in the module that it names."""
    name, path = module_of(cls), _QUALNAME(cls)
    if type(path) is not str or (name.partition(".")[0] not in LIBRARIES and name not in _BASES):
        return False
    if name == "pybind11_builtins" or not _FLAGS(cls) & _HEAP_TYPE:
        return True
    holder: Any = sys.modules.get(name)
    for part in path.split("."):
        kind = type(holder)
        if not issubclass(kind, (ModuleType, type)):
            return False
        holder = (_DICT(holder) if issubclass(kind, type) else instance_dict(holder)).get(part)
    return holder is cls


def _is_asking(kind: type) -> bool:
    for name in ("__getattr__", "__getattribute__"):
        member, owner = _looked_up(kind, name)
        if type(member) is FunctionType and _root(owner) != "torchspan":  # stand-ins raise for what they do not have
            return True
    return issubclass(kind, (type, ModuleType)) or _is_tensor(kind) or is_module(kind)


def is_module(kind: type) -> bool:
    """Whether it is a class of PyTorch modules."""
    module = loaded("torch.nn.modules.module", "Module")
    return module is not None and issubclass(kind, module)


def _is_tensor(kind: type) -> bool:
    tensor = loaded("torch._C", "TensorBase")
    return tensor is not None and issubclass(kind, tensor)


def loaded(module: str, name: str) -> Any:
    """The entry `name` of a module; None if the module has not been imported, or has no such name."""
    loaded_module = sys.modules.get(module)
    attributes = loaded_module.__dict__ if type(loaded_module) is ModuleType else instance_dict(loaded_module)
    return attributes.get(name)


_KINDS: ByIdentity[bool] = ByIdentity()
"""Whether a class is a library's."""


# --- values ----------------------------------------------------------------------------------------------------------
def text(value: Any) -> str | None:
    """A text as a plain `str`; None if the value is not a text."""
    if type(value) is str:
        return value
    return str.__str__(value) if issubclass(type(value), str) else None


def whole_number(value: Any) -> int | None:
    """The value if its type is exactly `int`, so not `bool`; None for anything else."""
    return value if type(value) is int else None


def switch(value: Any) -> bool | None:
    """Whether a plain value counts as true; None for an object that would run its own code to answer."""
    if value is None or exactly(value, *_WITH_A_TRUTH):
        return bool(value)
    return None


_WITH_A_TRUTH = (bool, int, float, str, bytes, list, tuple, dict, set, frozenset)


def entries(instance: Any) -> list[Any] | None:
    """The entries of a list, tuple or set, or the values of a dictionary; None for anything else.

    Objects of derived classes are read through the base class, past what the derived class defines.
    """
    kind = type(instance)
    for class_ in _WITH_ENTRIES:
        if issubclass(kind, class_):
            return list(class_.__iter__(instance))
    return list(dict.values(instance)) if issubclass(kind, dict) else None


_WITH_ENTRIES: tuple[Any, ...] = (list, tuple, set, frozenset)


def pairs(instance: Any) -> list[tuple[Any, Any]]:
    """The keys and values of a dictionary; none for anything else."""
    return list(dict.items(instance)) if issubclass(type(instance), dict) else []


def size(instance: Any) -> int | None:
    """The bytes of a `bytes` object and similar, or the `nbytes` of a library's object; None for anything else."""
    if exactly(instance, bytes, bytearray):
        return len(instance)
    if type(instance) is memoryview:
        return instance.nbytes
    return whole_number(attribute(instance, "nbytes")) if is_of_library(type(instance)) else None


# --- names -----------------------------------------------------------------------------------------------------------
def class_name(cls: type) -> str:
    """The qualified name of a class, without its module."""
    return text(_QUALNAME(cls)) or "?"


def module_of(cls: type) -> str:
    """The module of a class; `?` if that is not a text."""
    return text(_asked(_MODULE, cls)) or "?"


def is_identifier(name: str) -> bool:
    """Whether it has the form of the name of a class or function: letters, digits, `_`, `.`, `<` and `>`, not too many."""
    return len(name) <= IDENTIFIER_LIMIT and _IDENTIFIER.fullmatch(name) is not None


def function_name(function: Any) -> str:
    """The qualified name of a function or another callable, without its module. Without a name, that of the object's class."""
    return text(attribute(function, "__qualname__")) or class_name(type(function))


def method_of(cls: type, code: CodeType) -> str | None:
    """The qualified name of the method of a class that runs the code, such as `Net.forward`; None if no method does."""
    for holder in _MRO(cls):
        for name, function in list(_DICT(holder).items()):
            if type(function) is FunctionType and function.__code__ is code:
                return f"{class_name(cls)}.{name}"
    return None


def unwrapped(function: Any) -> Any:
    """The function below the wrappers that `functools.wraps` and wrapt put around it."""
    for _ in range(_WRAPPERS_LIMIT):
        inside = attribute(function, "__wrapped__", _MISSING)
        if inside is _MISSING:
            break
        function = inside
    return function


_WRAPPERS_LIMIT = 100
"""A function that wraps itself would never end."""


def module_of_frame(frame: FrameType | None) -> str:
    """The name of the module whose code a frame runs; empty if that is not a text."""
    return "" if frame is None else text(frame.f_globals.get("__name__")) or ""


# --- exceptions ------------------------------------------------------------------------------------------------------
traceback_of: Callable[[BaseException], TracebackType | None] = BaseException.__dict__["__traceback__"].__get__
"""The traceback of an exception, even if its class defines an attribute of that name. A guard calls it near the limit of recursion."""
