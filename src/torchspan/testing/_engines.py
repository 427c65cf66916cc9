# SPDX-License-Identifier: Apache-2.0
"""Which graph belongs to which engine bytes: found by the SHA-256 of the bytes, in this process or in a folder."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import torch

from torchspan.testing._errors import UnknownEngineError
from torchspan.testing._reference import Binding, Reference

# Plans begin "ftrt" (TensorRT) or "vtrt" (TensorRT-RTX); for anything else TensorRT returns None, and so does `find`.
_PLAN_MAGIC = b"trt"

_networks: weakref.WeakKeyDictionary[Any, Reference] = weakref.WeakKeyDictionary()
_engines: dict[str, Reference] = {}
_lock = threading.Lock()
_folder: Path | None = None


def share(folder: Path) -> None:
    """Also keep engines in `folder` and look there for engines of other processes."""
    global _folder
    folder.mkdir(parents=True, exist_ok=True)
    _folder = folder


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
    key = hashlib.sha256(engine).hexdigest()
    with _lock:
        _engines[key] = reference
    if _folder is not None:
        _write(_folder / f"{key}.pt", reference)


def find(engine: bytes) -> Reference | None:
    """The reference of `engine`, or None where the bytes are no engine at all.

    Raises UnknownEngineError for an engine that neither this process nor the shared folder knows.
    """
    key = hashlib.sha256(engine).hexdigest()
    with _lock:
        reference = _engines.get(key)
    if reference is None and _folder is not None and (_folder / f"{key}.pt").exists():
        reference = _read(_folder / f"{key}.pt")
        with _lock:
            _engines[key] = reference
    if reference is None and engine[1:4] == _PLAN_MAGIC:
        raise UnknownEngineError(
            f"This TensorRT engine ({len(engine)} bytes, SHA-256 {key[:12]}) was built in another process, on a machine with "
            "a GPU, or from a network that torch_tensorrt did not construct: without a GPU an engine runs only where the "
            "graph it was built from is known. Build it with torch_tensorrt in this process, or give both processes the same folder: torchspan.testing.without_gpu(engine_dir=...)."
        )
    return reference


def _write(path: Path, reference: Reference) -> None:
    for node in reference.graph.graph.nodes:  # symbolic values carry their ShapeEnv, which cannot be pickled
        node.meta = {"val": 0} if isinstance(node.meta.get("val"), (torch.SymInt, int)) else {}
    bindings = {name: dataclasses.astuple(binding) for name, binding in reference.bindings.items()}
    unfinished = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    torch.save((reference.graph, bindings, reference.profiles, reference.outputs), unfinished)
    unfinished.replace(path)


def _read(path: Path) -> Reference:
    """Raises what torch.load raises. The file is code: the folder must be the user's own."""
    graph, bindings, profiles, outputs = torch.load(path, weights_only=False)
    return Reference(graph, {name: Binding(*fields) for name, fields in bindings.items()}, profiles, outputs)
