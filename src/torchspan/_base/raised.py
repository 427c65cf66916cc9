# SPDX-License-Identifier: Apache-2.0
"""Reads an exception without running its code.

`str(error)` may run code of the program: its class may define `__str__`, and so may an argument. A class may also replace
`args` and `__cause__`. All of this is read through `BaseException` itself.
"""

from __future__ import annotations

from typing import Any

_SLOTS: dict[str, Any] = dict(vars(BaseException))


def text_of(error: BaseException) -> str:
    """The first argument that is exactly a `str`: the message, for all exceptions that libraries define."""
    arguments = _SLOTS["args"].__get__(error)
    return next((argument for argument in arguments if type(argument) is str), "")


def causes_of(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """The exception from which `error` was raised, and the one that was being handled when it was raised."""
    return _SLOTS["__cause__"].__get__(error), _SLOTS["__context__"].__get__(error)
