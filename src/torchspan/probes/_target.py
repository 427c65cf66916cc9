# SPDX-License-Identifier: Apache-2.0
"""What a probe hooks: each kind of target is a subclass of `str` with the text `module:name`."""

from __future__ import annotations


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


class WatchedObject(Target):
    """`module:name`: an object that is not called. It can only be watched."""

    __slots__ = ()
