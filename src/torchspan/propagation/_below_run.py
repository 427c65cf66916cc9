# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess` below `torchspan run`: the span goes along in the variable of the run.

It is the parent of roots in the child's own `run`'s provider. A provider that the child sets does not see it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace

from torchspan._base.errors import ErrorBoundary
from torchspan._base.patching import Function
from torchspan._run.process import RunProcess
from torchspan._run.settings import RunSettings
from torchspan._run.spans import traceparent
from torchspan.environment_variables import TORCHSPAN_RUN
from torchspan.propagation._environment import ENV_PLACE, _own


def popen(boundary: ErrorBoundary, run: RunProcess, original: Function) -> Function:
    """What replaces `subprocess.Popen.__init__`."""

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        by_position = len(args) > ENV_PLACE
        given = args[ENV_PLACE] if by_position else kwargs.get("env")
        environment = boundary.attempt(of_child, given, run.settings) if boundary.is_open else None
        if environment is not None and by_position:
            args = (*args[:ENV_PLACE], environment, *args[ENV_PLACE + 1 :])
        elif environment is not None:
            kwargs["env"] = environment
        original(self, *args, **kwargs)

    return start


def of_child(given: Any, settings: RunSettings) -> dict[Any, Any] | None:
    """The environment for a child that is started in the current span; None to leave it as it is.

    given: what the program passed: a mapping, or None for a copy of this process's environment.
    """
    context = trace.get_current_span().get_span_context()
    if not context.is_valid or not (given is None or isinstance(given, Mapping)):
        return None
    environment = dict(_own() if given is None else given)
    name = next((each for each in (TORCHSPAN_RUN, os.fsencode(TORCHSPAN_RUN)) if each in environment), None)
    if name is None:  # the program starts it outside of the run
        return None
    text = settings._replace(span=traceparent(context)).to_text()
    environment[name] = text if isinstance(name, str) else os.fsencode(text)
    return environment
