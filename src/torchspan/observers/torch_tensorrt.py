# SPDX-License-Identifier: Apache-2.0
"""Observers of what Torch-TensorRT does: from the entry points to the runs of engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torchspan import phase
from torchspan.observers._observable import CallableObservers
from torchspan.observers._official import missing, official

__all__ = [
    "compile",
    "construct_network",
    "convert",
    "convert_to_engine",
    "decompose",
    "engine_cache_insert",
    "engine_cache_lookup",
    "execute",
    "load",
    "lower",
    "lower_pre_export",
    "partition",
    "pass_",
    "refit",
    "save",
    "setup_engine",
    "trace",
]

compile: CallableObservers = official("torch_tensorrt.compile", phase.COMPILE)  # noqa: A001 - the name of the phase
"""One compilation, from the entry point the user called to the compiled module."""

convert_to_engine: CallableObservers = official("torch_tensorrt.convert_to_engine", phase.CONVERT_TO_ENGINE)
"""A whole model on its way to the bytes of one TensorRT engine, without a module around it."""

refit: CallableObservers = official("torch_tensorrt.refit", phase.REFIT)
"""New weights for the engines of a compiled module, without building them again."""

save: CallableObservers = official("torch_tensorrt.save", phase.SAVE)
"""Writing a compiled module to a file."""

load: CallableObservers = official("torch_tensorrt.load", phase.LOAD)
"""Reading a compiled module from a file, its engines included."""

trace: CallableObservers = official("torch_tensorrt.trace", phase.TRACE)
"""`torch_tensorrt.dynamo.trace`: from a module to an exported program."""

lower_pre_export: CallableObservers = official("torch_tensorrt.lower_pre_export", phase.LOWER_PRE_EXPORT)
"""Lowering passes that run before decomposition."""

decompose: CallableObservers = official("torch_tensorrt.decompose", phase.DECOMPOSE)
"""Decomposition of the graph into the operators that converters know."""

lower: CallableObservers = official("torch_tensorrt.lower", phase.LOWER)
"""Lowering passes that run after decomposition."""

pass_: CallableObservers = official("torch_tensorrt.pass_", phase.PASS)
"""One lowering pass (at detail `passes`)."""

partition: CallableObservers = official("torch_tensorrt.partition", phase.PARTITION)
"""Splitting the graph into what runs in TensorRT and what in PyTorch."""

convert: CallableObservers = official("torch_tensorrt.convert", phase.CONVERT)
"""One subgraph on its way to one TensorRT engine."""

engine_cache_lookup: CallableObservers = official("torch_tensorrt.engine_cache_lookup", phase.CACHE_LOOKUP)
"""A lookup in the engine cache, a refit after a hit included."""

engine_cache_insert: CallableObservers = official("torch_tensorrt.engine_cache_insert", phase.CACHE_INSERT)
"""Putting a new engine into the engine cache."""

construct_network: CallableObservers = official("torch_tensorrt.construct_network", phase.CONSTRUCT_NETWORK)
"""Running the converters: from the subgraph to TensorRT's network."""

setup_engine: CallableObservers = official("torch_tensorrt.setup_engine", phase.SETUP_ENGINE)
"""Making a serialized engine ready to run."""

execute: CallableObservers = official("torch_tensorrt.execute", phase.EXECUTE)
"""One run of one engine, as the host sees it (the device works on)."""

if not TYPE_CHECKING:  # a type checker knows the names

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
