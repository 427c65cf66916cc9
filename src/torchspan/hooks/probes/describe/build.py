# SPDX-License-Identifier: Apache-2.0
"""TensorRT's builder and runtime. Extension types have no signature, so arguments are taken by position."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.base.reading import attribute, whole_number
from torchspan.base.scratch import Key, Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe.artifacts import file_size as path_size
from torchspan.hooks.probes.describe.common import LIST_LIMIT, UNKNOWN, engine_id, shape_list, tensorrt_dtype
from torchspan.words import semconv
from torchspan.words.redaction.messages import LibraryMessage, of_text

# --- TensorRT's log -------------------------------------------------------------------------------------------------
LOUDEST_QUIET = 3
"""`ILogger.Severity`: 0 internal error, 1 error, 2 warning, 3 info, 4 verbose (NvInferRuntimeBase.h)."""

LAST_ERROR: Key[str] = Key("last_error")
"""Scratch key: the last line of severity error or worse, redacted."""


class Line(NamedTuple):
    """One line, as TensorRT wrote it: the name of its severity, and its text."""

    severity: str
    text: str

    @property
    def is_error(self) -> bool:
        return self.severity != "WARNING"


def tensorrt_line(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Line | None:
    """`log(self, severity, msg)` of a logger; None for information, which is nearly every line.

    A program may call its own logger with other arguments. That is not a line of TensorRT.
    """
    severity = args[1] if len(args) > 1 else kwargs.get("severity")
    number = attribute(severity, "value")
    if type(number) is not int or number >= LOUDEST_QUIET:  # comparing the enumeration itself takes three times as long
        return None
    text = args[2] if len(args) > 2 else kwargs.get("msg")
    return Line(reading.text(attribute(severity, "name")) or str(number), text) if type(text) is str else None


class Wording(NamedTuple):
    """How some version reports that there was too little memory.

    Attributes:
        pattern: Searched for, whatever the case.
        source: Where the wording was seen.
        skips: Set if the line reports that a tactic is left out. Depending on the version, the two kinds, "skipping"
            and "request", come in pairs or alone.
    """

    pattern: str
    source: str
    skips: str = ""


OUT_OF_MEMORY: tuple[Wording, ...] = (
    # Some versions write "insuficient". 10.x puts `UNSUPPORTED_STATE: ` in front.
    Wording(r"skipping tactic \S+ due to insuff?icient memory", "8.0 to 10.x: NVIDIA/TensorRT#1661, #2035, #4324", "skipping"),
    Wording(r"skipping tactic \S+ due to exception .*(?:alloc|memory)", "10.3: NVIDIA/TensorRT#4258, #4254", "skipping"),
    Wording(r"device memory is insufficient to use tactic", "8.0 to 10.x, RTX 1.6 (its library): NVIDIA/TensorRT#1661", "request"),
    # Reads like an unsupported operator and means, as a rule, that no tactic fitted (wyoming-whisper-trt#1049).
    Wording(r"could not find any implementation for node", "7.x to 10.x, RTX 1.6 (its library): NVIDIA/TensorRT#477, #1766, #4258"),
    Wording(r"no tactics to implement the operation within workspace limit", "RTX 1.6: seen with a workspace of 1 byte"),
    Wording(r"out ?of ?memory", "7.x to 10.x: `OutOfMemory`, NVIDIA/TensorRT#477, #2643; `Cuda Runtime (out of memory)`, #4258"),
    Wording(r"requested amount of (?:gpu )?memory \(.*could not be allocated", "7.x to 10.x: torch2trt#661, NVIDIA/TensorRT#4258"),
    Wording(r"memory allocation (?:error|failed)", "7.x: NVIDIA/TensorRT#512; RTX 1.6 (its library)"),
)  # fmt: skip
"""The wordings of TensorRT 7 to 10 and of TensorRT-RTX."""

_OUT_OF_MEMORY = re.compile("|".join(pattern.pattern for pattern in OUT_OF_MEMORY), re.IGNORECASE)
_SKIPS = {
    kind: re.compile("|".join(pattern.pattern for pattern in OUT_OF_MEMORY if pattern.skips == kind), re.IGNORECASE)
    for kind in ("skipping", "request")
}
SEARCHED = 4096
"""Characters of a line that are searched: what matters comes before what is quoted."""


def is_out_of_memory(text: str) -> bool:
    """Whether the line reports, in one of the known wordings, too little memory of the device or of the workspace."""
    return _OUT_OF_MEMORY.search(text, 0, SEARCHED) is not None


def skipped_tactic(text: str) -> str | None:
    """The kind of wording in which the line reports a tactic that is left out for lack of memory; None if it does not."""
    return next((kind for kind, pattern in _SKIPS.items() if pattern.search(text, 0, SEARCHED)), None)


# ------------------------------------------------------------------------------------------------------------------
Facts = dict[str, Any]


def builder_config(call: Call) -> Facts:
    """`Builder.build_serialized_network(self, network, config)`: the network and the configuration, read only."""
    network, config = call.get("network", position=1), call.get("config", position=2)
    return {
        semconv.NETWORK_LAYERS: whole_number(attribute(network, "num_layers")),
        semconv.BUILDER_FLAGS: _flags(config),
        semconv.BUILDER_LEVEL: whole_number(attribute(config, "builder_optimization_level")),
        semconv.BUILDER_WORKSPACE: _workspace(config),
    }


def network_inputs(call: Call) -> Facts:
    """The inputs of the network that is built, read only. A conversion of Torch-TensorRT records its own."""
    network = call.get("network", position=1)
    if not reading.is_of_library(type(network)):
        return {}
    tensors = [network.get_input(index) for index in range(min(network.num_inputs, LIST_LIMIT))]
    return {
        semconv.RUN_SHAPES: [shape_list(tensor.shape) or UNKNOWN for tensor in tensors],
        semconv.RUN_DTYPES: [tensorrt_dtype(tensor.dtype) for tensor in tensors],
    }


def _flags(config: Any) -> list[str] | None:
    """Names of the flags set in the configuration's bit mask, from TensorRT's own enumeration."""
    if not reading.is_of_library(type(config)):
        return None
    members = getattr(_enumeration(config, "BuilderFlag"), "__members__", {})
    return sorted(name for name, flag in members.items() if config.flags & (1 << int(flag)))


def _workspace(config: Any) -> int | None:
    if not reading.is_of_library(type(config)):
        return None
    pool = getattr(_enumeration(config, "MemoryPoolType"), "WORKSPACE", None)
    return None if pool is None else int(config.get_memory_pool_limit(pool))


def _enumeration(thing: Any, name: str) -> Any:
    """An enumeration of the TensorRT that `thing` belongs to: there may be two in a process."""
    return getattr(sys.modules.get(reading.module_of(type(thing))), name, None)


def built(call: Call, result: Any, scratch: Scratch) -> Facts:
    """A serialized engine (IHostMemory), an engine or True; None or False if the build failed. The log has the reason."""
    if result is None or result is False:
        reason: Facts = {semconv.BUILD_ERROR: scratch.get(LAST_ERROR), semconv.BUILD_LOGGER: _logger_class(call)}
        return {semconv.ERROR_TYPE: BUILD_FAILED, **reason}
    return {semconv.ENGINE_SIZE: reading.size(result), semconv.ENGINE_ID: engine_id(result)}


def _logger_class(call: Call) -> str | None:
    """The class of the builder's logger. Only its module shows whether it is TensorRT's."""
    logger = attribute(call.args[0], "logger") if call.args else None
    return None if logger is None else semconv.class_name(type(logger))


BUILD_FAILED = "engine_build_failed"
"""`error.type` of a build that returned no engine: TensorRT raises nothing and writes the cause to its log."""


def serialized_engine(call: Call) -> Facts:
    """`Runtime.deserialize_cuda_engine(self, serialized_engine)`."""
    serialized = call.get("serialized_engine", position=1)
    return {semconv.ENGINE_SIZE: reading.size(serialized), semconv.ENGINE_ID: engine_id(serialized)}


def deserialized(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """An engine; None for bytes of another version, of another kind of GPU, or that are not an engine."""
    return {semconv.ERROR_TYPE: DESERIALIZE_FAILED} if result is None else {}


DESERIALIZE_FAILED = "engine_deserialize_failed"
"""`error.type` if the bytes gave no engine."""


# --- The ONNX parser ------------------------------------------------------------------------------------------------
PARSE_FAILED = "onnx_parse_failed"
"""`error.type` of a parse that failed and left no error; else `onnx_` and the parser's own class of error."""


