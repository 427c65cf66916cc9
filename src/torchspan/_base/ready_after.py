# SPDX-License-Identifier: Apache-2.0
"""A program that is ready once one of its functions has returned: `mark_ready()` without a change of its code."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchspan._base.import_hooks import when_imported
from torchspan._base.logs import Log
from torchspan._base.patching import Patches, in_use
from torchspan._base.readiness import mark_ready

logger = Log("torchspan")

Undo = Callable[[], None]


def mark_ready_after(function: str) -> Undo:
    """Call `mark_ready()` each time `function` has returned without an exception, or, for a coroutine function, has been awaited.

    function: `module:function` or `module:Class.method`. The module is not imported. The function is hooked once the program has
    imported it. A warning is logged if the module has no such function, or if it is a generator function, which returns before it
    has done anything. The returned function undoes the hook.
    """
    module, _, path = function.partition(":")
    return when_imported(module, functools.partial(_hook, module, path))


def _hook(module: str, path: str, late: bool) -> Undo:
    """Raises nothing: an exception would come out of the program's own import of the module."""
    patches = Patches(module, everywhere=late)
    holder, name, found = _find(sys.modules[module], path)
    if found is None:
        reason = "the module has no such function"
    elif inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        reason = "it is a generator function, which returns before it has done anything"
    elif holder is sys.modules[module]:
        patches.replace_functions([(found, _marking(in_use(found)))])
        return patches.undo
    else:
        patches.replace_attribute(holder, name, _marking)
        return patches.undo
    logger.warning(
        "TORCHSPAN_READY_AFTER names %s:%s, but %s; no compilation is marked `while_serving` for it. "
        "Name another function, or call torchspan.mark_ready() in the program.",
        module,
        path,
        reason,
    )
    return patches.undo


def _find(module: ModuleType, path: str) -> tuple[Any, str, Any]:
    """The module or the class that defines the function, its name there and the function; None where there is none."""
    holder: Any = module
    *classes, name = path.split(".")
    for class_ in classes:
        holder = vars(holder).get(class_)
        if not isinstance(holder, type):
            return None, name, None
    found = vars(holder).get(name)
    function = getattr(found, "__func__", found) if isinstance(found, (staticmethod, classmethod)) else found
    return holder, name, function if callable(function) else None


def _marking(original: Any) -> Any:
    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def until_ready(*args: Any, **kwargs: Any) -> Any:
            result = await original(*args, **kwargs)
            mark_ready()
            return result

        return until_ready

    @functools.wraps(original)
    def until_returned(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        mark_ready()
        return result

    return until_returned
