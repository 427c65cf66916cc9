# SPDX-License-Identifier: Apache-2.0
"""TensorRT's hook points: classes of the extension module, which accept attributes where their instances do not.

`tensorrt` means TensorRT and TensorRT-RTX, whichever of them the program has imported, or both. Versions are those of that package.
"""

from __future__ import annotations

from functools import partial

from torchspan.hooks.probes._actions import Arguments, DescribeStart, Record, Runs, Tap
from torchspan.hooks.probes._probe import Method, Probe
from torchspan.hooks.probes.describe import build, execution
from torchspan.words import phase

_row = partial(Probe, library="tensorrt")
_TORCH_TENSORRT = ("torch_tensorrt",)
"""Torch-TensorRT's runs are runs of its operator, and its contexts are a step of an engine's first run."""


def _parse(start: DescribeStart | None = None) -> Record:
    return Record(phase.PARSE, start=start, end=build.parsed, around="parser")


_BUILD_ENGINE = Record(phase.BUILD_ENGINE, start=build.builder_config, end=build.built, around="build")

_PARSER = (
    _row(
        target=Method("tensorrt:OnnxParser.__init__"),
        action=Tap("parser:made"),
        why="shows which network a parser fills, to count its layers; the parser itself does not",
    ),
    _row(
        target=Method("tensorrt:OnnxParser.parse"),
        action=_parse(build.model_size),
        why="from the bytes of an ONNX model to a network; a failure is the result False and a list of errors",
    ),
    _row(
        target=Method("tensorrt:OnnxParser.parse_from_file"),
        action=_parse(build.file_size),
        why="the same from a file, with the weights next to it",
    ),
    _row(
        target=Method("tensorrt:OnnxParser.parse_model_proto"),
        action=_parse(),
        package="tensorrt_rtx",  # in TensorRT it depends on the version
        why="the same after load_model_proto and load_initializer, for weights that the program has in memory",
    ),
)

_BUILD = (
    _row(
        target=Method("tensorrt:Builder.build_serialized_network"),
        action=_BUILD_ENGINE,
        why="the engine build, on TensorRT-RTX and for version-compatible engines",
    ),
    _row(
        target=Method("tensorrt:Builder.build_serialized_network_to_stream"),
        action=_BUILD_ENGINE,
        package="tensorrt_rtx",  # in TensorRT it depends on the version
        why="the engine build for engines that are written while they are built",
    ),
    _row(
        target=Method("tensorrt:Builder.build_engine_with_config"),
        action=_BUILD_ENGINE,
        package="tensorrt",
        why="the engine build on TensorRT; TensorRT-RTX does not have this method",
    ),
)


def _run(second: str) -> Runs:
    """A run of a context: `second` is the name of the argument after the context."""
    return Runs(
        phase=phase.RUN_CONTEXT,
        describe=execution.run_context,
        end=execution.context_ran,
        arguments=Arguments(names=("self", second), engine=0, inputs=None),
        excluded_callers=_TORCH_TENSORRT,
    )


_RUN = (
    _row(
        target=Method("tensorrt:Runtime.deserialize_cuda_engine"),
        action=Record(phase.DESERIALIZE_ENGINE, start=build.serialized_engine, end=build.deserialized),
        why="reading an engine: after a build, from the cache, at load",
    ),
    _row(
        target=Method("tensorrt:ICudaEngine.create_execution_context"),
        action=Record(
            phase.CREATE_CONTEXT,
            start=execution.new_context,
            end=execution.context_created,
            excluded_callers=_TORCH_TENSORRT,
            around="contexts",
        ),
        why="allocates the memory that runs need; Torch-TensorRT's own contexts are a step of its first run",
    ),
    _row(
        target=Method("tensorrt:IExecutionContext.execute_async_v3"),
        action=_run("stream_handle"),
        why="one run, on a stream; hooked once the program itself has made a context, because Torch-TensorRT's runs are "
        "those of its operator",
    ),
    _row(
        target=Method("tensorrt:IExecutionContext.execute_v2"),
        action=_run("bindings"),
        why="one run that has ended when the call returns",
    ),
)

PROBES: tuple[Probe, ...] = _PARSER + _BUILD + _RUN
