# SPDX-License-Identifier: Apache-2.0
"""A call of an observed function, as the describing functions see it."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

RAISED: Any = object()
"""The result that a count receives if the call raised."""


class Call:
    """The arguments of one call, by the names in the observed function's signature.

    Extension types have no signature, so `get` takes the position as well. If a call does not fit the signature, it has no named
    arguments here, and the program gets its TypeError from the function itself.

    `before` is what was read before the call ran.
    """

    __slots__ = ("_bound", "_signature", "args", "before", "kwargs")

    def __init__(self, signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.before: Any = None
        """What the adapter looked up before the call, for the description of its result."""
        self._signature = signature
        self._bound: dict[str, Any] | None = None

    def get(self, name: str, default: Any = None, *, position: int | None = None) -> Any:
        """The argument `name`, the parameter's own default if it was not passed, or `default`."""
        if name in self.kwargs:
            return self.kwargs[name]
        arguments = self._arguments()
        if name in arguments:
            return arguments[name]
        if position is not None and position < len(self.args):
            return self.args[position]
        return default

    def _arguments(self) -> dict[str, Any]:
        if self._bound is None:
            self._bound = {}
            if self._signature is not None:
                try:
                    bound = self._signature.bind_partial(*self.args, **self.kwargs)
                except TypeError:
                    return self._bound
                bound.apply_defaults()
                self._bound = dict(bound.arguments)
        return self._bound


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


def signature_of(function: Any) -> inspect.Signature | None:
    """The signature of `function`, or of the function that a guard guards. None without one (extension types)."""
    try:
        return inspect.signature(guarded(function))
    except (TypeError, ValueError):
        return None
