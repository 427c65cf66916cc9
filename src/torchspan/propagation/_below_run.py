# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess` below `torchspan run`: the span is propagated in the variable of the run.

It is the parent of roots in `run`'s own provider in the child. A provider that the child sets does not see it.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import trace

from torchspan._launched.own_spans import traceparent
from torchspan._launched.run_settings import RunSettings
from torchspan.environment_variables import TORCHSPAN_RUN
from torchspan.propagation._environment import copied


def of_child(passed: Any, settings: RunSettings) -> dict[Any, Any] | None:
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
    return {**environment, TORCHSPAN_RUN: settings._replace(span=traceparent(context)).to_text()}
