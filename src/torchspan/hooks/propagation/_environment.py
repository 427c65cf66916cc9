# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess`: the context is put into the environment of the child, never into that of this process."""

from __future__ import annotations

import ctypes
import operator
import os
from collections.abc import Mapping
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from opentelemetry import context as context_api
from opentelemetry import trace

from torchspan.hooks.propagation import _carrier
from torchspan.hooks.propagation._start_up import INHERITED
from torchspan.words.environment_variables import TORCHSPAN_RUN

if TYPE_CHECKING:
    from torchspan.start.launched.process import RunProcess

ENV_PLACE = 10
"""The position of `env` among the arguments of `subprocess.Popen`, not counting `self`."""


def in_context(args: tuple[Any, ...], kwargs: dict[str, Any], run: RunProcess | None, *, carries: bool) -> Any:
    """Positional and keyword arguments of `Popen` for a child in the current context; None to leave them unchanged.

    Args:
        run: torchspan's part in this process below `torchspan run`.
        carries: Whether the context may be propagated.
    """
    is_by_position = len(args) > ENV_PLACE
    environment = of_child(args[ENV_PLACE] if is_by_position else kwargs.get("env"), run, carries=carries)
    if environment is None:
        return None
    if is_by_position:
        return (*args[:ENV_PLACE], environment, *args[ENV_PLACE + 1 :]), kwargs
    return args, {**kwargs, "env": environment}


def of_child(passed: Any, run: RunProcess | None = None, *, carries: bool = True) -> dict[Any, Any] | None:
    """The environment for a child in the current context; None to leave it unchanged.

    Below `torchspan run` the current span is put into the variable of the run. It is the parent of roots in `run`'s own provider in the
    child. A provider that the child sets does not see it.

    Args:
        passed: What the program passed: a mapping, or None for a copy of this process's environment.
        run, carries: As above.
    """
    if passed is not None and not isinstance(passed, Mapping):
        return None  # Python refuses it
    environment = copied(passed)
    span = trace.get_current_span().get_span_context()
    # Without the variable, the program starts the child outside of the run.
    is_below_run = run is not None and span.is_valid and TORCHSPAN_RUN in environment
    if run is not None and is_below_run:
        environment[TORCHSPAN_RUN] = run.text_for_child(span)
    is_put = carries and _put_context(environment, is_passed=passed is not None)
    return environment if is_below_run or is_put else None


def _put_context(environment: dict[Any, Any], *, is_passed: bool) -> bool:
    """Put the current context into the environment. Returns False where it was left unchanged.

    A context that the program itself put into it wins; one that this process was started with does not. Less than half of this
    process's variables were emptied on purpose and get no baggage.
    """
    carrier = _carrier.pack(context_api.get_current())
    if not carrier or _carrier.OWNED in carrier:  # a span of `run`'s own provider is for processes below `run`
        return False
    if is_passed and _is_emptied(environment):
        carrier.pop(_carrier.BAGGAGE, None)
    fields = _carrier.fields()
    set_by_program = {
        name for name in fields if name in environment and not _is(environment[name], INHERITED.get(name))
    }
    if set_by_program - {_carrier.BAGGAGE}:
        return False
    for name in fields - set_by_program:
        environment.pop(name, None)
        if name in carrier:
            environment[name] = carrier[name]
    return True


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
