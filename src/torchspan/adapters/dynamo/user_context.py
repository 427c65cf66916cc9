# SPDX-License-Identifier: Apache-2.0
"""Adds the trace to PyTorch's own record of a compilation, which `TORCH_TRACE` writes and tlparse reads.

When Dynamo begins a frame, it calls each hook of `register_hook_for_recompile_user_context` for a text, and stores the texts in
`recompile_user_contexts` of the frame's `CompilationMetrics`. torchspan registers no hook there, because a hook cannot be removed.
Moreover, with any hook a frame that is compiled inside another frame's backend fails: the field is set a second time (torch 2.11 to 2.14).
Instead, the function that returns the hooks returns an additional one if the field is not set yet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchspan import _dynamo_safety
from torchspan._base import reading
from torchspan._base.errors import Guard
from torchspan._base.patching import Patches

_FIELD = "recompile_user_contexts"


def follow(patches: Patches, guard: Guard, traceparent: Callable[[], str]) -> None:
    """Make Dynamo store the result of `traceparent` when it begins a frame, until `patches` are undone."""
    original = reading.loaded("torch._dynamo.utils", "get_hook_for_recompile_user_context")
    context = reading.loaded("torch._dynamo.utils", "get_metrics_context")
    if original is None or context is None:
        return

    def torchspan_trace() -> str:
        return _dynamo_safety.undisturbed(guard.call, "naming the trace of a compilation", traceparent) or ""

    def is_unset() -> bool:
        fields = reading.attribute(context(), "_metrics")
        return type(fields) is dict and _FIELD not in fields

    @functools.wraps(original)
    def get_hook_for_recompile_user_context() -> Any:
        hooks = original()
        if not _dynamo_safety.undisturbed(guard.call, "naming the trace of a compilation", is_unset):
            return hooks
        return [*(hooks or ()), torchspan_trace]

    patches.replace_functions([(original, get_hook_for_recompile_user_context)])


__all__ = ["follow"]
