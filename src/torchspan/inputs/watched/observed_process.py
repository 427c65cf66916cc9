# SPDX-License-Identifier: Apache-2.0
"""What all objects of some classes are called with in one process, from its start to its end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from torchspan.base.by_identity import ByIdentity
from torchspan.base.forks import in_each_child, renewed
from torchspan.inputs.observed.attachments import ForwardHooks
from torchspan.inputs.observed.observations import ObservedCalls
from torchspan.inputs.observed.origins import forward_signature
from torchspan.inputs.observed.recorder import ModuleRecorder
from torchspan.inputs.observed.watched_classes import WatchedClass
from torchspan.inputs.written.documents import Document, writes_values
from torchspan.inputs.written.encoder import Record, encoded
from torchspan.inputs.written.portable import Portable, name_of


class ObservedProcess:
    """Observes every object of some classes, and of classes derived from them. Objects of one class are observed as one.

    A forked child has the objects, and counts from zero: the calls before the fork are the parent's.

    Raises ValueError where one names no class.

    Args:
        paths: The classes, as `WatchedClass` takes them.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._lock = renewed(threading.RLock())
        self._kinds: dict[type, _Kind] = {}
        self._objects: ByIdentity[ForwardHooks] = ByIdentity()
        self._watched = [WatchedClass(path, self._made) for path in dict.fromkeys(paths)]
        in_each_child(self.begin_again)

    def document(self) -> Document:
        """What has been observed until now; with values where the environment asks for them."""
        has_values = writes_values()
        with self._lock:
            records = [kind.record(values=has_values) for kind in self._kinds.values()]
        unseen = {watched.path: watched.problem for watched in self._watched if watched.problem is not None}
        return Document(records, unseen)

    def close(self) -> None:
        """Observe nothing any more."""
        for watched in self._watched:
            watched.close()
        for thing in self._objects:
            self._leave(thing)

    def _made(self, thing: Any) -> None:
        with self._lock:
            kind = self._kinds.get(type(thing)) or _Kind(thing)
            self._objects[thing] = ForwardHooks(thing, kind.recorder)
            self._kinds[type(thing)] = kind

    def _leave(self, thing: Any) -> None:
        hooks = self._objects.pop(thing)
        if hooks is not None:
            hooks.detach()

    def begin_again(self) -> None:
        """Count from zero."""
        self._kinds = {}
        for thing in self._objects:
            self._leave(thing)
            self._made(thing)


class _Kind:
    """All objects of one class."""

    def __init__(self, thing: Any) -> None:
        self._name = name_of(type(thing))
        self._signature = forward_signature(thing)
        self._observations = ObservedCalls()
        self.recorder = ModuleRecorder(self._signature, self._observations, reads_caches=True)

    def record(self, *, values: bool) -> Record:
        calls = Portable(self._name, self._signature, self._observations.snapshot(), {}, frozenset())
        return encoded(calls, values=values)
