# SPDX-License-Identifier: Apache-2.0
"""Observers of Torch-TensorRT's work, from the entry points to the runs of engines."""

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
"""One compilation by Torch-TensorRT, from the entry point that the user called to the compiled module."""

convert_to_engine: CallableObservers = official("torch_tensorrt.convert_to_engine", phase.CONVERT_TO_ENGINE)
"""The conversion of a whole model to the bytes of one TensorRT engine, without a compiled module around it."""

refit: CallableObservers = official("torch_tensorrt.refit", phase.REFIT)
"""The replacement of the weights in the engines of a compiled module, without building the engines again."""

save: CallableObservers = official("torch_tensorrt.save", phase.SAVE)
"""Writing a compiled module to a file."""

load: CallableObservers = official("torch_tensorrt.load", phase.LOAD)
"""Reading a compiled module from a file, including its engines."""

trace: CallableObservers = official("torch_tensorrt.trace", phase.TRACE)
"""`torch_tensorrt.dynamo.trace`, which makes an exported program from a module."""

lower_pre_export: CallableObservers = official("torch_tensorrt.lower_pre_export", phase.LOWER_PRE_EXPORT)
"""Lowering passes that run before decomposition."""

decompose: CallableObservers = official("torch_tensorrt.decompose", phase.DECOMPOSE)
"""The decomposition of the graph into operators that converters know."""

lower: CallableObservers = official("torch_tensorrt.lower", phase.LOWER)
"""Lowering passes that run after decomposition."""

pass_: CallableObservers = official("torch_tensorrt.pass_", phase.PASS)
"""One lowering pass, at every detail."""

partition: CallableObservers = official("torch_tensorrt.partition", phase.PARTITION)
"""The partitioning of the graph into the parts that run in TensorRT and the parts that run in PyTorch."""

convert: CallableObservers = official("torch_tensorrt.convert", phase.CONVERT)
"""The conversion of one subgraph to one TensorRT engine."""

engine_cache_lookup: CallableObservers = official("torch_tensorrt.engine_cache_lookup", phase.CACHE_LOOKUP)
"""An engine-cache lookup, including the refit after a hit."""

engine_cache_insert: CallableObservers = official("torch_tensorrt.engine_cache_insert", phase.CACHE_INSERT)
"""The insertion of a new engine into the engine cache."""

construct_network: CallableObservers = official("torch_tensorrt.construct_network", phase.CONSTRUCT_NETWORK)
"""The construction of a TensorRT network from a subgraph, in which the converters run."""

setup_engine: CallableObservers = official("torch_tensorrt.setup_engine", phase.SETUP_ENGINE)
"""The preparation of a serialized engine for its runs."""

execute: CallableObservers = official("torch_tensorrt.execute", phase.EXECUTE)
"""One run of one engine through Torch-TensorRT, as the host sees it: the device may still be working at the end."""

if not TYPE_CHECKING:  # a type checker knows the names

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
