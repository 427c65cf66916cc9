# SPDX-License-Identifier: Apache-2.0
"""TensorRT's builder and runtime. Extension types have no signature, so arguments are taken by position."""

from __future__ import annotations

import sys
from typing import Any

from torchspan import semconv
from torchspan.probes._call import Call
from torchspan.probes.describe._values import known
from torchspan.probes.describe.identity import engine_id
from torchspan.probes.describe.log import LAST_ERROR

Facts = dict[str, Any]


def builder_config(call: Call) -> Facts:
    """`Builder.build_serialized_network(self, network, config)`: the network and the configuration, read only."""
    network, config = call.get("network", position=1), call.get("config", position=2)
    return known(
        {
            semconv.NETWORK_LAYERS: getattr(network, "num_layers", None),
            semconv.BUILDER_FLAGS: _flags(config),
            semconv.BUILDER_LEVEL: getattr(config, "builder_optimization_level", None),
            semconv.BUILDER_TIMING_ITERATIONS: getattr(config, "avg_timing_iterations", None),
            semconv.BUILDER_AUX_STREAMS: getattr(config, "max_aux_streams", None),
            semconv.BUILDER_PROFILES: getattr(config, "num_optimization_profiles", None),
            semconv.BUILDER_WORKSPACE: _workspace(config),
        }
    )


def _flags(config: Any) -> list[str]:
    """Names of the flags set in the configuration's bit mask, from TensorRT's own enumeration."""
    members = getattr(_enumeration("BuilderFlag"), "__members__", {})
    return sorted(name for name, flag in members.items() if config.flags & (1 << int(flag)))


def _workspace(config: Any) -> int | None:
    pool = getattr(_enumeration("MemoryPoolType"), "WORKSPACE", None)
    return None if pool is None else int(config.get_memory_pool_limit(pool))


def _enumeration(name: str) -> Any:
    """An enumeration of whichever TensorRT is loaded; Torch-TensorRT registers TensorRT-RTX as `tensorrt` too."""
    module = sys.modules.get("tensorrt_rtx") or sys.modules.get("tensorrt")
    return getattr(module, name, None)


def built(_call: Call, result: Any, tally: dict[str, Any]) -> Facts:
    """A serialized engine (IHostMemory), an engine, or None: then the build failed, and its log says why."""
    if result is None:
        return known({semconv.ERROR_TYPE: BUILD_FAILED, semconv.BUILD_ERROR: tally.get(LAST_ERROR)})
    size = getattr(result, "nbytes", None)
    return {} if size is None else known({semconv.ENGINE_SIZE: size, semconv.ENGINE_ID: engine_id(result)})


BUILD_FAILED = "engine_build_failed"
"""`error.type` of a build that returned None: TensorRT raises nothing and writes the cause to its log."""


def serialized_engine(call: Call) -> Facts:
    """`Runtime.deserialize_cuda_engine(self, serialized_engine)`."""
    serialized = call.get("serialized_engine", position=1)
    size = getattr(serialized, "nbytes", None)
    facts: Facts = {semconv.ENGINE_SIZE: size if size is not None else len(serialized)}
    return known({**facts, semconv.ENGINE_ID: engine_id(serialized)})
