# SPDX-License-Identifier: Apache-2.0
"""Reads an exception without running its code.

`str(error)` may run code of the program: its class may define `__str__`, and so may an argument. A class may also replace
`args`. It is read through `BaseException` itself.
"""

from __future__ import annotations

from typing import Any

_SLOTS: dict[str, Any] = dict(vars(BaseException))


def first_raised(error: BaseException) -> BaseException:
    """The exception that `error` repeats with its arguments, as torch.fx raises a RuntimeError from a KeyError; else `error`."""
    cause: BaseException | None = _SLOTS["__cause__"].__get__(error)
    if cause is None:
        return error
    arguments, others = (_SLOTS["args"].__get__(each) for each in (error, cause))
    return cause if arguments and [*map(id, arguments)] == [*map(id, others)] else error


def text_of(error: BaseException) -> str:
    """The first argument, if it is exactly a `str`: the message, for exceptions that libraries define. Otherwise empty."""
    arguments = _SLOTS["args"].__get__(error)
    return arguments[0] if arguments and type(arguments[0]) is str else ""
