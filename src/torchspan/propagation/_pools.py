# SPDX-License-Identifier: Apache-2.0
"""Work items of pools of processes: the context is propagated with the item, never to the worker that happens to run it."""

from __future__ import annotations

from typing import Any

from torchspan._base.patching import Function
from torchspan._context.threads import within
from torchspan.propagation import _carrier
from torchspan.propagation._context import CurrentContext

_HERE = CurrentContext()


class ItemPayload:
    """A function with the context of its submitter, as text. The worker process receives this object."""

    __slots__ = ("_carrier", "_function")

    def __init__(self, function: Function, carrier: dict[str, str]) -> None:
        self._function = function
        self._carrier = carrier

    def __reduce__(self) -> tuple[type[ItemPayload], tuple[Function, dict[str, str]]]:
        return type(self), (self._function, self._carrier)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in its context."""
        context = _HERE.attempt(_carrier.unpack, self._carrier)
        return within([] if context is None else [(_HERE, context)], self._function, *args, **kwargs)
