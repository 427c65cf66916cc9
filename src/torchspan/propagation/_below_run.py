# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess` below `torchspan run`: the span is propagated in the variable of the run.

It is the parent of roots in `run`'s own provider in the child. A provider that the child sets does not see it.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.trace import SpanContext

from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.exits import Patience
from torchspan._base.patching import Function
from torchspan.environment_variables import TORCHSPAN_RUN
from torchspan.propagation._environment import key_of, own_environment, with_environment


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


def popen(boundary: ErrorBoundary, run: BelowRun, original: Function) -> Function:
    """The replacement of `subprocess.Popen.__init__`."""
    return with_environment(
        original,
        lambda environment: boundary.attempt(of_child, environment, run) if boundary.is_open else None,
    )


def of_child(wrapped: Any, run: BelowRun) -> dict[Any, Any] | None:
    """The environment for a child that is started in the current span; None to leave it unchanged.

    Args:
        wrapped: What the program passed: a mapping or pairs, or None for a copy of this process's environment.
    """
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    environment = dict(own_environment() if wrapped is None else wrapped)
    name = key_of(environment, TORCHSPAN_RUN)
    if name is None:  # the program starts the child outside of the run
        return None
    text = run.text_for_child(context)
    environment[name] = text if isinstance(name, str) else os.fsencode(text)
    return environment
