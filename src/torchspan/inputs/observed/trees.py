# SPDX-License-Identifier: Apache-2.0
"""The structure of an argument: containers, as torch's pytree knows them, with leaves in them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torchspan.base import reading
from torchspan.inputs.observed.leaves import ABSENT, Absent, Constant, Leaf, NotWrittenError, Opaque, Path, TensorShape

LEAVES_LIMIT = 4_096
"""Leaves and containers of one call that are looked at."""

DEPTH_LIMIT = 32
"""Containers around a leaf."""

TEXT_LIMIT = 1_024
"""Characters of the longest string that is kept as a constant."""

_NUMBERS = frozenset({bool, int, float, complex})


class SymbolicCallError(Exception):
    """The values are a tracer's: they hold no data, and the call is not one of the program's."""


class TooManyLeavesError(Exception):
    """The call has more than `LEAVES_LIMIT` leaves and containers."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """In place of a container's context, where it is not known.

    Args:
        reason: Why, as a part of a sentence.
    """

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """A list, a tuple, a dictionary or an object of a class that is registered with torch's pytree.

    Attributes:
        kind: Its class.
        context: What pytree needs, besides the children, to build such an object.
        keys: One key for each child.
        children: The values in it: a `TensorShape`, `Constant`, `Absent`, `Opaque` or `Container` each.
    """

    kind: type
    context: Any
    keys: tuple[Hashable, ...]
    children: tuple[Tree, ...]

    def replaced(self, children: list[Tree]) -> Container:
        """Make a container of the same kind with other children.

        Args:
            children: One for each key.

        Returns:
            The new container.
        """
        return Container(self.kind, self.context, self.keys, tuple(children))

    def build(self, children: list[Any]) -> Any:
        """Make an object of the container's class.

        Args:
            children: One value for each key.

        Returns:
            The object.

        Raises:
            NotWrittenError: The calls were read from a file that does not describe how to make such an object.
        """
        if isinstance(self.context, Unknown):
            raise NotWrittenError(
                f"The calls have an object of the class {self.kind.__name__}, {self.context.reason}, so it cannot be built. Write "
                "the file with values, or give the argument to infer_arguments, or leave it out with remove_inputs."
            )
        if self.kind in _nodes():
            return _nodes()[self.kind].unflatten_fn(children, self.context)
        return self.kind(*children)  # a named tuple

    @property
    def is_builtin(self) -> bool:
        """Whether `torch.export` expects dynamic shapes in a container of this kind, instead of in a list."""
        return self.kind in _pytree().BUILTIN_TYPES or _is_named_tuple(self.kind)


Tree = TensorShape | Constant | Absent | Opaque | Container


class Reader:
    """Describes the arguments of one call.

    Args:
        values: Filled with each tensor and each opaque object by its path, where it is given.
        reads_caches: Whether caches of transformers are containers even if the program has not registered them with
            pytree.
    """

    def __init__(self, values: dict[Path, Any] | None = None, *, reads_caches: bool = False) -> None:
        self._types = _types()
        self._nodes = _nodes()
        self._left = LEAVES_LIMIT
        self._values = values
        self._reads_caches = reads_caches

    def read(self, value: Any, path: Path) -> Tree:
        """What `value` consists of. Raises SymbolicCallError and TooManyLeavesError."""
        self._left -= 1
        if self._left < 0:
            raise TooManyLeavesError
        kind = type(value)
        if kind is self._types.tensor or issubclass(kind, self._types.tensor):
            return self._tensor_leaf(value, path)
        if value is None:
            return ABSENT
        if _has_code(kind):
            return self._opaque(value, path, "its metaclass has code of its own")
        if kind in _NUMBERS:
            return Constant(value)
        if kind is str:
            return Constant(value) if len(value) <= TEXT_LIMIT else self._opaque(value, path, "it is a long text")
        if kind in self._types.constants:
            return Constant(value)
        if issubclass(kind, self._types.symbols):
            raise SymbolicCallError
        if kind in self._nodes or _is_named_tuple(kind):
            return self._container(value, path, self._taken_apart)
        if self._reads_caches and taken_apart(value) is not None:
            return self._container(value, path, taken_apart)
        return self._opaque(value, path, "its class is not registered with torch.utils._pytree")

    def _tensor_leaf(self, value: Any, path: Path) -> Leaf:
        if type(value) is not self._types.tensor and issubclass(type(value), _fake_tensor()):
            raise SymbolicCallError
        try:
            shape = tuple(value.shape)
            leaf = TensorShape(shape, value.dtype, value.device)
        except Exception:  # a tensor of the program's own kind
            return self._opaque(value, path, "it is a tensor without a shape")
        for size in shape:
            if type(size) is not int:
                if issubclass(type(size), self._types.symbols) and not getattr(value, "is_nested", False):
                    raise SymbolicCallError
                return self._opaque(value, path, "it is a nested tensor")
        if self._values is not None:
            self._values[path] = value
        return leaf

    def _container(self, value: Any, path: Path, taken_apart: Callable[[Any], Any]) -> Tree:
        if len(path) > DEPTH_LIMIT:
            return self._opaque(value, path, "it is nested in too many containers")
        try:
            keys, parts, context = taken_apart(value)
        except Exception:  # code of the program that was registered with pytree
            return self._opaque(value, path, "the function that flattens it raised")
        children = tuple(self.read(part, (*path, key)) for key, part in zip(keys, parts, strict=True))
        return Container(type(value), context, keys, children)

    def _taken_apart(self, value: Any) -> tuple[tuple[Hashable, ...], list[Any], Any]:
        kind = type(value)
        if kind in {list, tuple}:
            return tuple(range(len(value))), list(value), None
        if kind is dict:
            return tuple(value), list(value.values()), list(value)
        if kind not in self._nodes:
            return kind._fields, list(value), kind
        node = self._nodes[kind]
        parts, context = node.flatten_fn(
            value
        )  # its context is what `unflatten_fn` wants: of dataclasses the other is less
        parts = list(parts)
        if node.flatten_with_keys_fn is None:
            return tuple(range(len(parts))), parts, context
        named, _ = node.flatten_with_keys_fn(value)
        return tuple(_key(key) for key, _ in named), parts, context

    def _opaque(self, value: Any, path: Path, reason: str) -> Opaque:
        if self._values is not None:
            self._values[path] = value
        return Opaque(type(value), reason)


def leaves(tree: Tree, path: Path) -> Iterator[tuple[Path, Leaf]]:
    """Every leaf with its path, in pytree's order."""
    if isinstance(tree, Container):
        for key, child in zip(tree.keys, tree.children, strict=True):
            yield from leaves(child, (*path, key))
    else:
        yield path, tree


