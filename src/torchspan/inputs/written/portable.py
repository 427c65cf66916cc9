# SPDX-License-Identifier: Apache-2.0
"""Observed calls by names alone: no `torch.dtype`, no class of the program, no object. So they can be written to a file, added
to those of other processes, and read where torch is not imported.

What is read is resolved to the objects of the process as far as the process has them: data types and devices where torch is
imported, classes where they are registered with pytree. No module is imported for a name.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchspan._base import reading
from torchspan.inputs.observed.leaves import Constant, Leaf, NotWrittenError, Opaque, Path, TensorShape
from torchspan.inputs.observed.observations import ModuleCall, ObservedShape, Ranges, Snapshot
from torchspan.inputs.observed.signatures import CallSignature
from torchspan.inputs.observed.trees import Container, Tree

PLAIN = frozenset({bool, int, float, complex, str})
"""Classes of constants that every process has."""

_COMMON = (*PLAIN, list, tuple, dict, OrderedDict, defaultdict, deque)


class Named:
    """The base of classes that stand for one of another process; an object of it stands for a constant.

    Attributes:
        text: The `repr` of the constant; of one whose value is withheld, `?`, or `?default` for the default value.
    """

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Any:
        """Raises NotWrittenError: the class is not known here."""
        raise NotWrittenError(
            f"The calls have an object of the class {name_of(cls)}, which this process cannot build. Import its module, and "
            "register the class with torch.utils._pytree, before the arguments are inferred."
        )

    text: str

    def __repr__(self) -> str:
        return self.text


class NamedMapping(Named):
    """The base of classes that stand for a mapping: the keys of its objects are values of the program, and no names of fields."""


@dataclass(frozen=True, slots=True)
class Portable:
    """What was observed of one method of one class.

    Args:
        kind: The class, as `name_of` says it.
        method: The method's name.
        absent: What stands for arguments in calls that lack them.
        removed: Arguments that were left out.
        has_values: Whether values of constants, keys of dictionaries and names of keyword arguments that `**kwargs`
            takes are in it.
    """

    kind: str
    method: str
    signature: CallSignature
    snapshot: Snapshot
    absent: Mapping[str, Tree]
    removed: frozenset[str]
    has_values: bool = True

    @property
    def name(self) -> str:
        """`module.Class.method`."""
        return f"{self.kind}.{self.method}"


# --- names -----------------------------------------------------------------------------------------------------------
_CLASSES: dict[tuple[str, type], type] = {}
_MAPPINGS = (dict, UserDict, Mapping, NamedMapping)
_BY_NAME = {f"{class_.__module__}.{class_.__qualname__}".removeprefix("builtins."): class_ for class_ in _COMMON}


def name_of(kind: type) -> str:
    """`module.Outer.Inner`; without `builtins`. A name that is not an identifier is `?`."""
    module, name = reading.attribute(kind, "__module__"), reading.attribute(kind, "__qualname__")
    text = f"{module}.{name}".removeprefix("builtins.")
    return text if reading.is_identifier(text) else "?"


def class_named(name: str, *, mapping: bool = False) -> type:
    """The class of this name: Python's own, else one that stands for it, the same at each call."""
    class_ = _BY_NAME.get(name)
    return foreign(name, mapping=mapping) if class_ is None else class_


def foreign(name: str, *, mapping: bool = False) -> type:
    """The class that stands for the class of this name."""
    base = NamedMapping if mapping else Named
    class_ = _CLASSES.get((name, base))
    if class_ is None:
        module, _, last = name.rpartition(".")
        names = {"__module__": module or "builtins", "__qualname__": last}
        class_ = _CLASSES.setdefault((name, base), type(last, (base,), names))
    return class_


def is_common(kind: type) -> bool:
    """Whether it is one of Python's own classes that every process has."""
    return kind in _COMMON


def is_mapping(kind: type) -> bool:
    """Whether its objects have keys, and no fields or positions."""
    return any(base in _MAPPINGS for base in kind.__mro__)


def standing_for(name: str, text: str) -> Named:
    """What stands for a constant of a class of this name."""
    instance: Named = object.__new__(foreign(name))
    instance.text = text
    return instance


def _named(_path: Path, leaf: Leaf) -> Leaf:
    if isinstance(leaf, TensorShape):
        return TensorShape(leaf.shape, str(leaf.dtype), str(leaf.device))
    if isinstance(leaf, Constant):
        return Constant(named_value(leaf.value))
    if isinstance(leaf, Opaque):
        return Opaque(class_named(name_of(leaf.kind)), leaf.reason)
    return leaf


def named_value(value: Any) -> Any:
    """A constant, or what stands for it where its class is torch's."""
    kind = type(value)
    return (
        value
        if kind in PLAIN or value is None or isinstance(value, Named)
        else standing_for(name_of(kind), repr(value))
    )


def _named_kind(container: Container, children: list[Tree]) -> Container:
    kind = class_named(name_of(container.kind), mapping=is_mapping(container.kind))
    return Container(kind, container.context, container.keys, tuple(children))


def named(portable: Portable) -> Portable:
    """The same by names alone. What pytree needs to build a container is kept: `documents` writes of it what it can."""
    defaults = {name: named_default(default) for name, default in portable.signature.defaults.items()}
    copied = _mapped(portable, _named, _named_kind, _named_distinct)
    return replace(copied, signature=portable.signature.with_defaults(defaults))


def named_default(value: Any) -> Any:
    """A default value; of an object that is not a constant, what stands for it."""
    return (
        named_value(value) if type(value) in PLAIN or value is None else standing_for(name_of(type(value)), "?default")
    )


