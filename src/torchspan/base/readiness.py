# SPDX-License-Identifier: Apache-2.0
"""Whether the program has finished its warm-up. It calls `mark_ready`, or names a function of its own that ends the warm-up.

`import torchspan` loads this module, and nothing that it needs for hooks.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

Undo = Callable[[], None]

_ready = False


def mark_ready() -> None:
    """Mark the end of the warm-up: from now on the program serves requests.

    Later compilations by Torch-TensorRT and `torch.compile`, for which a request may be waiting, carry
    `torchspan.while_serving` on their spans, and the metric `torchspan.serving.compilations` counts them. The call may come
    before or after `instrument`. It applies to the process and to its later forks.
    """
    global _ready
    _ready = True


def mark_not_ready() -> None:
    """Mark the start of another warm-up, for a server that loads its next model. The reverse of `mark_ready`."""
    global _ready
    _ready = False


def is_ready() -> bool:
    """Return whether `mark_ready` was called, and `mark_not_ready` was not called after it."""
    return _ready


def mark_ready_after(function: str) -> Undo:
    """Call `mark_ready()` each time `function` has returned without an exception, or, for a coroutine function, has been awaited.

    Args:
        function: `module:function` or `module:Class.method`. The module is not imported. The function is hooked once
            the program has imported it. A warning is logged if the module has no such function, or if it is a generator
            function, which returns before it has done anything. The returned function undoes the hook.
    """
    from torchspan.base.import_hooks import when_imported

    module, _, path = function.partition(":")
    return when_imported(module, functools.partial(_hook, module, path))


def _hook(module: str, path: str, late: bool) -> Undo:
    """Raises nothing: an exception would come out of the program's own import of the module."""
    import inspect

    from torchspan.base.logs import Log
    from torchspan.base.patching import Patches, in_use

    patches = Patches(module, everywhere=late)
    holder, name, original = _find(sys.modules[module], path)
    if not callable(original):
        reason = "the module has no such function"
    elif inspect.isgeneratorfunction(original) or inspect.isasyncgenfunction(original):
        reason = "it is a generator function, which returns before it has done anything"
    else:
        if holder is sys.modules[module]:
            patches.replace_functions([(original, _marking(in_use(original)))])
        else:
            patches.replace_attribute(holder, name, _marking)
        return patches.undo
    Log("torchspan").warning(
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
    member = vars(holder).get(name)
    return holder, name, getattr(member, "__func__", member)  # that of a static or class method


def _marking(original: Any) -> Any:
    import inspect

    @functools.wraps(original)
    def until_returned(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        mark_ready()
        return result

    @functools.wraps(original)
    async def until_awaited(*args: Any, **kwargs: Any) -> Any:
        result = await original(*args, **kwargs)
        mark_ready()
        return result

    return until_awaited if inspect.iscoroutinefunction(original) else until_returned