def shape_key(tree: Tree, path: Path) -> Iterator[Hashable]:
    """What makes the call one of another shape: shapes, types, containers; not the values of constants."""
    if isinstance(tree, Container):
        yield path, tree.kind, len(tree.keys)
        for key, child in zip(tree.keys, tree.children, strict=True):
            yield from shape_key(child, (*path, key))
    else:
        yield path, tree.key


def rebuilt(tree: Tree, path: Path, of_leaf: Callable[[Path, Leaf], Any]) -> Any:
    """An object of this structure with what `of_leaf` returns in place of each leaf."""
    if isinstance(tree, Container):
        return tree.build(
            [rebuilt(child, (*path, key), of_leaf) for key, child in zip(tree.keys, tree.children, strict=True)]
        )
    return of_leaf(path, tree)


def replaced_leaves(tree: Tree, path: Path, of_leaf: Callable[[Path, Leaf], Leaf]) -> Tree:
    """The same structure with other leaves."""
    if isinstance(tree, Container):
        pairs = zip(tree.keys, tree.children, strict=True)
        return tree.replaced([replaced_leaves(child, (*path, key), of_leaf) for key, child in pairs])
    return of_leaf(path, tree)


def mirrored(tree: Tree, path: Path, of_leaf: Callable[[Path, Leaf], Any]) -> Any:
    """As `rebuilt`, in the form that `torch.export` wants dynamic shapes in: a list in place of an object."""
    if isinstance(tree, Container):
        parts = [mirrored(child, (*path, key), of_leaf) for key, child in zip(tree.keys, tree.children, strict=True)]
        return tree.build(parts) if tree.is_builtin else parts
    return of_leaf(path, tree)


