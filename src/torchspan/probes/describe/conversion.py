# SPDX-License-Identifier: Apache-2.0
"""One engine: conversion, network, set-up."""

from __future__ import annotations

import sys
from typing import Any

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.reading import attribute, whole_number
from torchspan._base.scratch import Key, Scratch
from torchspan.probes._call import Call
from torchspan.probes.describe.artifacts import file_size
from torchspan.probes.describe.common import (
    LIST_LIMIT,
    calls,
    engine_id,
    inputs,
    is_node,
    operator_name,
    stand_in,
    without_none,
)

Facts = dict[str, Any]

CONVERTERS: Key[dict[str, list[float]]] = Key("converters")
"""Scratch key: operator -> [count, seconds]."""

CONVERTERS_LIMIT = 1_000
"""Different operators whose converters are counted. Their names may be the program's."""


def convert(call: Call) -> Facts:
    """`convert_module(module, inputs, settings, name, engine_cache)`."""
    shapes, dtypes = inputs(call.get("inputs"))
    return without_none(
        {
            semconv.ENGINE_NAME: reading.text(call.get("name")) or None,
            semconv.ENGINE_OPERATORS: sum(1 for _ in calls(call.get("module"))),
            semconv.INPUT_SHAPES: shapes,
            semconv.INPUT_DTYPES: dtypes,
        }
    )


def interpreted(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """`SerializedInterpreterResult`: the engine's bytes."""
    serialized = attribute(result, "serialized_engine")
    return without_none({semconv.ENGINE_SIZE: reading.size(serialized), semconv.ENGINE_ID: engine_id(serialized)})


def count_converter(scratch: Scratch, call: Call, _result: Any, duration_s: float) -> None:
    """One `run_node(self, n)` of the interpreter. Only calls of functions have converters."""
    node = call.get("n")
    if not is_node(node) or node.op != "call_function":
        return
    converters, name = scratch.setdefault(CONVERTERS, {}), operator_name(node.target)
    if name not in converters and len(converters) >= CONVERTERS_LIMIT:
        return
    entry = converters.setdefault(name, [0, 0.0])
    entry[0] += 1
    entry[1] += duration_s


def network(call: Call, _result: Any, scratch: Scratch) -> Facts:
    """The network that `_construct_trt_network_def(self)` made, and what the converters took."""
    net = attribute(attribute(call.get("self"), "ctx"), "net")
    slowest = sorted(scratch.get(CONVERTERS, {}).items(), key=lambda row: -row[1][1])[:LIST_LIMIT]
    return {
        **without_none({semconv.NETWORK_LAYERS: whole_number(attribute(net, "num_layers"))}),
        semconv.CONVERTER_OPERATORS: [name for name, _ in slowest],
        semconv.CONVERTER_COUNTS: [count for _, (count, _) in slowest],
        semconv.CONVERTER_DURATIONS: [seconds for _, (_, seconds) in slowest],
    }


def setup(call: Call) -> Facts:
    """`setup_engine(self)` of the module that wraps an engine."""
    module, serialized = call.get("self"), serialized_of(call)
    return without_none(
        {
            semconv.ENGINE_NAME: reading.text(attribute(module, "name")) or None,
            semconv.ENGINE_ID: engine_id(serialized),
            semconv.ENGINE_SIZE: reading.size(serialized),
        }
    )


def was_set_up(call: Call, _result: Any, _scratch: Scratch) -> Facts:
    """Which runtime holds the engine: that of C++ is a TorchScript object, the other is written in Python."""
    engine = engine_of_module(call)
    return {
        semconv.RUNTIME: "cpp" if reading.class_name(type(engine)) == "ScriptObject" else "python",
        **stand_in(attribute(engine, "cuda_engine", engine)),
    }


def engine_of_module(call: Call) -> Any:
    """The engine that a `TorchTensorRTModule` holds and hands to the operator."""
    return attribute(call.get("self"), "engine")


def serialized_of(call: Call) -> Any:
    """The bytes that the call's own object is set up from: a module's, or those of a `TRTEngine`."""
    return attribute(call.get("self"), "serialized_engine")


def refitted_engine(call: Call) -> Any:
    """`_refit_single_trt_engine_with_gm(new_gm, old_engine, ...)`: the engine that gets other weights in place."""
    return call.get("old_engine")


def module_itself(call: Call) -> Any:
    """The call's own object: an engine being set up, or the older runtime's module, which runs its engine itself."""
    return call.get("self")


def timing_cache_in(call: Call) -> Facts:
    """`TRTInterpreter._create_timing_cache(self, builder_config, timing_cache_path)`, which reads the file if it exists."""
    if _has_no_timing_cache():
        return {}
    size = file_size(call.get("timing_cache_path"))
    return {semconv.TIMING_CACHE_FILE: "created" if size is None else "read"}


def _has_no_timing_cache() -> bool:
    features = getattr(sys.modules.get("torch_tensorrt"), "ENABLED_FEATURES", None)
    return bool(getattr(features, "tensorrt_rtx", True))
