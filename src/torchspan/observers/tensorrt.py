# SPDX-License-Identifier: Apache-2.0
"""Observers of what TensorRT and TensorRT-RTX do, whichever program or library calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torchspan import phase
from torchspan.observers._observable import CallableObservers
from torchspan.observers._official import missing, official

__all__ = [
    "build_engine",
    "build_phase",
    "create_context",
    "deserialize_engine",
    "execute",
    "parse",
]

parse: CallableObservers = official("tensorrt.parse", phase.PARSE)
"""TensorRT's parser reading an ONNX model into a network."""

build_engine: CallableObservers = official("tensorrt.build_engine", phase.BUILD_ENGINE)
"""TensorRT's builder at work on one network."""

build_phase: CallableObservers = official("tensorrt.build_phase", phase.BUILD_PHASE)
"""One of the phases that TensorRT's progress monitor reports."""

deserialize_engine: CallableObservers = official("tensorrt.deserialize_engine", phase.DESERIALIZE_ENGINE)
"""TensorRT reading a serialized engine."""

create_context: CallableObservers = official("tensorrt.create_context", phase.CREATE_CONTEXT)
"""Making an execution context of an engine, its device memory included."""

execute: CallableObservers = official("tensorrt.execute", phase.RUN_CONTEXT)
"""One run of an execution context that the program itself uses, as the host sees it (the device works on)."""

if not TYPE_CHECKING:  # a type checker knows the names

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