def completed(tree: Tree, other: Tree) -> Tree:
    """`tree`, with the parts of `other` where `tree` has None and the structure is the same."""
    if isinstance(tree, Absent):
        return other
    if isinstance(tree, Container) and isinstance(other, Container):
        if is_missing(tree):
            return other if not is_missing(other) else tree
        if tree.kind is other.kind and tree.keys == other.keys:
            return tree.replaced([completed(*both) for both in zip(tree.children, other.children, strict=True)])
    return tree


def is_missing(tree: Tree | None) -> bool:
    """Whether there is nothing in it: None, or containers without a tensor, a constant or an object in them."""
    return tree is None or all(isinstance(leaf, Absent) for _, leaf in leaves(tree, ("",)))


def tensor_count(tree: Tree) -> int:
    return sum(isinstance(leaf, TensorShape) for _, leaf in leaves(tree, ("",)))


def _key(entry: Any) -> Hashable:
    """What stands in an entry of pytree's: `SequenceKey(idx)`, `MappingKey(key)`, `GetAttrKey(name)`."""
    for name in ("idx", "key", "name"):
        if hasattr(entry, name):
            part: Hashable = getattr(entry, name)
            return part
    return str(entry)


@dataclass(frozen=True, slots=True)
class _Types:
    """Classes of torch's: of tensors, of sizes that a tracer makes, and of values that become parts of a program."""

    tensor: Any
    symbols: tuple[Any, ...]
    constants: tuple[Any, ...]


@functools.cache
def _types() -> _Types:
    torch: Any = sys.modules["torch"]
    return _Types(
        torch.Tensor,
        (torch.SymInt, torch.SymFloat, torch.SymBool),
        (torch.dtype, torch.device, torch.layout, torch.memory_format),
    )


def _fake_tensor() -> Any:
    return getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())


def _has_code(kind: Any) -> bool:
    """Whether asking a class for its hash, an attribute or whether it is another one runs code of the program's."""
    meta: Any = type(kind)
    return meta is not type and not (
        meta.__hash__ is type.__hash__ and meta.__eq__ is type.__eq__ and meta.__getattribute__ is type.__getattribute__
    )


def _pytree() -> Any:
    return sys.modules["torch.utils._pytree"]


def _nodes() -> dict[type, Any]:
    nodes: dict[type, Any] = _pytree().SUPPORTED_NODES
    return nodes


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and kind is not tuple and type(getattr(kind, "_fields", None)) is tuple


# --- Caches of transformers -----------------------------------------------------------------------------------------
# Registering the class would change the program: torch.export and torch.compile ask pytree. So torchspan takes these caches apart
# itself, as transformers does where it registers them.
_MODULE = "transformers.cache_utils"
_OF_LAYERS = frozenset({"DynamicCache", "StaticCache"})
_LAYERS = frozenset(
    {"DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer", "StaticLayer", "StaticSlidingWindowLayer"}
)
"""Kinds of layers that have only keys and values in them."""
_OF_CACHES = "EncoderDecoderCache"
_PARTS = {"key_cache": "keys", "value_cache": "values"}
"""Key in the cache as transformers flattens it, and the attribute of a layer."""

TakenApart = tuple[tuple[str, ...], list[Any], Any]
"""Keys, a part for each of them, and what pytree needs to make the cache."""


def taken_apart(value: Any) -> TakenApart | None:
    """What is in `value`, if its class is one of the caches that transformers has; otherwise None."""
    kind = type(value)
    name = reading.class_name(kind)
    if reading.module_of(kind) != _MODULE or reading.attribute(sys.modules.get(_MODULE), name) is not kind:
        return None
    if name == _OF_CACHES:
        names = ("self_attention_cache", "cross_attention_cache")
        return names, [reading.attribute(value, name) for name in names], None
    layers = reading.attribute(value, "layers")
    if name not in _OF_LAYERS or type(layers) is not list or not all(map(_is_known, layers)):
        return None
    return tuple(_PARTS), [_of_layers(layers, part) for part in _PARTS.values()], [list(_PARTS), _windows(layers)]


def _is_known(layer: Any) -> bool:
    return reading.module_of(type(layer)) == _MODULE and reading.class_name(type(layer)) in _LAYERS


def _of_layers(layers: Sequence[Any], name: str) -> list[Any]:
    tensors = [reading.attribute(layer, name) for layer in layers]
    return [tensor for tensor in tensors if tensor is not None]


def _windows(layers: Sequence[Any]) -> list[Any]:
    return [reading.attribute(layer, "sliding_window") for layer in layers]
