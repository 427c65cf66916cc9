# SPDX-License-Identifier: Apache-2.0
"""What propagation needs of a process below `torchspan run`."""

from __future__ import annotations

from typing import Protocol

from opentelemetry.trace import SpanContext

from torchspan._base.exits import Patience


class BelowRun(Protocol):
    """torchspan's part in the process."""

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
