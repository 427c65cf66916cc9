# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess` below `torchspan run`: the span is propagated in the variable of the run.

It is the parent of roots in `run`'s own provider in the child. A provider that the child sets does not see it.
"""

from __future__ import annotations

import os
from typing import Any

from opentelemetry import trace

from torchspan._launched.own_spans import traceparent
from torchspan._launched.run_settings import RunSettings
from torchspan.environment_variables import TORCHSPAN_RUN
from torchspan.propagation._environment import copied, key_of


def of_child(passed: Any, settings: RunSettings) -> dict[Any, Any] | None:
    """The environment for a child that is started in the current span; None to leave it unchanged.

    Args:
        passed: What the program passed: a mapping, or None for a copy of this process's environment.
    """
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    environment = copied(passed)
    name = key_of(environment, TORCHSPAN_RUN)
    if name is None:  # the program starts the child outside of the run
        return None
    text = settings._replace(span=traceparent(context)).to_text()
    environment[name] = text if isinstance(name, str) else os.fsencode(text)
    return environment
