# SPDX-License-Identifier: Apache-2.0
"""Kinds of text about exports: requested dynamic dimensions, violated ones, and reasons why an export failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.kinds_of_text import Enumeration, Formed, GraphBreakType, Identifier, Kind, PlaceText
from torchspan.words.redaction.message_table import Hole, MessageTable, row_of, whole_if
from torchspan.words.redaction.operator_text import Operator

_DIMENSION = r"inputs(?:\[\d{1,4}\]){1,4}\.shape\[\d{1,4}\]"
_RANGE = r"\[\d{1,19}, (?:\d{1,19}|int_oo)\]"


class DynamicDimension(Formed):
    """A dimension of an input, and what the program requested for it.

    A dimension, identified by the position of its input, with a range of sizes, a size, or one of `auto`, `dynamic` and `static`
    (`inputs[1].shape[0]: [1, 8]`). Anything else is `?`.
    """

    title = "dynamic dimension"
    form = rf"{_DIMENSION}: (?:{_RANGE}|\d{{1,19}}|(?:auto|dynamic|static)(?: {_RANGE})?)"


class Violation(Formed):
    """A dynamic dimension because of which an export failed, and the kind of violation.

    A dimension, identified by the position of its input, with one of four kinds of violation (`inputs[0].shape[1]: specialized to a
    constant`). Anything else is `?`.
    """

    title = "violation"
    _EITHER = rf"(?:{_DIMENSION}|\?)"
    form = (
        rf"{_EITHER}: (?:specialized to a constant|not all values of its range are valid"
        rf"|always (?:equal|related) to {_EITHER})"
    )


REFUSALS = (
    "dynamic_control_flow", "anti_pattern", "standard_library", "constraint_violation", "dynamic_dim", "invalid_input",
    "invalid_output", "unsupported_aliased_mutated_dynamic_inputs",
)  # fmt: skip
"""Why PyTorch refuses a program or a call (`torch._dynamo.exc.UserErrorType`)."""


class ExportFailure(Kind):
    """The reason why an export failed: a sentence, followed by a place in the program.

    One of torchspan's own sentences, followed by the place in the program: the file as a place, the number of the line, and the name of
    the function. The sentence may contain a violated dimension, an operator, a type of graph break, PyTorch's own word for what it
    refuses, or the class of an exception. Anything else is `?`.
    """

    title = "failure of an export"
    VIOLATED = "constraint violated: "
    MORE = " and others"
    CONDITION = "a condition depends on data"
    CONDITION_ON = "a condition depends on the result of "
    NO_KERNEL = "no kernel for tensors without data: "
    RESULT_OF, SHAPE_OF, DEPENDS = "the result of ", "the shape of the result of ", " depends on data"
    NOT_TRACED = "Dynamo cannot trace: "
    REFUSED = "refused: "
    RAISED = " was raised"
    _SENTENCES = (
        f"{VIOLATED}{{violation}}{MORE}",
        f"{VIOLATED}{{violation}}",
        CONDITION,
        f"{CONDITION_ON}{{operator}}",
        f"{NO_KERNEL}{{operator}}",
        f"{RESULT_OF}{{operator}}{DEPENDS}",
        f"{SHAPE_OF}{{operator}}{DEPENDS}",
        f"{NOT_TRACED}{{type}}",
        f"{REFUSED}{{refusal}}",
        f"{{name}}{RAISED}",
    )
    _PARTS: ClassVar[dict[str, Kind]] = {
        "violation": Violation(),
        "operator": Operator(),
        "type": GraphBreakType(),
        "refusal": Enumeration(*REFUSALS),
        "name": Identifier(),
        "file": PlaceText(),
    }
    _PLACE = re.compile(r"(?P<sentence>.*?), at (?P<file>[^\n]+):(?P<line>\d{1,9}) in (?P<name>\S{1,128})", re.DOTALL)

    def __init__(self) -> None:
        self._reduce = {name: kind.reduced for name, kind in self._PARTS.items()}
        self._accept = {name: whole_if(kind.accepts) for name, kind in self._PARTS.items()}

    def accepts(self, text: str) -> bool:
        """See `Kind`. In another process other operators may be known, and other files be there."""
        return self._with(self._accept, text) == text

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return self._with(self._reduce, text)

    def _with(self, holes: Mapping[str, Hole], text: str) -> str:
        """The text with what the holes keep of its parts; `?` if it is no such text."""
        place = self._PLACE.fullmatch(text)
        sentence = text if place is None else place["sentence"]
        kept = MessageTable(row_of(each, holes) for each in self._SENTENCES).kept(sentence)
        if kept is None or place is None:
            return kept or UNKNOWN
        return f"{kept}, at {holes['file'](place['file'])}:{place['line']} in {holes['name'](place['name'])}"
