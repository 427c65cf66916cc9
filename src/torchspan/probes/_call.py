# SPDX-License-Identifier: Apache-2.0
"""A call of an observed function, as the describing functions see it."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

RAISED: Any = object()
"""The result that a count receives if the call raised."""

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Signature(inspect.Signature):
    """The signature of an observed function.

    places: the position of each argument that can be passed by position. A compilation reads one argument of hundreds of calls, and
    to bind each call to the signature takes several times as long.
    """

    __slots__ = ("places",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        parameters = enumerate(self.parameters.values())
        self.places = {parameter.name: place for place, parameter in parameters if parameter.kind in _BY_POSITION}


class Call:
    """The arguments of one call, by the names in the observed function's signature.

    Extension types have no signature, so `get` takes the position as well. If a call does not fit the signature, the program gets its
    TypeError from the function itself. Of such a call, `get` returns what was passed under the name or at the parameter's position.

    `before` is what was read before the call ran.
    """

    __slots__ = ("_bound", "_signature", "args", "before", "kwargs")

    def __init__(self, signature: Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
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
        place = None if self._signature is None else self._signature.places.get(name)
        if place is not None and place < len(self.args):
            return self.args[place]
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


def signature_of(function: Any) -> Signature | None:
    """The signature of `function`, or of the function that a guard guards. None without one (extension types)."""
    try:
        return Signature.from_callable(guarded(function))
    except (TypeError, ValueError):
        return None
