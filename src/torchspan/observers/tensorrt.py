# SPDX-License-Identifier: Apache-2.0
"""Observers of the work of TensorRT and TensorRT-RTX, whichever program or library calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torchspan.hooks.observers._observable import CallableObservers
from torchspan.hooks.observers._official import missing, pairs_of

parse: CallableObservers
"""The parsing of an ONNX model into a network by TensorRT's parser."""

build_engine: CallableObservers
"""The build of one network by TensorRT's builder."""

build_phase: CallableObservers
"""One phase of a build, as TensorRT's progress monitor reports it. Only if `TORCHSPAN_BUILD_PHASES` enables build phases."""

deserialize_engine: CallableObservers
"""The deserialization of an engine by TensorRT."""

create_context: CallableObservers
"""The creation of an execution context of an engine, including its device memory."""

execute: CallableObservers
"""One run of an execution context that the program itself uses, as the host sees it: the device may still be working at
the end."""

if not TYPE_CHECKING:  # a type checker knows the names
    _PAIRS = pairs_of("tensorrt")
    globals().update(_PAIRS)
    __all__ = list(_PAIRS)

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