def as_pair(distinct: Any) -> tuple[type, str]:
    """The class and the `repr` of a constant's value: what `Constant.distinct` is."""
    kind, text = distinct
    return kind, text


def _named_distinct(distinct: Hashable) -> Hashable:
    kind, text = as_pair(distinct)
    return kind if issubclass(kind, Named) else class_named(name_of(kind)), text


# --- resolving -------------------------------------------------------------------------------------------------------
def resolved(portable: Portable) -> Portable:
    """The same with the objects of this process, as far as it has them."""
    torch: Any = sys.modules.get("torch")
    pytree: Any = sys.modules.get("torch.utils._pytree")
    if torch is None or pytree is None:
        return portable
    resolve = _Resolver(torch, [*pytree.SUPPORTED_NODES])
    defaults = {name: resolve.value(default) for name, default in portable.signature.defaults.items()}
    copied = _mapped(portable, resolve.leaf, resolve.container, resolve.distinct)
    ranges = {
        path: Ranges(ranges.by_rank, Counter({resolve.dtype(name): count for name, count in ranges.dtypes.items()}))
        for path, ranges in portable.snapshot.ranges.items()
    }
    return replace(
        copied, signature=portable.signature.with_defaults(defaults), snapshot=replace(copied.snapshot, ranges=ranges)
    )


class _Resolver:
    """Finds the objects of this process by names that a file has. It imports nothing."""

    def __init__(self, torch: Any, registered: list[type]) -> None:
        self._torch = torch
        self._constants = {name_of(constant): constant for constant in (torch.dtype, torch.layout, torch.memory_format)}
        self._registered = {name_of(class_): class_ for class_ in registered}
        self._registered.pop("?", None)

    def leaf(self, _path: Path, leaf: Leaf) -> Leaf:
        if isinstance(leaf, TensorShape):
            return TensorShape(leaf.shape, self.dtype(leaf.dtype), self._device(leaf.device))
        return Constant(self.value(leaf.value)) if isinstance(leaf, Constant) else leaf

    def dtype(self, name: Any) -> Any:
        dtype = self._of_torch(str(name), self._torch.dtype)
        return name if dtype is None else dtype

    def _device(self, name: Any) -> Any:
        try:
            return self._torch.device(name)
        except (RuntimeError, TypeError):  # a backend that this torch does not have
            return name

    def value(self, value: Any) -> Any:
        if not isinstance(value, Named) or is_withheld(value):
            return value
        kind = name_of(type(value))
        if kind == "torch.device":
            return self._device(value.text.partition("type='")[2].partition("'")[0])
        wanted = self._constants.get(kind)
        member = None if wanted is None else self._of_torch(value.text, wanted)
        return value if member is None else member

    def _of_torch(self, text: str, kind: type) -> Any:
        member = getattr(self._torch, text.removeprefix("torch."), None)
        return member if type(member) is kind else None

    def container(self, container: Container, children: list[Tree]) -> Container:
        kind, context = container.kind, container.context
        if issubclass(kind, Named):
            name = name_of(kind)
            kind = self._registered.get(name) or _named_tuple(name) or kind
            if issubclass(kind, tuple) and kind not in self._registered.values():
                context = kind
        return Container(kind, context, container.keys, tuple(children))

    def distinct(self, distinct: Hashable) -> Hashable:
        kind, text = as_pair(distinct)
        return self._constants.get(name_of(kind), kind) if issubclass(kind, Named) else kind, text


def _named_tuple(name: str) -> type | None:
    """A class of named tuples of a module that the program has imported."""
    module, _, last = name.rpartition(".")
    class_ = reading.attribute(sys.modules.get(module), last)
    is_one = issubclass(type(class_), type) and issubclass(class_, tuple) and hasattr(class_, "_fields")
    return class_ if is_one else None


def is_withheld(value: Any) -> bool:
    """Whether it stands for a constant whose value is not known here."""
    return isinstance(value, Named) and value.text.startswith("?")


# --- every tree of what was observed ---------------------------------------------------------------------------------
OfContainer = Callable[[Container, list[Tree]], Container]


def mapped(tree: Tree, path: Path, of_leaf: Callable[[Path, Leaf], Leaf], of_container: OfContainer) -> Tree:
    """The structure with other leaves and other containers."""
    if not isinstance(tree, Container):
        return of_leaf(path, tree)
    pairs = zip(tree.keys, tree.children, strict=True)
    return of_container(tree, [mapped(child, (*path, key), of_leaf, of_container) for key, child in pairs])


def _mapped(
    portable: Portable,
    of_leaf: Callable[[Path, Leaf], Leaf],
    of_container: OfContainer,
    of_distinct: Callable[[Hashable], Hashable],
) -> Portable:
    """The same calls with other leaves, containers and values of constants. The paths stay; calls one by one are left out."""

    def trees(arguments: Mapping[str, Tree]) -> dict[str, Tree]:
        return {name: mapped(tree, (name,), of_leaf, of_container) for name, tree in arguments.items()}

    def shape(observed: ObservedShape) -> ObservedShape:
        first = ModuleCall(trees(observed.first.arguments), frozenset(), observed.first.number)
        return ObservedShape(
            first,
            observed.count,
            {
                path: Counter({of_distinct(value): count for value, count in values.items()})
                for path, values in observed.constants.items()
            },
        )

    snapshot = portable.snapshot
    return replace(
        portable,
        snapshot=replace(snapshot, shapes=[shape(reduced) for reduced in snapshot.shapes], calls=[], failed=[], ranges={
            path: Ranges(ranges.by_rank, Counter({str(dtype): count for dtype, count in ranges.dtypes.items()}))
            for path, ranges in snapshot.ranges.items()
        }),
        absent=trees(portable.absent),
    )  # fmt: skip
