# SPDX-License-Identifier: Apache-2.0
"""Observers of Torch-TensorRT's work, from the entry points to the runs of engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torchspan.hooks.observers._observable import CallableObservers
from torchspan.hooks.observers._official import missing, pairs_of

compile: CallableObservers  # noqa: A001 - the name of the phase
"""One compilation by Torch-TensorRT, from the entry point that the user called to the compiled module."""

convert_to_engine: CallableObservers
"""The conversion of a whole model to the bytes of one TensorRT engine, without a compiled module around it."""

refit: CallableObservers
"""The replacement of the weights in the engines of a compiled module, without building the engines again."""

save: CallableObservers
"""Writing a compiled module to a file."""

load: CallableObservers
"""Reading a compiled module from a file, including its engines."""

trace: CallableObservers
"""`torch_tensorrt.dynamo.trace`, which makes an exported program from a module."""

lower_pre_export: CallableObservers
"""Lowering passes that run before decomposition."""

decompose: CallableObservers
"""The decomposition of the graph into operators that converters know."""

lower: CallableObservers
"""Lowering passes that run after decomposition."""

pass_: CallableObservers
"""One lowering pass, at every detail."""

partition: CallableObservers
"""The partitioning of the graph into the parts that run in TensorRT and the parts that run in PyTorch."""

convert: CallableObservers
"""The conversion of one subgraph to one TensorRT engine."""

engine_cache_lookup: CallableObservers
"""An engine-cache lookup, including the refit after a hit."""

engine_cache_insert: CallableObservers
"""The insertion of a new engine into the engine cache."""

construct_network: CallableObservers
"""The construction of a TensorRT network from a subgraph, in which the converters run."""

setup_engine: CallableObservers
"""The preparation of a serialized engine for its runs."""

execute: CallableObservers
"""One run of one engine through Torch-TensorRT, as the host sees it: the device may still be working at the end."""

if not TYPE_CHECKING:  # a type checker knows the names
    _PAIRS = pairs_of("torch_tensorrt")
    globals().update(_PAIRS)
    __all__ = list(_PAIRS)

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)
