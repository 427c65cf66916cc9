# SPDX-License-Identifier: Apache-2.0
"""Kinds of text about exports: requested dynamic dimensions, violated ones, and reasons why an export failed."""

from __future__ import annotations

import re
from typing import NamedTuple

from torchspan.redaction import UNKNOWN
from torchspan.redaction.kinds_of_text import Enumeration, Formed, GraphBreakType, Identifier, Kind, PlaceText
from torchspan.redaction.operator_text import Operator

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


class _Cause(NamedTuple):
    """A sentence with one variable part, which has its own kind."""

    before: str
    varies: Kind
    after: str = ""

    def reduced(self, text: str) -> str | None:
        """The sentence as it may leave the process; None if `text` is another sentence."""
        if not (text.startswith(self.before) and text.endswith(self.after)):
            return None
        part = text[len(self.before) : len(text) - len(self.after)]
        return f"{self.before}{self.varies.reduced(part)}{self.after}" if part else None

    def accepts(self, text: str) -> bool:
        """Whether `text` is this sentence with a part that its kind accepts."""
        part = text[len(self.before) : len(text) - len(self.after)]
        return text == f"{self.before}{part}{self.after}" and part != "" and self.varies.accepts(part)


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
    _CAUSES = (
        _Cause(VIOLATED, Violation(), MORE),
        _Cause(VIOLATED, Violation()),
        _Cause(CONDITION_ON, Operator()),
        _Cause(NO_KERNEL, Operator()),
        _Cause(RESULT_OF, Operator(), DEPENDS),
        _Cause(SHAPE_OF, Operator(), DEPENDS),
        _Cause(NOT_TRACED, GraphBreakType()),
        _Cause(REFUSED, Enumeration(*REFUSALS)),
        _Cause("", Identifier(), RAISED),
    )
    _PLACE = re.compile(r", at (?P<file>[^\n]+):(?P<line>\d{1,9}) in (?P<function>\S{1,128})")

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        cause, place = self._split(text)
        return text == UNKNOWN or (
            (cause == self.CONDITION or any(form.accepts(cause) for form in self._CAUSES))
            and (place is None or (PlaceText().accepts(place["file"]) and Identifier().accepts(place["function"])))
        )

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        cause, place = self._split(text)
        reduced = cause if cause == self.CONDITION else self._cause(cause)
        if reduced is None:
            return UNKNOWN
        if place is None:
            return reduced
        file, function = PlaceText().reduced(place["file"]), Identifier().reduced(place["function"])
        return f"{reduced}, at {file}:{place['line']} in {function}"

    def _cause(self, text: str) -> str | None:
        return next((reduced for cause in self._CAUSES if (reduced := cause.reduced(text)) is not None), None)

    def _split(self, text: str) -> tuple[str, re.Match[str] | None]:
        """The sentence, and the place that follows it."""
        cause = text.partition(", at ")[0]
        place = self._PLACE.fullmatch(text, len(cause))
        return (text, None) if place is None else (cause, place)
