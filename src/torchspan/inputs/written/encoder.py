# SPDX-License-Identifier: Apache-2.0
"""Observed calls as the JSON of one observation in a file.

Without values, shapes, data types, devices, classes and the names of parameters are in it. Of a constant it has the class, and
how many calls had each of its values. A key of a dictionary, and the name of a keyword argument that `**kwargs` takes, become a
digest: equal keys stay equal in the files of all processes.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from torchspan.base import reading
from torchspan.inputs.observed.leaves import Constant, Opaque, Path, TensorShape
from torchspan.inputs.observed.observations import CallCounts, ObservedShape, Ranges
from torchspan.inputs.observed.signatures import CallSignature, WithheldName
from torchspan.inputs.observed.trees import Container, Tree, Unknown
from torchspan.inputs.written.portable import (
    DEFAULT,
    PLAIN,
    Named,
    Portable,
    WithheldKey,
    as_pair,
    digest,
    is_mapping,
    name_of,
)

Record = dict[str, Any]
"""One observation of a file: the calls of one class."""


def encoded(portable: Portable, *, values: bool) -> Record:
    """The calls as they are written.

    Args:
        values: Whether values of constants, keys of dictionaries and names of keyword arguments that `**kwargs` takes are
            written.
    """
    return _Encoder(portable, values).record()


def hidden_name(name: str, signature: CallSignature) -> str:
    """The name of an argument without values: of one that `**kwargs` takes, a digest."""
    if not signature.is_extra(name) or isinstance(name, WithheldName):
        return name
    return f"{signature.var_keyword}.#{digest(signature.keyword_of(name))}"


class _Encoder:
    def __init__(self, portable: Portable, values: bool) -> None:
        self._portable = portable
        self._signature = portable.signature
        self._has_values = values
        self._ranks = _ranks(portable.snapshot.shapes)
        self._written: dict[Path, list[Any]] = {}
        """Where each leaf is, as it is written."""

    def record(self) -> Record:
        portable, snapshot = self._portable, self._portable.snapshot
        return {
            "class": portable.kind,
            "values": self._has_values,
            "parameters": [self._parameter(name) for name in self._signature.names],
            "removed": sorted(map(self._name, portable.removed)),
            "if_missing": self._trees(portable.absent, {}),
            "by_keyword": sorted(map(self._name, snapshot.by_keyword)),
            "counts": {name: getattr(snapshot.counts, name) for name in CallCounts.__slots__},
            "shapes": [self._shape(shape) for shape in snapshot.shapes],
            "ranges": [self._ranges(path, ranges) for path, ranges in snapshot.ranges.items()],
        }

    # --- signature ---------------------------------------------------------------------------------------------------
    def _parameter(self, name: str) -> dict[str, Any]:
        parameter: dict[str, Any] = {"name": name, "kind": _kind(name, self._signature).name}
        if name in self._signature.defaults:
            default = self._signature.defaults[name]
            parameter["default"] = None if default is None else self._constant(default, is_known=type(default) in PLAIN)
        return parameter

    def _name(self, name: str) -> str:
        return name if self._has_values else hidden_name(name, self._signature)

    # --- shapes ------------------------------------------------------------------------------------------------------
    def _shape(self, shape: ObservedShape) -> dict[str, Any]:
        arguments = self._trees(shape.first.arguments, shape.constants)
        return {"calls": shape.count, "first": shape.first.number, "arguments": arguments}

    def _trees(self, trees: Mapping[str, Tree], constants: Mapping[Path, Counter[Hashable]]) -> dict[str, Any]:
        return {
            self._name(name): self._tree(tree, (name,), [self._name(name)], constants) for name, tree in trees.items()
        }

    def _tree(self, tree: Tree, path: Path, written: list[Any], constants: Mapping[Path, Counter[Hashable]]) -> Any:
        self._written[path] = written
        if isinstance(tree, TensorShape):
            return {"dtype": str(tree.dtype), "shape": list(tree.shape), "device": str(tree.device)}
        if isinstance(tree, Constant):
            return {**self._constant(tree.value), "calls": self._counts(path, constants.get(path, Counter()))}
        if isinstance(tree, Opaque):
            return {"class": name_of(tree.kind), "unknown": tree.reason}
        if isinstance(tree, Container):
            keys = self._keys(tree)
            items = [
                self._tree(child, (*path, key), [*written, written_key], constants)
                for key, written_key, child in zip(tree.keys, keys, tree.children, strict=True)
            ]
            return {**self._container(tree, keys), "items": items}
        return None

    def _constant(self, value: Any, *, is_known: bool = True) -> dict[str, Any]:
        kind = type(value)
        constant: dict[str, Any] = {"type": name_of(kind)}
        if self._has_values and is_known:
            constant["value"] = value if kind in {bool, int, str} else repr(value)
        return constant

    def _counts(self, path: Path, values: Counter[Hashable]) -> dict[str, int]:
        """How many calls had each value; without values by their numbers, and the default value apart."""
        if self._has_values:
            return {as_pair(distinct)[1]: count for distinct, count in values.items()}
        default = self._signature.defaults.get(str(path[0])) if len(path) == 1 else None
        of_default = None if default is None else Constant(default).distinct
        return {
            DEFAULT if distinct == of_default else f"?{self._ranks[path][distinct]}": count
            for distinct, count in values.items()
        }

    # --- containers --------------------------------------------------------------------------------------------------
    def _hides(self, tree: Container) -> bool:
        """Whether the keys of a container are values of the program that are not written."""
        is_foreign = issubclass(tree.kind, Named) and not _has_positions(tree)
        return not self._has_values and (is_mapping(tree.kind) or is_foreign)

    def _keys(self, tree: Container) -> list[Any]:
        hides = self._hides(tree)
        return [key if not hides and _is_plain(key) else {"digest": _digest(key)} for key in tree.keys]

    def _container(self, tree: Container, keys: list[Any]) -> dict[str, Any]:
        written: dict[str, Any] = {"container": name_of(tree.kind)}
        if self._hides(tree) or not _has_positions(tree):
            written["keys"] = keys
        context = tree.context
        if tree.kind in {list, tuple} or isinstance(context, Unknown) or self._hides(tree):
            return written
        if type(context) is list and tuple(context) == tree.keys:
            written["context"] = "keys"
        elif _is_plain_structure(context) and (self._has_values or _is_structure(context, _names(tree))):
            written["context"] = [context]
        return written

    def _ranges(self, path: Path, ranges: Ranges) -> dict[str, Any]:
        unseen = [self._name(str(path[0])), *({"digest": _digest(key)} for key in path[1:])]
        return {
            "path": self._written.get(path, unseen),
            "dtypes": {str(dtype): count for dtype, count in ranges.dtypes.items() if count},
            "ranks": [[rank, *bounds] for rank, bounds in sorted(ranges.by_rank.items())],
        }


def _kind(name: str, signature: CallSignature) -> inspect._ParameterKind:
    kinds = inspect.Parameter
    if name in signature.positional_only:
        return kinds.POSITIONAL_ONLY
    if name in signature.positional:
        return kinds.POSITIONAL_OR_KEYWORD
    if name == signature.var_positional:
        return kinds.VAR_POSITIONAL
    return kinds.VAR_KEYWORD if name == signature.var_keyword else kinds.KEYWORD_ONLY


def _ranks(shapes: Sequence[ObservedShape]) -> dict[Path, dict[Hashable, int]]:
    """The values of each constant with their numbers: 0 for the one that most calls have."""
    totals: dict[Path, Counter[Hashable]] = {}
    for shape in shapes:
        for path, values in shape.constants.items():
            totals.setdefault(path, Counter()).update(values)
    return {
        path: {constant: i for i, (constant, _) in enumerate(counts.most_common())} for path, counts in totals.items()
    }


def _has_positions(tree: Container) -> bool:
    return tree.keys == tuple(range(len(tree.keys)))


def _digest(key: Hashable) -> str:
    return key.digest if isinstance(key, WithheldKey) else digest(key)


def _is_plain(key: Any) -> bool:
    """Whether JSON has it."""
    return key is None or type(key) in {bool, int, str}


def _is_plain_structure(context: Any) -> bool:
    """Whether a context of pytree's is plain data that JSON has."""
    return _is_plain(context) or (type(context) is list and all(map(_is_plain_structure, context)))


def _is_structure(context: Any, names: frozenset[str]) -> bool:
    """Whether a plain context of pytree's has only names of fields in it."""
    if type(context) is list:
        return all(_is_structure(part, names) for part in context)
    return context is None or (type(context) is str and context in names)


def _names(container: Container) -> frozenset[str]:
    """Names that the class of a container has, and not its objects."""
    fields = reading.attribute(container.kind, "__dataclass_fields__")
    return frozenset({key for key in container.keys if type(key) is str} | {*(fields or ())})
