# SPDX-License-Identifier: Apache-2.0
"""A call of an observed function, as the describing functions see it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

RAISED: Any = object()
"""The result that a count receives if the call raised."""

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Signature = Mapping[str, tuple[int | None, Any]]
"""Name of a parameter -> its position if it can be passed by position, and its default; None without one.

A compilation reads one argument of hundreds of calls, and to bind each call to an `inspect.Signature` takes several times as long.
"""


class Call:
    """The arguments of one call, by the names in the observed function's signature.

    Extension types have no signature, so `get` takes the position as well. If a call does not fit the signature, the program gets its
    TypeError from the function itself.
    """

    __slots__ = ("_signature", "args", "before", "kwargs")

    def __init__(self, signature: Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.before: Any = None
        """What the adapter looked up before the call, for the description of its result."""
        self._signature: Signature = {} if signature is None else signature

    def get(self, name: str, *, position: int | None = None) -> Any:
        """The argument `name`, or the parameter's own default if it was not passed; None without one."""
        if name in self.kwargs:
            return self.kwargs[name]
        position, default = self._signature.get(name, (position, None))
        return self.args[position] if position is not None and position < len(self.args) else default


def guarded(function: Any) -> Any:
    """The function inside one of Torch-TensorRT's guards (`needs_refit` and its like), or `function` itself.

    The guards hide what they guard without `functools.wraps` (torch_tensorrt/_features.py).
    """
    if (
        type(function) is not FunctionType
        or function.__module__ != "torch_tensorrt._features"
        or not function.__closure__
    ):
        return function
    inside = [cell.cell_contents for cell in function.__closure__ if type(cell.cell_contents) is FunctionType]
    return inside[0] if len(inside) == 1 else function


def signature_of(function: Any) -> Signature | None:
    """The signature of `function`, or of the function that a guard guards. None without one (extension types)."""
    try:
        parameters = inspect.signature(guarded(function)).parameters.values()
    except (TypeError, ValueError):
        return None
    places = {parameter.name: place for place, parameter in enumerate(parameters) if parameter.kind in _BY_POSITION}
    return {
        parameter.name: (
            places.get(parameter.name),
            None if parameter.default is inspect.Parameter.empty else parameter.default,
        )
        for parameter in parameters
    }
