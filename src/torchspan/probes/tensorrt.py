# SPDX-License-Identifier: Apache-2.0
"""TensorRT's hook points: classes of the extension module, which accept attributes where their instances do not.

`tensorrt` stands for TensorRT and for TensorRT-RTX, whichever of them the program has imported, or both; versions are theirs.
"""

from __future__ import annotations

from functools import partial

from torchspan import phase
from torchspan.probes._probe import Action, Probe
from torchspan.probes.describe import build, execution, parse

_row = partial(Probe, library="tensorrt")
_of_torch_tensorrt = partial(_row, told_by="torch_tensorrt")
_build = partial(
    _row,
    action=Action.BUILD,
    phases=(phase.BUILD_ENGINE, phase.BUILD_PHASE),
    start=build.builder_config,
    end=build.built,
)
_parse = partial(_row, action=Action.PARSE, phases=(phase.PARSE,), end=parse.parsed)

_PARSER = (
    _row(
        target="tensorrt:OnnxParser.__init__",
        action=Action.PARSER,
        phases=(phase.PARSE,),
        why="tells which network a parser fills, to count its layers; the parser itself does not",
    ),
    _parse(
        target="tensorrt:OnnxParser.parse",
        start=parse.model_size,
        why="from the bytes of an ONNX model to a network; a failure is a False and a list of errors",
    ),
    _parse(
        target="tensorrt:OnnxParser.parse_from_file",
        start=parse.file_size,
        why="the same from a file, with the weights that lie beside it",
    ),
    _parse(
        target="tensorrt:OnnxParser.parse_model_proto",
        package="tensorrt_rtx",  # of TensorRT it depends on the version
        why="the same after load_model_proto and load_initializer, for weights that the program has in memory",
    ),
)

_BUILD = (
    _build(
        target="tensorrt:Builder.build_serialized_network",
        why="the engine build, on TensorRT-RTX and for version-compatible engines",
    ),
    _build(
        target="tensorrt:Builder.build_serialized_network_to_stream",
        package="tensorrt_rtx",  # of TensorRT it depends on the version
        why="the engine build for engines that are written while they are built",
    ),
    _build(
        target="tensorrt:Builder.build_engine_with_config",
        package="tensorrt",
        why="the engine build on TensorRT; TensorRT-RTX does not have it",
    ),
)

_RUN = (
    _row(
        target="tensorrt:Runtime.deserialize_cuda_engine",
        phases=(phase.DESERIALIZE_ENGINE,),
        start=build.serialized_engine,
        end=build.deserialized,
        why="reading an engine: after a build, from the cache, at load",
    ),
    _of_torch_tensorrt(
        target="tensorrt:ICudaEngine.create_execution_context",
        action=Action.CONTEXT,
        phases=(phase.CREATE_CONTEXT,),
        start=execution.new_context,
        end=execution.context_created,
        why="allocates the memory that runs need; Torch-TensorRT's own contexts are a step of its first run",
    ),
    _of_torch_tensorrt(
        target="tensorrt:IExecutionContext.execute_async_v3",
        action=Action.EXECUTE,
        phases=(phase.RUN_CONTEXT,),
        end=execution.context_ran,
        parameters=("self", "stream_handle"),
        why="one run, on a stream; hooked once somebody but Torch-TensorRT has made a context, whose own runs "
        "are those of its operator",
    ),
    _of_torch_tensorrt(
        target="tensorrt:IExecutionContext.execute_v2",
        action=Action.EXECUTE,
        phases=(phase.RUN_CONTEXT,),
        end=execution.context_ran,
        parameters=("self", "bindings"),
        why="one run that is over when the call returns",
    ),
)

PROBES: tuple[Probe, ...] = _PARSER + _BUILD + _RUN
