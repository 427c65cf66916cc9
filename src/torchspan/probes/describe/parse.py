# SPDX-License-Identifier: Apache-2.0
"""TensorRT's ONNX parser. It raises nothing, but keeps a list of errors that grows from parse to parse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.scratch import Scratch
from torchspan.probes._call import Call
from torchspan.probes.describe.artifacts import file_size as path_size
from torchspan.probes.describe.common import LIST_LIMIT, without_none

Facts = dict[str, Any]

PARSE_FAILED = "onnx_parse_failed"
"""`error.type` of a parse that failed and left no error; else `onnx_` and the parser's own class of error."""


@dataclass(frozen=True, slots=True)
class Before:
    """network: the one that the parser fills; None if it is not known. errors: length of the parser's list."""

    network: Any
    errors: int


def model_size(call: Call) -> Facts:
    """`OnnxParser.parse(self, model, path=None)`: the model is any buffer."""
    return without_none({semconv.MODEL_SIZE: reading.size(call.get("model", position=1))})


def file_size(call: Call) -> Facts:
    """`OnnxParser.parse_from_file(self, model)`: `model` is a path."""
    return without_none({semconv.MODEL_SIZE: path_size(call.get("model", position=1))})


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
        semconv.PARSER_ERRORS: len(errors),
    }
    return without_none({**facts, **_failure(errors)} if failed else facts)


def _failure(parser_errors: list[Any]) -> Facts:
    errors = [error for error in parser_errors if reading.is_of_library(type(error))]
    if not errors:
        return {semconv.ERROR_TYPE: PARSE_FAILED}
    operators = dict.fromkeys(error.node_operator() for error in errors if error.node_operator())
    return {
        semconv.ERROR_TYPE: f"onnx_{errors[0].code().name.lower()}",
        semconv.PARSER_ERROR: errors[0].desc(),
        semconv.PARSER_FAILED_OPERATORS: list(operators)[:LIST_LIMIT] or None,
    }
