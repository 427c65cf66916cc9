# SPDX-License-Identifier: Apache-2.0
"""The trace in PyTorch's own log of a compilation, which `TORCH_TRACE` writes and tlparse reads.

Dynamo asks each hook of `register_hook_for_recompile_user_context` for a text when it begins a frame, and keeps the texts in
`recompile_user_contexts` of the frame's `CompilationMetrics`.
"""

from __future__ import annotations

from collections.abc import Callable

from torchspan import _dynamo_safety
from torchspan._base import reading
from torchspan._base.errors import Guard


def register(guard: Guard, traceparent: Callable[[], str]) -> Callable[[], None]:
    """Have Dynamo keep what `traceparent` returns when it begins a frame. Returns the undo.

    PyTorch cannot take one hook back. Where its list is not where it is known to be, the hook stays, and returns an empty text.
    """
    is_open = True

    def torchspan_trace() -> str:
        if not is_open:
            return ""
        return _dynamo_safety.undisturbed(guard.call, "naming the trace of a compilation", traceparent) or ""

    def undo() -> None:
        nonlocal is_open
        is_open = False
        hooks = reading.loaded("torch._dynamo.utils", "_recompile_user_contexts")
        if type(hooks) is list and torchspan_trace in hooks:
            hooks.remove(torchspan_trace)

    add = reading.loaded("torch._dynamo.utils", "register_hook_for_recompile_user_context")
    if add is not None:
        add(torchspan_trace)
    return undo


__all__ = ["register"]
