# SPDX-License-Identifier: Apache-2.0
"""TensorRT's execution contexts: their creation, after which their runs are hooked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.probes import Call, Record, Target


def wrap_create_context(
    factory: WrapperFactory, hook_runs: Callable[[], None], target: Target, action: Record, original: Any
) -> Any:
    """`ICudaEngine.create_execution_context(...)` as an event.

    hook_runs: called before the first context is made. Contexts are instances of an extension type, so runs are hooked on
        the class, for all contexts. If Torch-TensorRT makes all contexts, nothing is hooked.
    """
    engine = factory.engine
    hook = engine.guard.around("hooking runs of contexts")(hook_runs)
    remember = engine.guard.around("remembering a context")(factory.provenance.made_runner)

    @functools.wraps(original)
    def observed_creation(*args: Any, **kwargs: Any) -> Any:
        if not engine.active:
            return original(*args, **kwargs)
        hook()
        call = Call(None, args, kwargs)
        event = factory.open(target, action, call, original)
        context = original(*args, **kwargs) if event is None else factory.run(target, action, original, call, event)
        if context is not None:
            remember(context, None if event is None else event.handle)
        return context

    return observed_creation
