# SPDX-License-Identifier: Apache-2.0
"""Which graph belongs to which engine bytes: found by the SHA-256 of the bytes, in this process or in a folder."""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import Any

from torchspan.base.forks import renewed
from torchspan.hooks.without_gpu._engine_folder import EngineFolder
from torchspan.hooks.without_gpu._reference import Reference

_networks: weakref.WeakKeyDictionary[Any, Reference] = weakref.WeakKeyDictionary()
_engines: dict[str, Reference] = {}
_stored: set[str] = set()
"""Engines that the folder has: they are not written again."""
_lock = renewed(threading.RLock())
_folder: EngineFolder | None = None


def share(folder: EngineFolder | None) -> None:
    """Keep engines in `folder`, too, and look there for engines of other processes."""
    global _folder
    _folder = folder
    _stored.clear()


def constructed(network: Any, reference: Reference) -> None:
    """`network`, an INetworkDefinition, describes the graph of `reference`."""
    with _lock:
        _networks[network] = reference


def built(network: Any, engine: bytes) -> None:
    """`engine` was built from `network`. Networks that torch_tensorrt did not construct are not known here."""
    with _lock:
        reference = _networks.get(network)
    if reference is not None:
        keep(engine, reference)


def keep(engine: bytes, reference: Reference) -> None:
    """Remember what `engine` was built from, for as long as the process lives."""
    with _lock:
        _engines[_key(engine)] = reference


def find(engine: bytes) -> Reference | None:
    """The reference of `engine`. None for bytes that are not an engine, or one that the stand-in did not build.

    What this process built is stored for others here, and not when it is built: a build is real, and its duration counts.
    """
    key = _key(engine)
    with _lock:
        reference, folder, is_stored = _engines.get(key), _folder, key in _stored
    if folder is None or is_stored:
        return reference
    if reference is not None:
        folder.write(key, reference)
    else:
        reference = folder.read(key)
    if reference is not None:
        with _lock:
            _engines[key] = reference
            _stored.add(key)
    return reference


def _key(engine: bytes) -> str:
    return hashlib.sha256(engine).hexdigest()
