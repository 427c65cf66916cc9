# SPDX-License-Identifier: Apache-2.0
"""Observed calls without values of the program: what is written to a file, unless the user asks for values.

Shapes, data types, devices, classes and the names of parameters stay. Of a constant the class stays, and how many calls had
each of its values. A key of a dictionary, and the name of a keyword argument that `**kwargs` takes, become a digest: equal keys
stay equal in the files of all processes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torchspan._base import reading
from torchspan.inputs.observed.leaves import Constant, Leaf, Path
from torchspan.inputs.observed.observations import ModuleCall, ObservedShape, Ranges
from torchspan.inputs.observed.signatures import CallSignature, WithheldName
from torchspan.inputs.observed.trees import Container, Tree, Unknown
from torchspan.inputs.written.portable import Portable, as_pair, foreign, is_mapping, mapped, name_of, standing_for

DEFAULT = "?default"
"""Stands for the default value of a parameter, whatever it is."""

DIGITS = 16
"""Hexadecimal digits of the digest of a key."""

NOT_WRITTEN = "of which the keys were not written"
"""Why a dictionary cannot be built, as a part of a sentence."""


@dataclass(frozen=True, slots=True)
class WithheldKey:
    """A key that is not known here. Equal keys have equal digests."""

    digest: str

    def __repr__(self) -> str:
        return f"#{self.digest}"


def without_values(portable: Portable) -> Portable:
    """The same calls, named and without values."""
    if not portable.has_values:
        return portable
    signature = portable.signature
    defaults = {
        name: None if default is None else _standing_for(default, DEFAULT)
        for name, default in signature.defaults.items()
    }
    snapshot = portable.snapshot
    ranks = _ranks(snapshot.shapes)
    return replace(
        portable,
        has_values=False,
        signature=signature.with_defaults(defaults),
        snapshot=replace(
            snapshot,
            shapes=[_shape(shape, ranks, signature) for shape in snapshot.shapes],
            ranges=_ranges(snapshot.ranges, _all_containers(snapshot.shapes), signature),
            by_keyword=frozenset(argument(name, signature) for name in snapshot.by_keyword),
        ),
        absent=_trees(portable.absent, signature),
        removed=frozenset(argument(name, signature) for name in portable.removed),
    )


def argument(name: str, signature: CallSignature) -> str:
    """The name of an argument: one that `**kwargs` takes is known by its digest."""
    if not signature.is_extra(name) or isinstance(name, WithheldName):
        return name
    return WithheldName(f"{signature.var_keyword}.#{digest(signature.keyword_of(name))}")


def digest(key: Hashable) -> str:
    """Of a key: equal keys have equal digests in every process, and keys of other classes others."""
    text = f"{name_of(type(key))} {key!r}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def _trees(arguments: Mapping[str, Tree], signature: CallSignature) -> dict[str, Tree]:
    return {argument(name, signature): mapped(tree, (name,), _leaf, _container) for name, tree in arguments.items()}


def _leaf(_path: Path, leaf: Leaf) -> Leaf:
    return Constant(_standing_for(leaf.value, "?")) if isinstance(leaf, Constant) else leaf


def _standing_for(value: Any, text: str) -> Any:
    return standing_for(name_of(type(value)), text)


def _container(container: Container, children: list[Tree]) -> Container:
    keys, context = container.keys, container.context
    if is_mapping(container.kind):
        keys = tuple(_key(key) for key in keys)
        context = Unknown(NOT_WRITTEN)
    elif not isinstance(context, Unknown) and not _is_structure(context, _names(container)):
        context = Unknown("of which the context for pytree was not written, because it may hold values")
    return Container(container.kind, context, keys, tuple(children))


def _key(key: Hashable) -> Hashable:
    return key if isinstance(key, WithheldKey) else WithheldKey(digest(key))


def _names(container: Container) -> frozenset[str]:
    """Names that the class of a container has, and not its objects."""
    fields = reading.attribute(container.kind, "__dataclass_fields__")
    return frozenset({key for key in container.keys if type(key) is str} | {*(fields or ())})


def _is_structure(context: Any, names: frozenset[str]) -> bool:
    """Whether a context of pytree's has only names of fields in it."""
    if type(context) in {list, tuple}:
        return all(_is_structure(part, names) for part in context)
    return context is None or (type(context) is str and context in names)


def _path(path: Path, containers: Mapping[Path, type], signature: CallSignature) -> Path:
    """The path of a leaf.

    Args:
        containers: The classes of the containers around it, by their paths.
    """
    keys: list[Hashable] = [argument(str(path[0]), signature)]
    for index, key in enumerate(path[1:], 1):
        kind = containers.get(path[:index])
        keys.append(_key(key) if kind is None or is_mapping(kind) else key)
    return tuple(keys)


def _containers(tree: Tree, at: Path, containers: dict[Path, type]) -> None:
    if isinstance(tree, Container):
        containers[at] = tree.kind
        for key, child in zip(tree.keys, tree.children, strict=True):
            _containers(child, (*at, key), containers)


def _all_containers(shapes: Iterable[ObservedShape]) -> dict[Path, type]:
    all_containers: dict[Path, type] = {}
    for shape in shapes:
        for name, tree in shape.first.arguments.items():
            _containers(tree, (name,), all_containers)
    return all_containers


def _ranges(
    ranges: Mapping[Path, Ranges], containers: Mapping[Path, type], signature: CallSignature
) -> dict[Path, Ranges]:
    return {_path(path, containers, signature): observed_ranges for path, observed_ranges in ranges.items()}


def _ranks(shapes: Iterable[ObservedShape]) -> dict[Path, dict[Hashable, int]]:
    """The values of each constant with their numbers: 0 for the one that most calls have."""
    totals: dict[Path, Counter[Hashable]] = {}
    for shape in shapes:
        for path, values in shape.constants.items():
            totals.setdefault(path, Counter()).update(values)
    return {
        path: {constant: i for i, (constant, _) in enumerate(counts.most_common())} for path, counts in totals.items()
    }


def _shape(
    shape: ObservedShape, ranks: Mapping[Path, Mapping[Hashable, int]], signature: CallSignature
) -> ObservedShape:
    containers = _all_containers([shape])
    constants = {
        _path(path, containers, signature): _counts(values, ranks[path], _default_of(path, signature))
        for path, values in shape.constants.items()
    }
    arguments = _trees(shape.first.arguments, signature)
    for name, tree in arguments.items():
        values = {as_pair(constant)[1] for constant in constants.get((name,), ())}
        if isinstance(tree, Constant) and values == {DEFAULT}:
            arguments[name] = Constant(_standing_for(tree.value, DEFAULT))
    return ObservedShape(ModuleCall(arguments, frozenset(), shape.first.number), shape.count, constants)


def _default_of(path: Path, signature: CallSignature) -> Hashable:
    """The default value of a constant that is an argument itself, as `Constant.distinct` says it."""
    default = signature.defaults.get(str(path[0])) if len(path) == 1 else None
    return None if default is None else Constant(default).distinct


def _counts(values: Counter[Hashable], ranks: Mapping[Hashable, int], default: Hashable) -> Counter[Hashable]:
    """How many calls had each value, without the values: by their numbers, and the default value apart."""
    counts: Counter[Hashable] = Counter()
    for distinct, count in values.items():
        stand_in = foreign(name_of(as_pair(distinct)[0]))
        counts[stand_in, DEFAULT if distinct == default else f"?{ranks[distinct]}"] += count
    return counts
