# SPDX-License-Identifier: Apache-2.0
"""Programs started through `subprocess`: the context is put into the environment of the child, never into that of this process."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import context as context_api

from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.patching import Function
from torchspan.propagation import _carrier
from torchspan.propagation._start_up import INHERITED

try:
    import ctypes
except ImportError:  # a Python that was built without it
    ctypes = None  # type: ignore[assignment]

ENV_PLACE = 10
"""The position of `env` among the arguments of `subprocess.Popen`, not counting `self`."""


def popen(boundary: ErrorBoundary, original: Function) -> Function:
    """The replacement of `subprocess.Popen.__init__`, also for run, call, check_output, os.popen and asyncio's functions."""
    return with_environment(original, lambda environment: boundary.attempt(of_child, environment, INHERITED))


def with_environment(original: Function, environment_of: Callable[[Any], dict[Any, Any] | None]) -> Function:
    """`subprocess.Popen.__init__` with another environment for the child.

    Args:
        environment_of: Takes the variables that the program passed, as a mapping or as pairs, and returns what the child gets; None to
            leave it unchanged. None is for a copy of this process's environment.
    """

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        by_position = len(args) > ENV_PLACE
        passed = args[ENV_PLACE] if by_position else kwargs.get("env")
        environment: Any = None
        if passed is None or type(passed) in (dict, type(os.environ)):
            environment = environment_of(passed)
        elif isinstance(passed, Mapping):
            environment = _Passed(passed, environment_of)
        if environment is not None and by_position:
            args = (*args[:ENV_PLACE], environment, *args[ENV_PLACE + 1 :])
        elif environment is not None:
            kwargs["env"] = environment
        original(self, *args, **kwargs)

    return start


class _Passed:
    """A mapping of another type as the program passed it. Its methods are called where `subprocess` calls them, and no others."""

    def __init__(self, passed: Mapping[Any, Any], environment_of: Callable[[Any], dict[Any, Any] | None]) -> None:
        self._passed = passed
        self._environment_of = environment_of

    def items(self) -> Any:
        passed = [(name, value) for name, value in self._passed.items()]  # `list` would ask for the length
        environment = self._environment_of(passed)
        return passed if environment is None else environment.items()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._passed, name)

    def __getitem__(self, name: Any) -> Any:
        return self._passed[name]

    def __len__(self) -> int:
        return len(self._passed)


def of_child(passed: Any, inherited: Mapping[str, str]) -> dict[Any, Any] | None:
    """The environment for a child in the current context; None to leave it unchanged.

    Args:
        passed: What the program passed: a mapping or pairs, or None for a copy of this process's environment. A context that
            the program itself put into it wins. Less than half of this process's variables were emptied on purpose and
            get no baggage.
        inherited: The variables of a context that this process was started with. They do not win.
    """
    carrier = _carrier.pack(context_api.get_current())
    if _carrier.OWNED in carrier:  # a span of `run`'s own provider is for processes below `run`
        return None
    if not carrier:
        return None
    own = own_environment()
    environment = dict(own if passed is None else passed)
    if passed is not None and _is_emptied(environment, own):
        carrier.pop(_carrier.BAGGAGE, None)
    fields = _carrier.fields()
    values = {name: _value(environment, name) for name in fields}
    set_by_program = {name for name in fields if values[name] is not None and values[name] != inherited.get(name)}
    if set_by_program - {_carrier.BAGGAGE}:
        return None
    for name in fields - set_by_program:
        environment.pop(key_of(environment, name) or name, None)
        if name in carrier:
            environment[name] = carrier[name]
    return environment


def _is_emptied(environment: Mapping[Any, Any], own: Mapping[str, str]) -> bool:
    names = {os.fsdecode(key) for key in environment if isinstance(key, (str, bytes))}
    return 2 * len(names.intersection(own)) < len(own)


def _value(environment: Mapping[Any, Any], name: str) -> str | None:
    """The text of a variable; empty if the program passed something else, which the system will refuse or accept."""
    value = environment.get(key_of(environment, name) or name)
    if value is None or type(value) is str:
        return value
    return os.fsdecode(value) if type(value) is bytes else ""


def key_of(environment: Mapping[Any, Any], name: str) -> str | bytes | None:
    """The variable's key, which may be text or bytes. A key is never compared with the other type: `python -bb` forbids it."""
    forms = ((str, name), (bytes, os.fsencode(name)))
    return next((key for key in environment for kind, form in forms if isinstance(key, kind) and key == form), None)


def own_environment() -> Mapping[str, str]:
    """The environment that a child gets by default: that of this process, as the C library knows it.

    `os.environ` was read when Python started. A library that has set a variable since then (MPI and CUDA libraries do) expects
    its children to get it.
    """
    if ctypes is None or os.name != "posix":
        return os.environ
    try:
        entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    except (OSError, ValueError, TypeError):
        return os.environ
    # In C alone: another thread of Python that sets or removes a variable moves the others.
    read = list(iter(map(entries.__getitem__, itertools.count()).__next__, None)) if entries else []
    result: dict[str, str] = {}
    for entry in read:
        name, sign, value = entry.partition(b"=")
        if sign:
            result.setdefault(os.fsdecode(name), os.fsdecode(value))
    return result
