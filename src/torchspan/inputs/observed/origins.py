# SPDX-License-Identifier: Apache-2.0
"""Where an observer has its calls from: a model that is being observed, or what was observed elsewhere."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from torchspan.inputs.observed.attachments import ForwardHooks
from torchspan.inputs.observed.observations import ObservedCalls, Snapshot
from torchspan.inputs.observed.recorder import ModuleRecorder
from torchspan.inputs.observed.signatures import CallSignature, signature_of
from torchspan.inputs.observed.trees import Tree
from torchspan.inputs.written.decoder import decoded
from torchspan.inputs.written.documents import title
from torchspan.inputs.written.encoder import Record, encoded, hidden_name
from torchspan.inputs.written.portable import METHOD, Portable, name_of


class Live:
    """The model that an observer observes, and what was recorded of it."""

    def __init__(self, model: Any, absent_values: Mapping[str, Tree]) -> None:
        self.name = f"{type(model).__name__}.{METHOD}"
        self._model = weakref.ref(model)
        self._kind = type(unwrapped(model))
        self.signature = forward_signature(model)
        self.absent_values = absent_values
        self.observations = ObservedCalls()
        self.recorder = ModuleRecorder(self.signature, self.observations)
        self.hooks: ForwardHooks | None = None
        self.blocks = 0

    def is_of(self, model: Any) -> bool:
        """Whether it observes this very object."""
        return self._model() is model

    @property
    def completed(self) -> int:
        """How many recorded calls returned."""
        return self.observations.completed

    def snapshot(self) -> Snapshot:
        """The calls until now."""
        return self.observations.snapshot()

    def record(self, removed: frozenset[str], *, values: bool) -> Record:
        """The calls until now, for a file or another observer."""
        kind = name_of(self._kind)
        calls = Portable(kind, self.signature, self.snapshot(), self.absent_values, removed)
        return encoded(calls, values=values)


class Elsewhere:
    """Calls that another observer has recorded, in this process or in another one: see `Live`.

    Their data types and classes are known by name, and looked up in this process when they are needed.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._decoded: tuple[int | None, Portable] = self._registered(), decoded(record)
        self.name = title(record)
        self.completed: int = record["counts"]["completed"]

    @property
    def signature(self) -> CallSignature:
        return self._portable().signature

    @property
    def absent_values(self) -> Mapping[str, Tree]:
        return self._portable().absent

    @property
    def removed(self) -> frozenset[str]:
        return self._portable().removed

    def snapshot(self) -> Snapshot:
        return self._portable().snapshot

    def record(self, removed: frozenset[str], *, values: bool) -> Record:
        if values < self._record["values"]:
            return encoded(replace(self._portable(), removed=removed), values=False)
        return {**self._record, "removed": sorted(self._written(removed))}

    def _written(self, names: Iterable[str]) -> Iterable[str]:
        return (name if self._record["values"] else hidden_name(name, self.signature) for name in names)

    def _portable(self) -> Portable:
        """Looked up again where classes have been registered since, or torch has been imported."""
        registered = self._registered()
        if registered != self._decoded[0]:
            self._decoded = registered, decoded(self._record)
        return self._decoded[1]

    def _registered(self) -> int | None:
        pytree = sys.modules.get("torch.utils._pytree")
        return None if pytree is None else len(pytree.SUPPORTED_NODES)


def unwrapped(model: Any) -> Any:
    """What `torch.compile` wraps, else the model."""
    inner = getattr(model, "_orig_mod", None)
    return model if inner is None else inner


def forward_signature(model: Any) -> CallSignature:
    """The signature of `forward` of a model."""
    return signature_of(unwrapped(model).forward)
