# SPDX-License-Identifier: Apache-2.0
"""One observation of a file as calls of this process, checked as a whole.

What it names is looked up as far as this process has it: data types and devices where torch is imported, classes where they are
registered with pytree. No module is imported for a name, because a file may be another user's.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

from torchspan.base import reading
from torchspan.inputs.observed.leaves import ABSENT, Constant, Opaque, Path, TensorShape
from torchspan.inputs.observed.observations import CallCounts, ModuleCall, ObservedShape, Ranges, Snapshot
from torchspan.inputs.observed.signatures import CallSignature, WithheldName
from torchspan.inputs.observed.trees import DEPTH_LIMIT, Container, Tree, Unknown
from torchspan.inputs.written.encoder import Record
from torchspan.inputs.written.portable import (
    DEFAULT,
    PLAIN,
    Portable,
    WithheldKey,
    class_named,
    name_of,
    standing_for,
)

_KEYS_NOT_WRITTEN = "of which the keys were not written"
_CONTEXT_NOT_WRITTEN = "of which the context for pytree was not written"
_PARAMETERS = {kind.name: kind for kind in inspect._ParameterKind}
_PLAIN = {kind.__name__: kind for kind in PLAIN}
_DEVICE = re.compile(r"[a-z0-9_]{1,64}(:[0-9]{1,5})?")
_DIGEST = re.compile(r"[0-9a-f]{16}")
_LARGEST = 1 << 63
_EXPECTED = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number"}

_T = TypeVar("_T")


class InvalidRecordError(Exception):
    """What stands in a document is not what belongs there; the text says why, as a clause."""


def decoded(record: Record) -> Portable:
    """The calls. Raises InvalidRecordError, and KeyError for what is lacking."""
    return _Decoder(record).portable()


class _Decoder:
    def __init__(self, record: Any) -> None:
        self._record = checked(record, dict)
        self._has_values = checked(self._record["values"], bool)
        self._torch: Any = sys.modules.get("torch")
        nodes = reading.attribute(sys.modules.get("torch.utils._pytree"), "SUPPORTED_NODES") or {}
        self._registered = {name_of(class_): class_ for class_ in [*nodes]}
        self._signature = self._decoded_signature()

    def portable(self) -> Portable:
        record = self._record
        counts = checked(record["counts"], dict)
        snapshot = Snapshot(
            shapes=[self._shape(checked(shape, dict)) for shape in checked(record["shapes"], list)],
            ranges=dict(self._ranges(checked(row, dict)) for row in checked(record["ranges"], list)),
            by_keyword=self._names(record["by_keyword"]),
            counts=CallCounts(**{name: _number(counts[name]) for name in CallCounts.__slots__}),
        )
        absent = self._trees(record["if_missing"], {})
        return Portable(_name(record["class"]), self._signature, snapshot, absent, self._names(record["removed"]))

    # --- signature ---------------------------------------------------------------------------------------------------
    def _decoded_signature(self) -> CallSignature:
        parameters = []
        for parameter in checked(self._record["parameters"], list):
            name = checked(checked(parameter, dict)["name"], str)
            kind = _PARAMETERS.get(checked(parameter["kind"], str))
            if kind is None or not name.isidentifier():
                raise InvalidRecordError("a parameter has an unknown kind or an invalid name")
            default = parameter.get("default", inspect.Parameter.empty)
            if isinstance(default, dict):
                default = self._value(default, DEFAULT)
            elif default is not inspect.Parameter.empty and default is not None:
                raise InvalidRecordError("a default value is neither null nor an object")
            parameters.append(inspect.Parameter(name, kind, default=default))
        try:
            return CallSignature(inspect.Signature(parameters))
        except ValueError:
            raise InvalidRecordError("its parameters do not form a signature") from None

    def _argument(self, written: Any) -> str:
        name, signature = checked(written, str), self._signature
        if name in signature.names:
            return name
        if not signature.is_extra(name):
            raise InvalidRecordError(f"there is no argument {name[:100]!r}")
        is_hidden = not self._has_values and signature.keyword_of(name).startswith("#")
        return WithheldName(name) if is_hidden else name

    def _names(self, written: Any) -> frozenset[str]:
        return frozenset(self._argument(name) for name in checked(written, list))

    # --- shapes ------------------------------------------------------------------------------------------------------
    def _shape(self, written: Mapping[str, Any]) -> ObservedShape:
        constants: dict[Path, Counter[Hashable]] = {}
        call = ModuleCall(self._trees(written["arguments"], constants), frozenset(), _number(written["first"]))
        return ObservedShape(call, _number(written["calls"], least=1), constants)

    def _trees(self, written: Any, constants: dict[Path, Counter[Hashable]]) -> dict[str, Tree]:
        names = {key: self._argument(key) for key in checked(written, dict)}
        return {name: self._tree(written[key], (name,), constants) for key, name in names.items()}

    def _tree(self, written: Any, path: Path, constants: dict[Path, Counter[Hashable]]) -> Tree:
        if written is None:
            return ABSENT
        if len(path) > DEPTH_LIMIT + 1:
            raise InvalidRecordError("its containers are nested too deeply")
        if "dtype" in checked(written, dict):
            shape = tuple(map(_number, checked(written["shape"], list)))
            return TensorShape(shape, self._dtype(written["dtype"]), self._device(written["device"]))
        if "type" in written:
            return self._constant(written, path, constants)
        if "container" in written:
            return self._container(written, path, constants)
        return Opaque(class_named(_name(written["class"])), checked(written["unknown"], str))

    def _constant(self, written: Mapping[str, Any], path: Path, constants: dict[Path, Counter[Hashable]]) -> Constant:
        counts = {text: _number(count) for text, count in checked(written["calls"], dict).items()}
        value = self._value(written, DEFAULT if counts.keys() == {DEFAULT} else "?")
        constants[path] = Counter({(type(value), text): count for text, count in counts.items()})
        return Constant(value)

    def _value(self, written: Mapping[str, Any], unknown: str) -> Any:
        """A constant; what stands for it where its value was not written or is not known here."""
        name = _name(written["type"])
        if not self._has_values or "value" not in written:
            return standing_for(name, unknown)
        kind, value = _PLAIN.get(name), written["value"]
        if kind is None:
            member = self._of_torch(checked(value, str))
            return member if name_of(type(member)) == name else standing_for(name, value)
        if kind in {float, complex}:
            try:
                return kind(checked(value, str))
            except ValueError:
                raise InvalidRecordError("the text of a value cannot be read") from None
        return checked(value, kind)

    # --- tensors and containers --------------------------------------------------------------------------------------
    def _dtype(self, written: Any) -> Any:
        name = _name(written)
        dtype = self._of_torch(name)
        return dtype if name_of(type(dtype)) == "torch.dtype" else name

    def _of_torch(self, name: str) -> Any:
        """What torch has under this name; None without torch."""
        return None if self._torch is None else vars(self._torch).get(name.removeprefix("torch."))

    def _device(self, written: Any) -> Any:
        name = checked(written, str)
        if not _DEVICE.fullmatch(name):
            raise InvalidRecordError("the name of a device is expected where it has another string")
        try:
            return name if self._torch is None else self._torch.device(name)
        except RuntimeError:  # a backend that this torch does not have
            return name

    def _container(self, written: Mapping[str, Any], path: Path, constants: dict[Path, Counter[Hashable]]) -> Container:
        items = checked(written["items"], list)
        keys: tuple[Hashable, ...] = tuple(range(len(items)))
        if "keys" in written:
            keys = tuple(map(_key, checked(written["keys"], list)))
        if len(keys) != len(items) or len({*keys}) != len(keys):
            raise InvalidRecordError("the keys of a container do not match its items")
        name = _name(written["container"])
        kind = self._registered.get(name) or _named_tuple(name) or class_named(name)
        children = tuple(self._tree(child, (*path, key), constants) for key, child in zip(keys, items, strict=True))
        return Container(kind, _context(written, kind, keys), keys, children)

    def _ranges(self, written: Mapping[str, Any]) -> tuple[Path, Ranges]:
        first, *rest = checked(written["path"], list) or [""]
        counts = checked(written["dtypes"], dict)
        ranges = Ranges(dtypes=Counter({self._dtype(name): _number(count) for name, count in counts.items()}))
        for row in checked(written["ranks"], list):
            if len(checked(row, list)) != 4:
                raise InvalidRecordError("the ranges of a tensor are incomplete")
            rank, count, low, high = row
            bounds = [[_number(size) for size in checked(sizes, list)] for sizes in (low, high)]
            if {_number(rank)} != {len(sizes) for sizes in bounds}:
                raise InvalidRecordError("the ranges of a tensor are incomplete")
            ranges.widen(rank, _number(count), *bounds)
        return (self._argument(first), *map(_key, rest)), ranges


def _context(written: Mapping[str, Any], kind: type, keys: tuple[Hashable, ...]) -> Any:
    if any(isinstance(key, WithheldKey) for key in keys):
        return Unknown(_KEYS_NOT_WRITTEN)
    if "context" not in written:
        return None if issubclass(kind, (list, tuple)) else Unknown(_CONTEXT_NOT_WRITTEN)
    context = written["context"]
    if context == "keys":
        return list(keys)
    if len(checked(context, list)) != 1:
        raise InvalidRecordError("the context of a container is incomplete")
    return context[0]


def _named_tuple(name: str) -> type | None:
    """A class of named tuples of a module that the program has imported."""
    module, _, last = name.rpartition(".")
    class_ = reading.attribute(sys.modules.get(module), last)
    is_one = issubclass(type(class_), type) and issubclass(class_, tuple) and hasattr(class_, "_fields")
    return class_ if is_one else None


# --- checked JSON ----------------------------------------------------------------------------------------------------
def checked(written: Any, kind: type[_T]) -> _T:
    """What was written, of this class. Raises InvalidRecordError."""
    if type(written) is kind:
        return written
    raise InvalidRecordError(f"{_EXPECTED[kind]} is expected where it has another value")


def _number(written: Any, least: int = 0) -> int:
    if least <= checked(written, int) <= _LARGEST:
        return int(written)
    raise InvalidRecordError("a number is out of bounds")


def _name(written: Any) -> str:
    """The name of a class, or of a data type."""
    text = checked(written, str)
    if text == "?" or reading.is_identifier(text):
        return text
    raise InvalidRecordError("the name of a class is expected where it has another string")


def _key(written: Any) -> Hashable:
    if isinstance(written, dict) and _DIGEST.fullmatch(checked(written.get("digest"), str)):
        return WithheldKey(written["digest"])
    if isinstance(written, (dict, list, float)):
        raise InvalidRecordError("the key of a container is expected where it has another value")
    key: Hashable = written
    return key
