# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess` below `torchspan run`: the span is propagated in the variable of the run.

It is the parent of roots in `run`'s own provider in the child. A provider that the child sets does not see it.
"""

from __future__ import annotations

from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.trace import SpanContext

from torchspan._base.exits import Patience
from torchspan.environment_variables import TORCHSPAN_RUN
from torchspan.propagation._environment import copied


class BelowRun(Protocol):
    """torchspan's part in a process below `torchspan run`, as far as propagation needs it."""

    is_alone: bool
    patience: Patience

    def carries(self) -> bool:
        """Whether the context may be propagated now."""

    def text_for_child(self, span: SpanContext) -> str:
        """The value of TORCHSPAN_RUN for a program that is started in this span."""

    def end(self) -> None:
        """Deliver what `run`'s own exporters hold."""

    def fail(self, text: str) -> None:
        """Add a text to the errors of the report."""

    def write_report(self) -> None:
        """Write the report as it is now."""


def of_child(passed: Any, run: BelowRun) -> dict[Any, Any] | None:
    """The environment for a child that is started in the current span; None to leave it unchanged.

    Args:
        passed: What the program passed: a mapping, or None for a copy of this process's environment.
    """
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    environment = copied(passed)
    if TORCHSPAN_RUN not in environment:  # the program starts the child outside of the run
        return None
    return {**environment, TORCHSPAN_RUN: run.text_for_child(context)}
