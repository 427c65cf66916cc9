# SPDX-License-Identifier: Apache-2.0
"""Runs of an engine, through Torch-TensorRT or through an execution context of TensorRT's."""

from __future__ import annotations

from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute, whole_number
from torchspan.base.scratch import Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe.common import (
    LIST_LIMIT,
    UNKNOWN,
    handle_of,
    inputs,
    shape_list,
    stand_in,
    tensorrt_dtype,
)
from torchspan.words import semconv

Facts = dict[str, Any]


def execute(engine: Any, tensors: Any, first: bool) -> Facts:
    """`engine` is the object that runs (of either runtime), `tensors` its inputs.

    The module adds `_engine` to the subgraph's name (`TorchTensorRTModule`); without it the name is the same as on
    the span of the conversion.
    """
    shapes, dtypes = inputs(tensors)
    name = reading.text(attribute(engine, "name"))
    return {
        semconv.ENGINE_NAME: name.removesuffix("_engine") if name else None,
        semconv.INPUT_SHAPES: shapes,
        semconv.INPUT_DTYPES: dtypes,
        semconv.EXECUTE_FIRST: first,
        **stand_in(handle_of(engine)),
    }


def run_context(context: Any, _tensors: Any, first: bool) -> Facts:
    """`context` is an IExecutionContext: it knows its inputs by name, and their shapes as they are set."""
    engine = attribute(context, "engine")
    if not (reading.is_of_library(type(context)) and reading.is_of_library(type(engine))):
        return {semconv.RUN_FIRST: first}
    tensors = (engine.get_tensor_name(index) for index in range(engine.num_io_tensors))
    names = [name for name in tensors if engine.get_tensor_mode(name).name == "INPUT"][:LIST_LIMIT]
    return {
        semconv.RUN_FIRST: first,
        semconv.RUN_SHAPES: [shape_list(context.get_tensor_shape(name)) or UNKNOWN for name in names],
        semconv.RUN_DTYPES: [tensorrt_dtype(engine.get_tensor_dtype(name)) for name in names],
        **stand_in(context),
    }


def context_ran(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """A run that fails returns False; TensorRT writes the cause to its log."""
    return {semconv.ERROR_TYPE: RUN_FAILED} if result is False else {}


RUN_FAILED = "execution_failed"
"""`error.type` of a run that returned False."""


def new_context(call: Call) -> Facts:
    """`ICudaEngine.create_execution_context(self, ...)`: the engine, read only."""
    engine = call.args[0] if call.args else None
    return {
        semconv.CONTEXT_MEMORY: whole_number(attribute(engine, "device_memory_size_v2")),
        **stand_in(engine),
    }


def context_created(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """None if it failed, mostly because of too little device memory."""
    return {semconv.ERROR_TYPE: CONTEXT_FAILED} if result is None else {}


CONTEXT_FAILED = "context_creation_failed"
"""`error.type` if no context was made."""
