# SPDX-License-Identifier: Apache-2.0
"""Classes and constants of another process: by their names, with what stands for them where this process does not have them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.base import reading
from torchspan.inputs.observed.leaves import NotWrittenError
from torchspan.inputs.observed.observations import Snapshot
from torchspan.inputs.observed.signatures import CallSignature
from torchspan.inputs.observed.trees import Tree

PLAIN = frozenset({bool, int, float, complex, str})
"""Classes of constants that every process has."""

DEFAULT = "?default"
"""Stands for the default value of a parameter, whatever it is."""

METHOD = "forward"
"""The method whose calls are observed."""

_COMMON = (*PLAIN, list, tuple, dict, OrderedDict, defaultdict, deque)
_BY_NAME = {f"{class_.__module__}.{class_.__qualname__}".removeprefix("builtins."): class_ for class_ in _COMMON}
_CLASSES: dict[str, type] = {}


@dataclass(frozen=True, slots=True)
class Portable:
    """What was observed of one class.

    Args:
        kind: The class, as `name_of` says it.
        absent: What stands for arguments in calls that lack them.
        removed: Arguments that were left out.
    """

    kind: str
    signature: CallSignature
    snapshot: Snapshot
    absent: Mapping[str, Tree]
    removed: frozenset[str]


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


@dataclass(frozen=True, slots=True)
class WithheldKey:
    """A key that is not known here. Equal keys have equal digests."""

    digest: str

    def __repr__(self) -> str:
        return f"#{self.digest}"


def digest(key: Hashable) -> str:
    """Of a key: equal keys have equal digests in every process, and keys of other classes others."""
    text = f"{name_of(type(key))} {key!r}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def name_of(kind: type) -> str:
    """`module.Outer.Inner`; without `builtins`. A name that is not an identifier is `?`."""
    module, name = reading.attribute(kind, "__module__"), reading.attribute(kind, "__qualname__")
    text = f"{module}.{name}".removeprefix("builtins.")
    return text if reading.is_identifier(text) else "?"


def class_named(name: str) -> type:
    """The class of this name: Python's own, else one that stands for it, the same at each call."""
    class_ = _BY_NAME.get(name)
    return foreign(name) if class_ is None else class_


def foreign(name: str) -> type:
    """The class that stands for the class of this name."""
    class_ = _CLASSES.get(name)
    if class_ is None:
        module, _, last = name.rpartition(".")
        names = {"__module__": module or "builtins", "__qualname__": last}
        class_ = _CLASSES.setdefault(name, type(last, (Named,), names))
    return class_


def is_mapping(kind: type) -> bool:
    """Whether its objects have keys, and no fields or positions."""
    return any(base in {dict, UserDict, Mapping} for base in kind.__mro__)


def standing_for(name: str, text: str) -> Named:
    """What stands for a constant of a class of this name."""
    instance: Named = object.__new__(foreign(name))
    instance.text = text
    return instance


def is_withheld(value: Any) -> bool:
    """Whether it stands for a constant whose value is not known here."""
    return isinstance(value, Named) and value.text.startswith("?")


def as_pair(distinct: Any) -> tuple[type, str]:
    """The class and the `repr` of a constant's value: what `Constant.distinct` is."""
    kind, text = distinct
    return kind, text
