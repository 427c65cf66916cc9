# SPDX-License-Identifier: Apache-2.0
"""From a subgraph to an engine's bytes, the engine cache and TensorRT's log included."""

from __future__ import annotations

from torchspan.hooks.probes._actions import Annotate, Record, Shares, Step, Tally, Tap
from torchspan.hooks.probes._probe import Function, InnerName, Method, Probe, torch_tensorrt_probe
from torchspan.hooks.probes.describe import cache, conversion, failure
from torchspan.words import phase, semconv

PROBES: tuple[Probe, ...] = (
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.conversion._conversion:convert_module"),
        action=Record(phase.CONVERT, start=conversion.convert, takes=(semconv.MODEL_CLASS,), is_named=True),
        why="one subgraph on its way to an engine",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.conversion._conversion:interpret_module_to_result"),
        action=Annotate(
            (phase.CONVERT, phase.CONVERT_TO_ENGINE), start=conversion.interpreting, end=conversion.interpreted
        ),
        why="returns the engine's bytes, from the cache or from a build; decides whether to use the cache",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.conversion._symbolic_shape_capture:extract_symbolic_shape_expressions"),
        action=Step(),
        why="output shapes as functions of input shapes",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo._engine_cache:BaseEngineCache.get_hash"),
        action=Step(),
        why="hashing the subgraph for the engine cache",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.conversion._conversion:pull_cached_engine"),
        action=Record(
            phase.CACHE_LOOKUP,
            start=cache.key,
            end=cache.looked_up,
            failed=cache.lookup_failed,
            shares=Shares(
                keys=(semconv.CACHE_RESULT, semconv.CACHE_REASON), phases=(phase.CONVERT, phase.CONVERT_TO_ENGINE)
            ),
        ),
        why="the engine-cache lookup; it refits the engine after a hit, so a hit takes time",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo._engine_cache:BaseEngineCache.check"),
        action=Step(tally=Tally((phase.CACHE_LOOKUP, phase.CACHE_INSERT), cache.count_read, counts_failures=True)),
        why="reading from a cache store, including the user's (unless it overrides `check`)",
    ),
    torch_tensorrt_probe(
        target=InnerName("torch_tensorrt.dynamo._engine_cache:pickle.loads"),
        action=Tally((phase.CACHE_LOOKUP,), cache.count_unpickled, counts_failures=True),
        why="the packed entry as it is read, from any cache: its size, and the fact that it existed, where the library "
        "then reports that there was none",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._settings:settings_are_compatible"),
        action=Tally((phase.CACHE_LOOKUP,), cache.count_settings),
        why="which settings of an entry differ; upstream raises a bare AssertionError",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt._Input:Input.equivalent_spec"),
        action=Tally((phase.CACHE_LOOKUP,), cache.count_input),
        why="whether an entry was built for these inputs; upstream raises a bare AssertionError",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._refit:_refit_single_trt_engine_with_gm"),
        action=Step(
            tally=Tally((phase.CACHE_LOOKUP,), cache.count_refit, counts_failures=True),
            invalidates=conversion.refitted_engine,
        ),
        why="what a cache hit costs: the engine gets this model's weights, and is another engine from then on",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.conversion._conversion:insert_engine_to_cache"),
        action=Record(phase.CACHE_INSERT, start=cache.key, end=cache.inserted, failed=cache.insertion_failed),
        why="a new engine goes into the cache",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo._engine_cache:BaseEngineCache.insert"),
        action=Step(),
        why="writing to a cache store",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo._engine_cache:BaseEngineCache.pack"),
        action=Tally((phase.CACHE_INSERT,), cache.count_packed),
        why="the packed entry as it is stored, in any cache: its size",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo._engine_cache:DiskEngineCache.clear_cache"),
        action=Tally((phase.CACHE_INSERT,), cache.count_freed, before=cache.free_bytes),
        why="the room that entries leave for a new one, without which a refused entry would look stored",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo._engine_cache:DiskEngineCache.save"),
        action=Tally((phase.CACHE_INSERT,), cache.count_saved, before=cache.free_bytes),
        why="a refused entry is a line in the log and counts as inserted",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._construct_trt_network_def"),
        action=Record(phase.CONSTRUCT_NETWORK, end=conversion.network, failed=failure.conversion),
        why="runs the converters; __init__ is left alone, because the Debugger replaces it and restores what it found",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter.run_node"),
        action=Tally((phase.CONSTRUCT_NETWORK,), conversion.count_converter),
        why="converter time by kind of operator; converters come from a registry, not by name",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.observer:Observer.observe"),
        action=Tap("observers:observe"),
        why="the library's observers, and functions that a program decorates with its @observable, in every thread",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._create_timing_cache"),
        action=Step(annotate=Annotate((phase.CONVERT,), start=conversion.timing_cache_in)),
        why="reading the timing cache (nothing on TensorRT-RTX)",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._save_timing_cache"),
        action=Step(),
        why="writing the timing cache (nothing on TensorRT-RTX)",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.conversion._TRTInterpreter:TRTInterpreter._save_weight_mapping"),
        action=Step(),
        until=(2, 12),
        why="maps weights for refitting; slow on refittable engines",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.logging:_TRTLogger.log"),
        action=Tap("log:line"),
        why="TensorRT calls it for every line of its log, whatever the level; a handler would see only what the level "
        "allows, and would be closed by dictConfig, which Torch-TensorRT's Debugger calls",
    ),
)