@dataclass(frozen=True, slots=True)
class BeforeParse:
    """What is read of a parser before it parses.

    Attributes:
        network: The network that the parser fills; None if it is not known.
        errors: The length of the parser's list of errors.
    """

    network: Any
    errors: int


def model_size(call: Call) -> Facts:
    """`OnnxParser.parse(self, model, path=None)`: the model is any buffer."""
    return {semconv.MODEL_SIZE: reading.size(call.get("model", position=1))}


def file_size(call: Call) -> Facts:
    """`OnnxParser.parse_from_file(self, model)`: `model` is a path."""
    return {semconv.MODEL_SIZE: path_size(call.get("model", position=1))}


def parsed(call: Call, result: Any, _scratch: Scratch) -> Facts:
    """Whether it succeeded. If not, the reason, from the errors that this parse added."""
    before = call.before
    failed = reading.switch(result) is False
    if before is None or not call.args or not reading.is_of_library(type(call.args[0])):
        return {semconv.ERROR_TYPE: PARSE_FAILED} if failed else {}
    parser = call.args[0]
    errors = [parser.get_error(index) for index in range(before.errors, parser.num_errors)]
    facts: Facts = {
        semconv.NETWORK_LAYERS: reading.whole_number(reading.attribute(before.network, "num_layers")),
    }
    return {**facts, **_failure(errors)} if failed else facts


def _failure(parser_errors: list[Any]) -> Facts:
    errors = [error for error in parser_errors if reading.is_of_library(type(error))]
    if not errors:
        return {semconv.ERROR_TYPE: PARSE_FAILED}
    said = [
        _said(error.node_operator(), error.node(), error.node_name(), error.desc()) for error in errors[:LIST_LIMIT]
    ]
    operators = dict.fromkeys(error.node_operator() for error in errors if error.node_operator())
    return {
        semconv.ERROR_TYPE: f"onnx_{errors[0].code().name.lower()}",
        semconv.PARSER_ERROR: LibraryMessage(of_text(errors[0].desc()), "; ".join(said)),
        semconv.PARSER_FAILED_OPERATORS: list(operators)[:LIST_LIMIT] or None,
    }


def _said(operator: str, node: int, name: str, text: str) -> str:
    """`Unique (node 1, stem/unique): not supported`, for the user's own file: the program names nodes and operators."""
    text = "not supported" if text == "false" else text  # the condition that does not hold, in C++
    return f"{operator} (node {node}{f', {name}' if name else ''}): {text}" if operator else text
