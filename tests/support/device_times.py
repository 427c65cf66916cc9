# SPDX-License-Identifier: Apache-2.0
"""Spans of runs with times on the device, and of runs with a table of layers."""

from torchspan.words import semconv as s

ENGINE = {s.MODEL_CLASS: "Net", s.ENGINE_NAME: "_run_on_acc_0"}


def engine_run(recording, start_ms, end_ms, gpu_ms=None, attributes=None, **options):
    """The span of a run of an engine, with its milliseconds on the device."""
    facts = {**ENGINE, **(attributes or {})}
    if gpu_ms is not None:
        facts[s.EXECUTE_GPU_DURATION] = gpu_ms / 1000
    return recording.span("torch_tensorrt.execute", start_ms, end_ms, facts, **options)


def layer_table(*rows, runs=20, omitted=0, omitted_ms=0):
    """The attributes of a table. rows: the name of a layer and its milliseconds."""
    whole_ms = sum(ms for _, ms in rows) + omitted_ms
    facts = {
        s.LAYER_NAMES: [name for name, _ in rows],
        s.LAYER_DURATIONS: [ms / 1000 for _, ms in rows],
        s.LAYER_SHARES: [ms / whole_ms for _, ms in rows],
        s.LAYER_RUNS: runs,
    }
    return {**facts, **({s.LAYERS_OMITTED: omitted, s.LAYERS_OMITTED_DURATION: omitted_ms / 1000} if omitted else {})}
