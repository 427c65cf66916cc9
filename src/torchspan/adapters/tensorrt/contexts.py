# SPDX-License-Identifier: Apache-2.0
"""TensorRT's execution contexts: their creation, from where on their runs are worth watching."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from torchspan.adapters._machinery.caller import is_called_by
from torchspan.adapters._machinery.wrap import Wrapping
from torchspan.probes import Call, Probe


def wrap_create_context(wrapping: Wrapping, hook_runs: Callable[[], None], probe: Probe, original: Any) -> Any:
    """`ICudaEngine.create_execution_context(...)` as an event, unless the library that the row names calls it.

    hook_runs: called before the first context that somebody else makes. Contexts are instances of an extension type, so
        runs are hooked on their class, for all of them: where Torch-TensorRT makes all contexts, nothing is hooked.
    """
    engine = wrapping.engine

    @functools.wraps(original)
    def observed_creation(*args: Any, **kwargs: Any) -> Any:
        if not engine.active or is_called_by(probe.told_by, sys._getframe(1)):
            return original(*args, **kwargs)
        engine.guard.call("hooking runs of contexts", hook_runs)
        call = Call(None, args, kwargs)
        event = wrapping.begin(probe, call, original)
        context = original(*args, **kwargs) if event is None else wrapping.run(probe, original, call, event)
        if context is not None:
            origin = None if event is None else event.handle
            engine.guard.call("remembering a context", wrapping.remember, context, origin)
        return context

    return observed_creation
