# SPDX-License-Identifier: Apache-2.0
"""One engine: conversion, network, set-up."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute, is_a, whole_number
from torchspan.base.scratch import Key, Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe.artifacts import file_size
from torchspan.hooks.probes.describe.cache import availability
from torchspan.hooks.probes.describe.common import (
    LIST_LIMIT,
    UNKNOWN,
    calls,
    engine_id,
    inputs,
    is_node,
    meta,
    operator_name,
    stand_in,
)
from torchspan.words import semconv

Facts = dict[str, Any]

# --- the modules of the model, which PyTorch's tracers write at each node (`nn_module_stack`) ---------------------------
_MODEL = re.compile(r"^[LG]\['\w+'\]\.?")
"""Dynamo's name of the model, with which paths begin in Dynamo's graphs."""


def module_range(graph_module: Any) -> list[str] | None:
    """Paths of the first and the last module in a graph; one path if they are the same. None if no node has one."""
    nodes = list(calls(graph_module))
    ends = [path for path in (_first_path(nodes), _first_path(reversed(nodes))) if path is not None]
    return list(dict.fromkeys(ends)) or None


def _first_path(nodes: Iterable[Any]) -> str | None:
    return next((path for node in nodes if (path := _path(meta(node, "nn_module_stack"))) is not None), None)


def _path(stack: Any) -> str | None:
    """The path of the innermost module that is not torch.nn's own; of the innermost one if all are. The model itself has none."""
    rows = (reading.entries(stack) or ()) if is_a(stack, dict) else ()
    pairs = [row for row in rows if type(row) is tuple and len(row) == 2 and type(row[0]) is str]
    modules = {path: origin for name, origin in pairs if (path := _MODEL.sub("", name))}
    own = [path for path, origin in modules.items() if not _is_of_torch(origin)]
    return _without_keys((own or list(modules))[-1], modules) if modules else None


def _is_of_torch(origin: Any) -> bool:
    """Whether a class, or the qualified name of one, is in torch.nn."""
    name = reading.module_of(origin) if is_a(origin, type) else reading.text(origin) or ""
    return f"{name}.".startswith("torch.nn.")


def _without_keys(path: str, called: Iterable[str]) -> str:
    """The path without names that may be keys of a ModuleDict. One calls what a ModuleDict holds, not the ModuleDict itself."""
    parts = path.split(".")
    return ".".join(
        part if not index or part.isdigit() or ".".join(parts[:index]) in called else UNKNOWN
        for index, part in enumerate(parts)
    )


# ------------------------------------------------------------------------------------------------------------------
CONVERTERS: Key[dict[str, list[float]]] = Key("converters")
"""Scratch key: operator -> [count, seconds]."""

CONVERTERS_LIMIT = 1_000
"""Different operators whose converters are counted. Their names may be the program's."""


def convert(call: Call) -> Facts:
    """`convert_module(module, inputs, settings, name, engine_cache)`."""
    shapes, dtypes = inputs(call.get("inputs"))
    return {
        semconv.ENGINE_NAME: reading.text(call.get("name")) or None,
        semconv.ENGINE_MODULES: module_range(call.get("module")),
        semconv.ENGINE_OPERATORS: sum(1 for _ in calls(call.get("module"))),
        semconv.INPUT_SHAPES: shapes,
        semconv.INPUT_DTYPES: dtypes,
    }


def interpreting(call: Call) -> Facts:
    """`interpret_module_to_result(module, inputs, settings, engine_cache)`: below it is every conversion."""
    return {semconv.ENGINE_MODULES: module_range(call.get("module")), **availability(call)}


def interpreted(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """`SerializedInterpreterResult`: the engine's bytes."""
    serialized = attribute(result, "serialized_engine")
    return {semconv.ENGINE_SIZE: reading.size(serialized), semconv.ENGINE_ID: engine_id(serialized)}


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
        semconv.NETWORK_LAYERS: whole_number(attribute(net, "num_layers")),
        semconv.CONVERTER_OPERATORS: [name for name, _ in slowest],
        semconv.CONVERTER_COUNTS: [count for _, (count, _) in slowest],
        semconv.CONVERTER_DURATIONS: [seconds for _, (_, seconds) in slowest],
    }


def setup(call: Call) -> Facts:
    """`setup_engine(self)` of the module that wraps an engine."""
    module, serialized = call.get("self"), serialized_of(call)
    return {
        semconv.ENGINE_NAME: reading.text(attribute(module, "name")) or None,
        semconv.ENGINE_ID: engine_id(serialized),
        semconv.ENGINE_SIZE: reading.size(serialized),
    }


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
