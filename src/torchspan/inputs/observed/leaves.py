# SPDX-License-Identifier: Apache-2.0
"""What is recorded of a value that has no parts: of a tensor, its shape. No tensor is kept."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any


class NotWrittenError(RuntimeError):
    """A value is needed that is not in the file from which the calls were read."""


Path = tuple[Hashable, ...]
"""Where a leaf is: the argument's name, then a key for each container around the leaf."""


@dataclass(frozen=True, slots=True)
class TensorShape:
    """The recorded properties of a tensor.

    Attributes:
        shape: Its size in each dimension.
        dtype: Its `torch.dtype`.
        device: Its `torch.device`.
    """

    shape: tuple[int, ...]
    dtype: Any
    device: Any

    @property
    def key(self) -> Hashable:
        """Equal for tensors that need the same engine."""
        return self

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a string, a flag, a `torch.dtype` or similar. It becomes a part of an exported program.

    The value stays in the process that observed it.

    Attributes:
        value: The value.
    """

    value: Any

    @property
    def key(self) -> Hashable:
        """Equal for constants of one type."""
        return id(type(self.value))

    @property
    def distinct(self) -> Hashable:
        """Equal for equal values of one type. (`1`, `1.0` and `True` are three values, and `nan` is one.)"""
        return type(self.value), repr(self.value)

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Absent:
    """An argument, or a part of one, that is None."""

    @property
    def key(self) -> Hashable:
        """Equal for all objects of this class."""
        return None

    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True, slots=True)
class Opaque:
    """An object that torchspan cannot inspect.

    Attributes:
        kind: Its class.
        reason: Why torchspan does not read it, as a part of a sentence.
    """

    kind: type
    reason: str

    @property
    def key(self) -> Hashable:
        """Equal for objects of one class."""
        return id(self.kind)

    def __str__(self) -> str:
        return self.kind.__name__


ABSENT = Absent()

Leaf = TensorShape | Constant | Absent | Opaque


def label(path: Path) -> str:
    """A path as a user reads it: `past[0][1]`, `batch['mask']`."""
    name, *keys = path
    return str(name) + "".join(f"[{key!r}]" for key in keys)


def public_label(path: Path) -> str:
    """A path as it may leave the process: `past[0][?]`. Keys of dictionaries, and names that `**kwargs` takes, are the program's."""
    name, *keys = path
    parameter, dot, _ = str(name).partition(".")
    places = (f"[{key}]" if type(key) is int and key >= 0 else "[?]" for key in keys)
    return parameter + (".?" if dot else "") + "".join(places)
