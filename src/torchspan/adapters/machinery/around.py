# SPDX-License-Identifier: Apache-2.0
"""Wrappers that call the original once, whatever happens in torchspan's part of the call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchspan._base.errors import FAILED, Guard


def _nothing(_begun: Any, _outcome: Any) -> None:
    """There is nothing to end."""


def around(
    guard: Guard,
    name: str,
    original: Any,
    begin: Callable[[tuple[Any, ...], dict[str, Any]], Any],
    end: Callable[[Any, Any], object] = _nothing,
    failed: Callable[[Any, BaseException], object] = _nothing,
) -> Any:
    """`original`, with `begin` before each call and `end` or `failed` after it.

    The wrapper is a plain closure, not a proxy object: it pickles by name like the function that it replaces, and costs a tenth.
    It calls the original exactly once, with exactly its arguments.

    Args:
        guard: Calls the three. Only an interrupt of the program and what a policy of the user rethrows come out of them.
        name: By which the guard knows them.
        begin: Gets the arguments and keywords. With None there is nothing to end.
        end: Gets what `begin` returned, and the result. It is called once more where it failed or was interrupted.
        failed: Gets what `begin` returned, and the exception. As `end`.
    """

    def observed(*args: Any, **kwargs: Any) -> Any:
        begun = guard.begin(name, begin, args, kwargs)
        if begun is None or begun is FAILED:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            guard.end(name, failed, begun, error)
            raise
        guard.end(name, end, begun, result)
        return result

    return functools.update_wrapper(observed, original)
