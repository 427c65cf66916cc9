# SPDX-License-Identifier: Apache-2.0
"""TensorRT's log: which lines are kept, and what they report about memory."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan._base.scratch import Key

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

    pattern: searched for, whatever the case. source: where the wording was seen. skips: set if the line reports that a tactic is
    left out. Depending on the version, the two kinds, "skipping" and "request", come in pairs or alone.
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

_OUT_OF_MEMORY = re.compile("|".join(each.pattern for each in OUT_OF_MEMORY), re.IGNORECASE)
_SKIPS = {
    kind: re.compile("|".join(each.pattern for each in OUT_OF_MEMORY if each.skips == kind), re.IGNORECASE)
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
