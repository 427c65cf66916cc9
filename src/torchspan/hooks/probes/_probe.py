# SPDX-License-Identifier: Apache-2.0
"""A place that torchspan hooks: one frozen row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torchspan.hooks.probes._actions import Action


# --- targets --------------------------------------------------------------------------------------------------------
class Target(str):
    """`module:name` or `module:Class.name`. Each kind of target is a subclass."""

    __slots__ = ()

    @property
    def module(self) -> str:
        """The module in which the target is looked up."""
        return self.partition(":")[0]

    @property
    def path(self) -> tuple[str, ...]:
        """The names below the module: `("Class", "name")` or `("name",)`."""
        return tuple(self.partition(":")[2].split("."))


class Function(Target):
    """`module:name`: a function, replaced in every module of its library that contains it."""

    __slots__ = ()


class Method(Target):
    """`module:Class.name`: a method, replaced on its class."""

    __slots__ = ()


class InnerName(Target):
    """`module:inner.name`: a name of another module `inner`, replaced only as `module` sees it."""

    __slots__ = ()


class CustomOperator(Target):
    """`torch.ops:namespace.name`: a custom operator, whose Python entry is replaced (torch._ops)."""

    __slots__ = ()


class Lock(Target):
    """`module:name`: a lock, replaced in its module, where others look it up at each use."""

    __slots__ = ()


# ------------------------------------------------------------------------------------------------------------------
Version = tuple[int, int]
Detail = Literal["stages", "passes"]

SUPPORTED: tuple[Version, Version] = ((2, 11), (2, 14))
"""Oldest and newest torch-tensorrt (and -rtx) that torchspan is tested with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """Where torchspan hooks, and what it does there.

    Args:
        library: Import name of the library, `torch`, `torch_tensorrt` or `tensorrt` (which means TensorRT-RTX as well).
        target: What is hooked.
        action: What is done there.
        why: The reason for the hook, shown by `torchspan probes`.
        since, until: Versions of the library, both included, that have the target.
        package: The only TensorRT package (`tensorrt`, `tensorrt_rtx`) that has it.
        detail: The lowest detail level at which it is recorded.
    """

    library: str
    target: Target
    action: Action
    why: str
    since: Version | None = None
    until: Version | None = None
    package: str | None = None
    detail: Detail = "stages"

    def holds_for(self, version: str, package: str | None) -> bool:
        """Whether a library of this version, over this package, is expected to have the target.

        A version without a number is expected to have it.
        """
        number = parse_version(version)
        if self.package is not None and package != self.package:
            return False
        if number is None:
            return True
        return (self.since is None or self.since <= number) and (self.until is None or number <= self.until)


torch_tensorrt_probe = partial(Probe, library="torch_tensorrt")
"""A probe of Torch-TensorRT."""


def parse_version(version: str) -> Version | None:
    """Major and minor of `2.14.1+cu130`, `2.11.0a0+1a2b.nv26.01`, `2.15.0.dev20261101`; None without digits."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None
