# SPDX-License-Identifier: Apache-2.0
"""TensorRT's hook points: classes of the extension module, which accept attributes where their instances do not.

`tensorrt` stands for whichever library Torch-TensorRT registered under that name, TensorRT or TensorRT-RTX.
"""

from __future__ import annotations

from functools import partial

from torchspan import phase
from torchspan.probes._probe import Action, Probe
from torchspan.probes.describe import build

_row = partial(Probe, library="tensorrt")

PROBES: tuple[Probe, ...] = (
    _row(
        target="tensorrt:Builder.build_serialized_network",
        action=Action.BUILD,
        phases=(phase.BUILD_ENGINE, phase.BUILD_PHASE),
        start=build.builder_config,
        end=build.built,
        why="the engine build, on TensorRT-RTX and for version-compatible engines",
    ),
    _row(
        target="tensorrt:Builder.build_engine_with_config",
        action=Action.BUILD,
        phases=(phase.BUILD_ENGINE, phase.BUILD_PHASE),
        start=build.builder_config,
        end=build.built,
        package="tensorrt",
        why="the engine build on TensorRT; TensorRT-RTX does not have it",
    ),
    _row(
        target="tensorrt:Runtime.deserialize_cuda_engine",
        phases=(phase.DESERIALIZE_ENGINE,),
        start=build.serialized_engine,
        why="reading an engine: after a build, from the cache, at load",
    ),
)
