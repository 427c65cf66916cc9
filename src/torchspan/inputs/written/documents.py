# SPDX-License-Identifier: Apache-2.0
"""Files of observed calls: JSON of one version, written as a whole and checked as a whole.

A document has a list of observations, one for each class and method. Written without values it has nothing of the program but
names of classes and parameters; see `torchspan.inputs.written.hidden_values`.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from torchspan._base import reading
from torchspan._files.opening import check_size, open_own
from torchspan.environment_variables import TORCHSPAN_CAPTURE
from torchspan.inputs.observed.leaves import ABSENT, Constant, Opaque, Path, TensorShape
from torchspan.inputs.observed.observations import CallCounts, ModuleCall, ObservedShape, Ranges, Snapshot
from torchspan.inputs.observed.signatures import CallSignature, WithheldName
from torchspan.inputs.observed.trees import DEPTH_LIMIT, Container, Tree, Unknown
from torchspan.inputs.written import literals
from torchspan.inputs.written.hidden_values import DEFAULT, NOT_WRITTEN, WithheldKey
from torchspan.inputs.written.portable import (
    PLAIN,
    NamedMapping,
    Portable,
    as_pair,
    class_named,
    foreign,
    is_withheld,
    name_of,
    named,
    standing_for,
)

VERSION = 1
LARGEST = 1 << 28
"""Bytes of the largest file that is read."""

_VERSION_KEY = "torchspan_inputs"
_START = re.compile(rf'\s*{{\s*"{_VERSION_KEY}"'.encode())
_CONTEXT_NOT_WRITTEN = "of which the context for pytree was not written"
_KINDS = {kind.name: kind for kind in inspect._ParameterKind}
_DEVICE = re.compile(r"[a-z0-9_]{1,64}(:[0-9]{1,5})?")
_MOST = 1 << 63
_RANK_LIMIT = 64


_WRITERS = "InputObserver.to_json, or with torchspan run --observe-inputs"
"""What writes files of observed inputs, for messages."""


class InputFileError(ValueError):
    """A file, or a text, contains no observed calls that this version of torchspan can read."""


@dataclass(frozen=True)
class Document:
    """What one file has.

    Args:
        observations: One for each class and method.
        unseen: Why no object of a class was observed, by the class as the user named it.
    """

    observations: Sequence[Portable]
    unseen: Mapping[str, str] = field(default_factory=dict)


# --- writing ---------------------------------------------------------------------------------------------------------
def text_of(document: Document) -> str:
    """The document as JSON, in ASCII."""
    observations = [_Writer(portable).observation() for portable in map(named, document.observations)]
    return json.dumps({_VERSION_KEY: VERSION, "observations": observations, "unseen": dict(document.unseen)}) + "\n"


def write(document: Document, file: str | os.PathLike[str], inputs: Iterable[str] = ()) -> str:
    """Write the document as a whole, for its owner alone. Returns its text.

    It replaces an earlier document of this name, unless that is one of `inputs`. Raises OSError, also for any other file that
    exists.
    """
    text, path = text_of(document), FilePath(file)
    check_size(len(text))
    with contextlib.suppress(FileNotFoundError):
        os.close(open_own(os.fspath(path), _START, "a file of observed inputs", inputs))
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(text)
        FilePath(unfinished).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            FilePath(unfinished).unlink()
        raise
    return text


def writes_values() -> bool:
    """Whether the environment asks for texts and values of the program."""
    return os.environ.get(TORCHSPAN_CAPTURE, "").strip().lower() == "text"


class _Writer:
    """Writes one observation by names."""

    def __init__(self, portable: Portable) -> None:
        self._given = portable

    def observation(self) -> dict[str, Any]:
        portable, snapshot = self._given, self._given.snapshot
        return {
            "class": portable.kind,
            "method": portable.method,
            "values": portable.has_values,
            "parameters": parameters(portable.signature, portable.has_values),
            "removed": sorted(portable.removed),
            "if_missing": self._trees(portable.absent, {}),
            "by_keyword": sorted(snapshot.by_keyword),
            "counts": {name: getattr(snapshot.counts, name) for name in CallCounts.__slots__},
            "shapes": [self.shape(shape) for shape in snapshot.shapes],
            "ranges": [self._ranges(path, ranges) for path, ranges in snapshot.ranges.items()],
        }

    def shape(self, shape: ObservedShape) -> dict[str, Any]:
        first = shape.first
        return {
            "calls": shape.count,
            "first": first.number,
            "arguments": self._trees(first.arguments, shape.constants),
        }

    def _trees(self, trees: Mapping[str, Tree], constants: Mapping[Path, Counter[Hashable]]) -> dict[str, Any]:
        return {name: self._tree(tree, (name,), constants) for name, tree in trees.items()}

    def _tree(self, tree: Tree, path: Path, constants: Mapping[Path, Counter[Hashable]]) -> Any:
        if isinstance(tree, TensorShape):
            return {"dtype": str(tree.dtype), "shape": list(tree.shape), "device": str(tree.device)}
        if isinstance(tree, Constant):
            return self._constant(tree, constants.get(path, Counter()))
        if isinstance(tree, Opaque):
            return {"class": name_of(tree.kind), "unknown": tree.reason}
        if isinstance(tree, Container):
            return self._container(tree, path, constants)
        return None

    def _constant(self, leaf: Constant, values: Counter[Hashable]) -> dict[str, Any]:
        counts = {as_pair(distinct)[1]: count for distinct, count in values.items()}
        written: dict[str, Any] = {"type": name_of(type(leaf.value))}
        if self._given.has_values:
            return {**written, "value": repr(leaf.value), "values": counts}
        of_default = counts.pop(DEFAULT, 0)
        return {**written, "calls": {text.removeprefix("?"): n for text, n in counts.items()}, "default": of_default}

    def _container(self, tree: Container, path: Path, constants: Mapping[Path, Counter[Hashable]]) -> dict[str, Any]:
        written: dict[str, Any] = {"container": name_of(tree.kind)}
        if issubclass(tree.kind, NamedMapping):
            written["mapping"] = True
        if tree.keys != tuple(range(len(tree.keys))):
            written["keys"] = [literals.key(key) for key in tree.keys]
        if tree.kind not in {list, tuple} and not isinstance(tree.context, Unknown):
            with contextlib.suppress(literals.UnwritableError):
                is_keys = type(tree.context) is list and tuple(tree.context) == tree.keys
                written["context"] = "keys" if is_keys else [literals.plain(tree.context)]
        pairs = zip(tree.keys, tree.children, strict=True)
        written["items"] = [self._tree(child, (*path, key), constants) for key, child in pairs]
        return written

    def _ranges(self, path: Path, ranges: Ranges) -> dict[str, Any]:
        return {
            "path": [literals.key(key) for key in path],
            "dtypes": {str(dtype): count for dtype, count in ranges.dtypes.items() if count},
            "ranks": [[rank, *bounds] for rank, bounds in sorted(ranges.by_rank.items())],
        }


def parameters(signature: CallSignature, has_values: bool) -> list[dict[str, Any]]:
    """The parameters of a method, as they are written."""
    return [
        {"name": name, "kind": _kind(name, signature).name, **_default(name, signature, has_values)}
        for name in signature.names
    ]


def _kind(name: str, signature: CallSignature) -> inspect._ParameterKind:
    kinds = inspect.Parameter
    if name in signature.positional_only:
        return kinds.POSITIONAL_ONLY
    if name in signature.positional:
        return kinds.POSITIONAL_OR_KEYWORD
    if name == signature.var_positional:
        return kinds.VAR_POSITIONAL
    return kinds.VAR_KEYWORD if name == signature.var_keyword else kinds.KEYWORD_ONLY


def _default(name: str, signature: CallSignature, has_values: bool) -> dict[str, Any]:
    if name not in signature.defaults:
        return {}
    default = signature.defaults[name]
    if default is None:
        return {"default": None}
    value = {"value": repr(default)} if has_values and not is_withheld(default) else {}
    return {"default": {"type": name_of(type(default)), **value}}


def shape_text(portable: Portable, shape: ObservedShape) -> str:
    """A shape as it is written, for an order that is the same everywhere."""
    return json.dumps(_Writer(portable).shape(shape), sort_keys=True)


# --- reading ---------------------------------------------------------------------------------------------------------
def read(file: str | os.PathLike[str]) -> Document:
    """The document in a file. Raises InputFileError, and OSError where it cannot be opened."""
    with open(file, "rb") as opened:  # noqa: PTH123 - FilePath takes no descriptor
        content = opened.read(LARGEST + 1)
    return parsed(content, os.fspath(file))


def parsed(content: bytes | str, name: str) -> Document:
    """The document in a text. Raises InputFileError.

    Args:
        name: How messages name it.
    """
    if len(content) > LARGEST:
        raise InputFileError(f"{name} has more than {LARGEST:,} bytes: it is not a file of observed inputs.")
    start = content[:200].decode("utf-8", "replace") if isinstance(content, bytes) else content[:200]
    if start.lstrip().startswith('{"resource'):
        raise InputFileError(
            f"{name} is not a file of observed inputs: it is a file of traces. Show it with torchspan show."
        )
    if not content.strip():
        raise InputFileError(f"{name} is empty. Write it again with {_WRITERS}.")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise InputFileError(
            f"{name} is torn, or is not a file of observed inputs: it is not complete JSON. Write it again with {_WRITERS}."
        ) from None
    version = document.get(_VERSION_KEY) if isinstance(document, dict) else None
    if version is None:
        raise InputFileError(
            f"{name} is not a file of observed inputs: it has no {_VERSION_KEY!r}. Name a file that was written with {_WRITERS}."
        )
    if version != VERSION or isinstance(version, bool):
        raise InputFileError(
            f"{name} has version {str(version)[:20]} of the format, but this torchspan reads version {VERSION}. Read it with the "
            "version of torchspan that wrote it, or write it again with this one."
        )
    try:
        observations = [_DocumentReader(part).observation() for part in _list(document["observations"])]
        unseen = {_text(key): _text(value) for key, value in _dict(document["unseen"]).items()}
    except _InvalidError as error:
        raise InputFileError(f"{name} is damaged: {error}. Write it again.") from None
    except KeyError as error:
        raise InputFileError(f"{name} is damaged: it lacks {str(error)[:100]}. Write it again.") from None
    except RecursionError:
        raise InputFileError(f"{name} is damaged: its containers are nested too deeply. Write it again.") from None
    return Document(observations, unseen)


def one_of(document: Document, name: str | None, source: str) -> Portable:
    """The observation of this name, or the only one there is. Raises InputFileError.

    Args:
        source: How messages name the document.
    """
    matching = [observation for observation in document.observations if name in {None, observation.name}]
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(observation.name for observation in document.observations)
    if not document.observations:
        why = "; ".join(f"{path}: {problem}" for path, problem in document.unseen.items())
        raise InputFileError(f"{source} has no calls{f' ({why})' if why else ''}.")
    if name is not None:
        raise InputFileError(f"{source} has no calls of {name!r}; it has calls of {names}.")
    raise InputFileError(f"{source} has calls of several methods: choose one with name=, one of {names}.")


class _InvalidError(Exception):
    """What stands in a document is not what belongs there."""


class _DocumentReader:
    """Reads one observation."""

    def __init__(self, document: Any) -> None:
        self._given = _dict(document)
        self._has_values = _bool(self._given["values"])
        self._signature = _signature(_list(self._given["parameters"]))

    def observation(self) -> Portable:
        document = self._given
        counts = _dict(document["counts"])
        snapshot = Snapshot(
            shapes=[self._shape(_dict(shape)) for shape in _list(document["shapes"])],
            calls=[],
            failed=[],
            ranges=dict(self._ranges(_dict(row)) for row in _list(document["ranges"])),
            by_keyword=self._names(document["by_keyword"]),
            counts=CallCounts(**{name: _number(counts[name]) for name in CallCounts.__slots__}),
        )
        return Portable(
            _class_name(document["class"]),
            _class_name(document["method"]),
            self._signature,
            snapshot,
            self._trees(document["if_missing"], {}),
            self._names(document["removed"]),
            self._has_values,
        )

    def _shape(self, document: Mapping[str, Any]) -> ObservedShape:
        constants: dict[Path, Counter[Hashable]] = {}
        arguments = self._trees(document["arguments"], constants)
        call = ModuleCall(arguments, frozenset(), _number(document["first"]))
        return ObservedShape(call, _number(document["calls"], least=1), constants)

    def _name(self, document: Any) -> str:
        """The name of an argument."""
        name = _text(document)
        prefix = f"{self._signature.var_keyword}."
        if name in self._signature.names:
            return name
        if self._signature.var_keyword is None or not name.startswith(prefix):
            raise _InvalidError(f"there is no argument {name[:100]!r}")
        return WithheldName(name) if not self._has_values and name.startswith(f"{prefix}#") else name

    def _names(self, document: Any) -> frozenset[str]:
        return frozenset(self._name(name) for name in _list(document))

    def _trees(self, document: Any, constants: dict[Path, Counter[Hashable]]) -> dict[str, Tree]:
        trees = {}
        for key, value in _dict(document).items():
            name = self._name(key)
            trees[name] = self._tree(value, (name,), constants)
        return trees

    def _tree(self, document: Any, path: Path, constants: dict[Path, Counter[Hashable]]) -> Tree:
        if document is None:
            return ABSENT
        if len(path) > DEPTH_LIMIT + 1:
            raise _InvalidError("its containers are nested too deeply")
        document = _dict(document)
        if "dtype" in document:
            shape = tuple(_number(size) for size in _list(document["shape"]))
            return TensorShape(shape, _class_name(document["dtype"]), _device(document["device"]))
        if "type" in document:
            return self._constant(document, path, constants)
        if "container" in document:
            return self._container(document, path, constants)
        return Opaque(class_named(_class_name(document["class"])), _text(document["unknown"]))

    def _constant(self, document: Mapping[str, Any], path: Path, constants: dict[Path, Counter[Hashable]]) -> Constant:
        name = _class_name(document["type"])
        if self._has_values:
            kind = class_named(name)
            constants[path] = Counter(
                {(kind, _text(text)): _number(n) for text, n in _dict(document["values"]).items()}
            )
            return Constant(_value(name, _text(document["value"])))
        kind = foreign(name)
        counts = {_digits(rank): _number(count) for rank, count in _dict(document["calls"]).items()}
        constants[path] = Counter({(kind, f"?{rank}"): count for rank, count in counts.items()})
        of_default = _number(document["default"])
        if of_default:
            constants[path][kind, DEFAULT] = of_default
        return Constant(standing_for(name, DEFAULT if of_default and not counts else "?"))

    def _container(
        self, document: Mapping[str, Any], path: Path, constants: dict[Path, Counter[Hashable]]
    ) -> Container:
        items = _list(document["items"])
        keys: tuple[Hashable, ...] = tuple(range(len(items)))
        if "keys" in document:
            keys = tuple(_checked(literals.read_key, key) for key in _list(document["keys"]))
        if len(keys) != len(items) or len({*keys}) != len(keys):
            raise _InvalidError("the keys of a container do not match its items")
        kind = class_named(_class_name(document["container"]), mapping=document.get("mapping") is True)
        children = tuple(self._tree(child, (*path, key), constants) for key, child in zip(keys, items, strict=True))
        return Container(kind, _context(document, kind, keys), keys, children)

    def _ranges(self, document: Mapping[str, Any]) -> tuple[Path, Ranges]:
        first, *rest = _list(document["path"]) or [""]
        ranges = Ranges(
            dtypes=Counter({_class_name(name): _number(n) for name, n in _dict(document["dtypes"]).items()})
        )
        for row in _list(document["ranks"]):
            rank, count, low, high = _list(row, length=4)
            rank = _number(rank, most=_RANK_LIMIT)
            bounds = [[_number(size) for size in _list(sizes, length=rank)] for sizes in (low, high)]
            ranges.widen(rank, _number(count), *bounds)
        return (self._name(first), *(_checked(literals.read_key, key) for key in rest)), ranges


def _context(document: Mapping[str, Any], kind: type, keys: tuple[Hashable, ...]) -> Any:
    if "context" not in document:
        if kind in {list, tuple}:
            return None
        return Unknown(NOT_WRITTEN if any(isinstance(key, WithheldKey) for key in keys) else _CONTEXT_NOT_WRITTEN)
    return (
        list(keys)
        if document["context"] == "keys"
        else _checked(literals.read_plain, *_list(document["context"], length=1))
    )


def _signature(rows: Iterable[Any]) -> CallSignature:
    parameters, defaults = [], {}
    for parameter in map(_dict, rows):
        name, kind = _text(parameter["name"]), _KINDS.get(_text(parameter["kind"]))
        if kind is None or not name.isidentifier():
            raise _InvalidError("a parameter has an unknown kind or an invalid name")
        if "default" in parameter:
            defaults[name] = _read_default(parameter["default"])
        parameters.append(inspect.Parameter(name, kind, default=defaults.get(name, inspect.Parameter.empty)))
    try:
        return CallSignature(inspect.Signature(parameters))
    except ValueError:
        raise _InvalidError("its parameters do not form a signature") from None


def _read_default(document: Any) -> Any:
    if document is None:
        return None
    name = _class_name(_dict(document)["type"])
    return _value(name, _text(document["value"])) if "value" in document else standing_for(name, DEFAULT)


def _value(kind: str, text: str) -> Any:
    """A constant of a class of this name."""
    plain = next((class_ for class_ in PLAIN if class_.__name__ == kind), None)
    return standing_for(kind, text) if plain is None else _checked(literals.read_text, plain, text)


def _checked(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except (ValueError, TypeError, SyntaxError, MemoryError, KeyError):
        raise _InvalidError("the text of a value cannot be read") from None


# --- checked JSON ----------------------------------------------------------------------------------------------------
def _dict(document: Any) -> dict[str, Any]:
    if isinstance(document, dict):
        return document
    raise _InvalidError("an object is expected where it has another value")


def _list(document: Any, length: int | None = None) -> list[Any]:
    if isinstance(document, list) and length in {None, len(document)}:
        return document
    raise _InvalidError("a list is expected where it has another value")


def _text(document: Any) -> str:
    if isinstance(document, str):
        return document
    raise _InvalidError("a string is expected where it has another value")


def _bool(document: Any) -> bool:
    if isinstance(document, bool):
        return document
    raise _InvalidError("true or false is expected where it has another value")


def _number(document: Any, least: int = 0, most: int = _MOST) -> int:
    if isinstance(document, int) and not isinstance(document, bool) and least <= document <= most:
        return document
    raise _InvalidError("a number is expected where it has another value, or one that is out of bounds")


def _digits(document: str) -> str:
    if document.isascii() and document.isdecimal() and len(document) <= _RANK_LIMIT:
        return document
    raise _InvalidError("a number is expected where it has another value, or one that is out of bounds")


def _class_name(document: Any) -> str:
    text = _text(document)
    if text == "?" or reading.is_identifier(text):
        return text
    raise _InvalidError("the name of a class or a method is expected where it has another string")


def _device(document: Any) -> str:
    text = _text(document)
    if _DEVICE.fullmatch(text):
        return text
    raise _InvalidError("the name of a device is expected where it has another string")
