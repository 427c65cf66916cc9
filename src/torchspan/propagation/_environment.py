# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess`: the context is put into the environment of the child, never into that of this process."""

from __future__ import annotations

import ctypes
import operator
import os
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from opentelemetry import context as context_api
from opentelemetry import trace

from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.patching import Function
from torchspan.environment_variables import TORCHSPAN_RUN
from torchspan.propagation import _carrier
from torchspan.propagation._start_up import INHERITED

if TYPE_CHECKING:
    from torchspan.propagation._below_run import BelowRun

ENV_PLACE = 10
"""The position of `env` among the arguments of `subprocess.Popen`, not counting `self`."""


def popen(boundary: ErrorBoundary, carries: Callable[[], bool], run: BelowRun | None, original: Function) -> Function:
    """The replacement of `subprocess.Popen.__init__`, also for run, call, check_output, os.popen and asyncio's functions.

    Args:
        carries: Whether the context may be propagated.
        run: torchspan's part in this process below `torchspan run`.
    """

    def environment_of(passed: Any) -> dict[Any, Any] | None:
        if passed is not None and not isinstance(passed, Mapping):
            return None  # Python refuses it
        below_run = None if run is None else of_run(passed, run)
        in_context = of_child(passed if below_run is None else below_run, INHERITED) if carries() else None
        return below_run if in_context is None else in_context

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        by_position = len(args) > ENV_PLACE
        environment = boundary.attempt(environment_of, args[ENV_PLACE] if by_position else kwargs.get("env"))
        if environment is not None and by_position:
            args = (*args[:ENV_PLACE], environment, *args[ENV_PLACE + 1 :])
        elif environment is not None:
            kwargs["env"] = environment
        original(self, *args, **kwargs)

    return start


def of_run(passed: Any, run: BelowRun) -> dict[Any, Any] | None:
    """The environment for a child in the current span, which is put into the variable of the run; None to leave it unchanged.

    The span is the parent of roots in `run`'s own provider in the child. A provider that the child sets does not see it.

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


def of_child(passed: Any, inherited: Mapping[str, str]) -> dict[Any, Any] | None:
    """The environment for a child in the current context; None to leave it unchanged.

    Args:
        passed: What the program passed: a mapping, or None for a copy of this process's environment. A context that
            the program itself put into it wins. Less than half of this process's variables were emptied on purpose and
            get no baggage.
        inherited: The variables of a context that this process was started with. They do not win.
    """
    carrier = _carrier.pack(context_api.get_current())
    if _carrier.OWNED in carrier:  # a span of `run`'s own provider is for processes below `run`
        return None
    if not carrier:
        return None
    environment = copied(passed)
    if passed is not None and _is_emptied(environment):
        carrier.pop(_carrier.BAGGAGE, None)
    fields = _carrier.fields()
    set_by_program = {
        name for name in fields if name in environment and not _is(environment[name], inherited.get(name))
    }
    if set_by_program - {_carrier.BAGGAGE}:
        return None
    for name in fields - set_by_program:
        environment.pop(name, None)
        if name in carrier:
            environment[name] = carrier[name]
    return environment


def _is(value: Any, text: str | None) -> bool:
    return type(value) is str and value == text


def copied(passed: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """The variables that `subprocess` would give the child: the items of what the program passed, or this process's own."""
    if passed is None:
        return own_environment()
    return {_as_text(name): _as_text(value) for name, value in passed.items()}


def _as_text(value: Any) -> Any:
    """Bytes as text, because `python -bb` forbids to compare the two. What the system will refuse stays as it is."""
    return os.fsdecode(value) if type(value) is bytes else value


def _is_emptied(environment: Mapping[Any, Any]) -> bool:
    own = own_environment()
    names = {name for name in environment if type(name) is str}
    return 2 * len(names.intersection(own)) < len(own)


def own_environment() -> dict[str, str]:
    """The environment that a child gets by default: that of this process, as the C library knows it.

    `os.environ` was read when Python started. A library that has set a variable since then (MPI and CUDA libraries do) expects
    its children to get it.
    """
    try:
        entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    except (OSError, ValueError, TypeError):  # Windows
        return dict(os.environ)
    # These four run no Python code in between: another thread that sets or removes a variable moves the others.
    read = list(takewhile(_IS_ENTRY, map(entries.__getitem__, count()))) if entries else []
    pairs = [entry.partition(b"=") for entry in reversed(read)]  # of two with one name, the first is in effect
    return {os.fsdecode(name): os.fsdecode(value) for name, sign, value in pairs if sign}


_IS_ENTRY = partial(operator.is_not, None)
