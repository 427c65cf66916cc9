# SPDX-License-Identifier: Apache-2.0
"""Observers of the work of TensorRT and TensorRT-RTX, whichever program or library calls them."""

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
"""The parsing of an ONNX model into a network by TensorRT's parser."""

build_engine: CallableObservers = official("tensorrt.build_engine", phase.BUILD_ENGINE)
"""The build of one network by TensorRT's builder."""

build_phase: CallableObservers = official("tensorrt.build_phase", phase.BUILD_PHASE)
"""One phase of a build, as TensorRT's progress monitor reports it. Only if `TORCHSPAN_BUILD_PHASES` enables build phases."""

deserialize_engine: CallableObservers = official("tensorrt.deserialize_engine", phase.DESERIALIZE_ENGINE)
"""The deserialization of an engine by TensorRT."""

create_context: CallableObservers = official("tensorrt.create_context", phase.CREATE_CONTEXT)
"""The creation of an execution context of an engine, including its device memory."""

execute: CallableObservers = official("tensorrt.execute", phase.RUN_CONTEXT)
"""One run of an execution context that the program itself uses, as the host sees it: the device may still be working at
the end."""

if not TYPE_CHECKING:  # a type checker knows the names

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
