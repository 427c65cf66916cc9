# SPDX-License-Identifier: Apache-2.0
"""TensorRT's own functions, as far as they need a stand-in or have to be listened to."""

from __future__ import annotations

import functools
from typing import Any

from torchspan.hooks.without_gpu import _engines, _runtime


def build_serialized(original: Any, _call: str) -> Any:
    """`Builder.build_serialized_network`: the engine's bytes are known to come from this network."""

    @functools.wraps(original)
    def build_serialized_network(self: Any, network: Any, config: Any) -> Any:
        plan = original(self, network, config)
        if plan is not None:
            _engines.built(network, bytes(plan))
        return plan

    return build_serialized_network


def build_engine(original: Any, _call: str) -> Any:
    """`Builder.build_engine_with_config`: builds the bytes for real, deserializes them into the stand-in."""
    build = _runtime.tensorrt().Builder.build_serialized_network  # as it is now: no observer sees a second build

    @functools.wraps(original)
    def build_engine_with_config(self: Any, network: Any, config: Any) -> Any:
        plan = build(self, network, config)
        return None if plan is None else _deserialized(plan, self.logger)

    return build_engine_with_config


def deserialize(original: Any, _call: str) -> Any:
    """`Runtime.deserialize_cuda_engine`: an Engine; None and an error in the log for others, as TensorRT answers."""

    @functools.wraps(original)
    def deserialize_cuda_engine(self: Any, serialized_engine: Any) -> _runtime.StandInEngine | None:
        engine = _deserialized(serialized_engine, self.logger)
        if engine is None:
            self.logger.log(_runtime.tensorrt().ILogger.Severity.ERROR, _UNKNOWN)
        return engine

    return deserialize_cuda_engine


_UNKNOWN = (
    "The stand-in for a GPU (torchspan run --without-gpu, torchspan.testing.without_gpu) did not build this engine, so there "
    "is nothing to run in its place. It runs what Torch-TensorRT built under the stand-in, in this process or in another one "
    "with the same cache folder (XDG_CACHE_HOME). Build the engine again here, or run this on a machine with a GPU."
)


def _deserialized(plan: Any, logger: Any) -> _runtime.StandInEngine | None:
    data = bytes(plan)
    reference = _engines.find(data)
    return None if reference is None else _runtime.StandInEngine(data, reference, logger)


def set_flag(original: Any, _call: str) -> Any:
    """`IBuilderConfig.set_flag`, without the flags that need a CUDA driver to build with."""
    flags = _runtime.tensorrt().BuilderFlag
    names = ("REFIT", "REFIT_IDENTICAL", "REFIT_INDIVIDUAL", "STRIP_PLAN")
    ignored = {getattr(flags, name) for name in names if name in flags.__members__}

    @functools.wraps(original)
    def set_flag(self: Any, flag: Any) -> None:
        if flag not in ignored:
            original(self, flag)

    return set_flag


def stand_in_class(original: Any, call: str) -> Any:
    """The class that stands in for one of TensorRT's, so that `isinstance` holds, and what hooks the class sees it."""
    return _runtime.stand_in_for(call.rpartition(".")[2], original)
