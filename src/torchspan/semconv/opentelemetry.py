# SPDX-License-Identifier: Apache-2.0
"""Attributes of the OpenTelemetry conventions, under their own keys."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._table import Attribute

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the OpenTelemetry conventions whose keys are used unchanged."""

ERROR_TYPE = Attribute(
    "error.type", "string", "Class of the exception that passed this span, or the kind of failure without one."
)
EXCEPTION_TYPE = Attribute("exception.type", "string", "Class of the exception.", event="exception")
EXCEPTION_MESSAGE = Attribute(
    "exception.message",
    "string",
    "First line of the message with every literal replaced by `?`; the whole message with `TORCHSPAN_CAPTURE=text`.",
    event="exception",
)
CODE_FUNCTION = Attribute(
    "code.function.name",
    "string",
    "On the `exception` event, the function that raised the exception; on a span, the function that is observed.",
    phase.OBSERVED,
    event="exception",
    at_start=True,
)
CODE_FILE = Attribute("code.file.path", "string", "File that raised the exception.", event="exception")
CODE_LINE = Attribute("code.line.number", "int", "Line that raised the exception.", event="exception")

PROCESS_PID = Attribute(
    "process.pid",
    "int",
    "The process that wrote the span. In the file of `torchspan run` alone.",
    resource=True,
)

OTHER = "_OTHER"
"""The value of `error.type` where the class is unknown."""


def class_name(cls: type) -> str:
    """`RuntimeError`, `torch.fx.node.Foo`: the value of `error.type` and `exception.type` for an exception class."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
