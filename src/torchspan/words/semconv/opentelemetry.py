# SPDX-License-Identifier: Apache-2.0
"""Attributes of the OpenTelemetry conventions, under their own keys."""

from __future__ import annotations

from torchspan.base import reading
from torchspan.words import phase
from torchspan.words.redaction.kinds_of_text import ErrorMessage, HostName, Identifier, PlaceText, Version
from torchspan.words.semconv._table import Attribute

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the OpenTelemetry conventions whose keys are used unchanged."""

ERROR_TYPE = Attribute(
    "error.type",
    Identifier(),
    "Class of the exception that passed this span. For a failure without an exception, the kind of failure.",
)
EXCEPTION_TYPE = Attribute("exception.type", Identifier(), "Class of the exception.", event="exception")
EXCEPTION_MESSAGE = Attribute(
    "exception.message",
    ErrorMessage(),
    "Message of the exception, as in the table of messages, or with the words of the library's code that raised it. "
    "Absent for any other message: class and place name it.",
    event="exception",
)
_HAS_PLACE = (phase.CONSTRUCT_NETWORK, phase.EXPORT, phase.COMPILE, phase.CONVERT_TO_ENGINE, phase.BUILD_ENGINE)
"""Work that a place in the program's own code calls, or from which its failure comes."""

_OF_FRAMES = (phase.COMPILE_FRAME, phase.COMPILE_BACKWARD, phase.COMPILE_WAIT, phase.RUN_GRAPH, phase.PROGRESS)
"""Work that is a function of the program's."""

CODE_FUNCTION = Attribute(
    "code.function.name",
    Identifier(),
    "On an `exception` event, the function that raised the exception. On the event of a graph break, the function "
    "that broke the graph. On the span of work that failed, the function of the program in which the cause is, such "
    "as `forward`. On the span of an export, a compilation by Torch-TensorRT or an engine build that no other work is "
    "around, the function that called it, unless its failure comes from another one. On the span of a frame, or of a "
    "run of its graph, the function that is compiled. On the span of a wait, the function that its thread is to "
    "compile. On the span of an observed function, that function.",
    phase.OBSERVED,
    *_OF_FRAMES,
    *_HAS_PLACE,
    event=("exception", "torch.compile.graph_break", "torch.compile.declaration"),
    at_start=True,
)
CODE_FILE = Attribute(
    "code.file.path",
    PlaceText(),
    "On an `exception` event, the file that raised the exception. On the event of a graph break, the program's file "
    "that broke the graph. On the span of work that failed, the program's file in which the cause is: where the model "
    "calls the operator that failed. On the span of an export, a compilation by Torch-TensorRT or an engine build that "
    "no other work is around, the file that called it, unless its failure comes from another one. On the span of a "
    "frame, or of a run of its graph, the file of the function that is compiled. The path is relative to a folder on "
    "Python's import path; with `TORCHSPAN_CAPTURE=text` it is absolute.",
    *_OF_FRAMES,
    *_HAS_PLACE,
    event=("exception", "torch.compile.graph_break", "torch.compile.declaration"),
    at_start=True,
)
CODE_LINE = Attribute(
    "code.line.number",
    "int",
    "Number of the line in the file that `code.file.path` names. On the span of a frame, or of a run of its graph, "
    "the first line of the function.",
    *_OF_FRAMES,
    *_HAS_PLACE,
    event=("exception", "torch.compile.graph_break", "torch.compile.declaration"),
    at_start=True,
)

THREAD_ID = Attribute(
    "thread.id",
    "int",
    "Python's identifier of the thread, on the span of work that begins in a thread other than the main one. Absent "
    "if the span around it has the same thread. On an operator, if it is not the thread of the span below which it was "
    "recorded.",
    *(row for row in phase.PHASES if row.keep),
    phase.OPERATOR,
    at_start=True,
)

FILE_SIZE = Attribute(
    "file.size", "int", "Size of the file that was saved or loaded, in bytes.", phase.SAVE, phase.LOAD
)

PROCESS_PID = Attribute(
    "process.pid",
    "int",
    "On a resource, the id of the process that wrote the span: in the file of `torchspan run`, and from torchspan's "
    "resource detector. On the span of a run, the id of the program that `torchspan run` started.",
    phase.RUN,
    resource=True,
)
RUNTIME_NAME = Attribute(
    "process.runtime.name",
    Identifier(),
    "Name of the Python implementation, such as `cpython`.",
    resource=True,
)
RUNTIME_VERSION = Attribute(
    "process.runtime.version",
    Version(),
    "Version of Python.",
    resource=True,
)
HOST_NAME = Attribute(
    "host.name",
    HostName(),
    "Name of the machine or the container, as the operating system reports it.",
    resource=True,
)
PROCESS_EXIT_CODE = Attribute(
    "process.exit.code",
    "int",
    "Exit status of the program. Absent if a signal ended the program.",
    phase.RUN,
)

OTHER = "_OTHER"
"""The value of `error.type` where the class is unknown."""


def class_name(cls: type) -> str:
    """`RuntimeError`, `torch.fx.node.Foo`: the value of `error.type` and `exception.type` for an exception class."""
    module, name = reading.module_of(cls), reading.class_name(cls)
    return name if module == "builtins" else f"{module}.{name}"
