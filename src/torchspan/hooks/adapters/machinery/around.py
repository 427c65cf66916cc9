# SPDX-License-Identifier: Apache-2.0
"""Wrappers that call the original once, whatever happens in torchspan's part of the call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

from torchspan.base import reading
from torchspan.base.errors import Guard


def _nothing(_begun: Any, _outcome: Any) -> None:
    """There is nothing to end."""


def _without_frames(error: BaseException, wrapper: CodeType) -> None:
    """Take the frame of a wrapper that has caught `error`, and raises it again, out of its traceback.

    Where Dynamo has called it, every frame of torchspan's: so Dynamo logs the traceback that it logs without torchspan. Before
    Python 3.11, `raise` puts the wrapper's frame back.
    """
    first = entry = reading.traceback_of(error)
    if first is None or entry is None or first.tb_frame.f_code is not wrapper:
        return
    of_dynamo = reading.module_of_frame(first.tb_frame.f_back).startswith("torch._dynamo.")
    while of_dynamo and entry.tb_next is not None:
        if reading.module_of_frame(entry.tb_next.tb_frame).startswith("torchspan."):
            entry.tb_next = entry.tb_next.tb_next
        else:
            entry = entry.tb_next
    BaseException.with_traceback(error, first.tb_next)  # whatever its class defines


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
        begun = guard.call(name, begin, args, kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            guard.end(name, leave, begun, error)
            raise
        if begun is not None:
            guard.end(name, end, begun, result)
        return result

    def leave(begun: Any, error: BaseException) -> None:
        if begun is not None:
            failed(begun, error)
        _without_frames(error, observed.__code__)

    return functools.update_wrapper(observed, original)
