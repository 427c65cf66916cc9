# SPDX-License-Identifier: Apache-2.0
"""Where an observer has its calls from: a model that is being observed, or what was observed elsewhere."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from typing import Any, Protocol

from torchspan.inputs.observed.attachments import Attachment
from torchspan.inputs.observed.observations import ObservedCalls, Snapshot
from torchspan.inputs.observed.recorder import ModuleRecorder
from torchspan.inputs.observed.signatures import CallSignature, signature_of
from torchspan.inputs.observed.trees import Tree
from torchspan.inputs.written.portable import Portable, name_of, resolved


class CallSource(Protocol):
    """The calls of one method of one class."""

    @property
    def name(self) -> str:
        """`Class.method`."""

    @property
    def method_name(self) -> str:
        """The name of the method."""

    @property
    def signature(self) -> CallSignature:
        """Of the method."""

    @property
    def absent_values(self) -> Mapping[str, Tree]:
        """What stands for arguments in the calls that lack them."""

    @property
    def completed(self) -> int:
        """How many recorded calls returned."""

    def snapshot(self) -> Snapshot:
        """The calls until now."""

    def portable(self) -> Portable:
        """The calls until now, for a file or another observer."""


class Live:
    """The method that an observer observes, and what was recorded of it."""

    def __init__(self, model: Any, method_name: str, absent_values: Mapping[str, Tree], keep: int) -> None:
        self.name = f"{type(model).__name__}.{method_name}"
        self.method_name = method_name
        try:
            self._model = weakref.ref(model)
            vars(model)
        except TypeError:
            raise TypeError(
                f"An object of the class {type(model).__name__} cannot be observed: it has no `__dict__`."
            ) from None
        self._kind = type(unwrapped(model, method_name))
        self.signature = method_signature(model, method_name)
        self.absent_values = absent_values
        self.observations = ObservedCalls()
        self.recorder = ModuleRecorder(self.signature, self.observations, keep)
        self.attachment: Attachment | None = None
        self.blocks = 0

    def is_of(self, model: Any, method_name: str) -> bool:
        """Whether it observes this method of this very object."""
        return self._model() is model and self.method_name == method_name

    @property
    def completed(self) -> int:
        """See `Source.completed`."""
        return self.observations.completed

    def snapshot(self) -> Snapshot:
        """See `Source.snapshot`."""
        return self.observations.snapshot()

    def portable(self) -> Portable:
        """See `Source.portable`."""
        kind = name_of(self._kind)
        return Portable(kind, self.method_name, self.signature, self.snapshot(), self.absent_values, frozenset())


class Elsewhere:
    """Calls that another observer has recorded, in this process or in another one.

    Their data types and classes are known by name, and looked up in this process when they are needed.
    """

    def __init__(self, portable: Portable) -> None:
        self._given = portable
        self._found: tuple[object, Portable] = None, portable
        self.name = portable.name
        self.method_name = portable.method
        self.completed = portable.snapshot.counts.completed

    @property
    def signature(self) -> CallSignature:
        """See `Source.signature`."""
        return self._resolved().signature

    @property
    def absent_values(self) -> Mapping[str, Tree]:
        """See `Source.absent_values`."""
        return self._resolved().absent

    def snapshot(self) -> Snapshot:
        """See `Source.snapshot`."""
        return self._resolved().snapshot

    def portable(self) -> Portable:
        """See `Source.portable`."""
        return self._given

    def _resolved(self) -> Portable:
        """Looked up again where classes have been registered since, or torch has been imported."""
        pytree = sys.modules.get("torch.utils._pytree")
        registered = None if pytree is None else len(pytree.SUPPORTED_NODES)
        if registered != self._found[0]:
            self._found = registered, resolved(self._given)
        return self._found[1]


def unwrapped(model: Any, method_name: str) -> Any:
    """What `torch.compile` wraps, else the model."""
    inner = getattr(model, "_orig_mod", None) if method_name == "forward" else None
    return model if inner is None else inner


def method_signature(model: Any, method_name: str) -> CallSignature:
    """The signature of a method of a model."""
    return signature_of(getattr(unwrapped(model, method_name), method_name))
