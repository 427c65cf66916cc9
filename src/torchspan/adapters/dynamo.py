# SPDX-License-Identifier: Apache-2.0
"""torch.compile and torch.export: what they trace must not contain us.

Three things make a range of the user's safe, also one decorated before torch was imported. A decorated function carries the
function itself under `_torchdynamo_inline`, which Dynamo reads instead of the wrapper, so that nothing of ours is traced or
guarded. Everything else asks `is_dynamo_compiling()` first, which Dynamo folds to True. And Dynamo never begins to trace at
a frame of ours: where Python really runs between two graphs, ranges are real.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from torchspan.engine import _tracing

_OURS = (
    "torchspan.engine",
    "torchspan.callbacks",
    "torchspan.carrying",
    "torchspan.names",
    "torchspan.observers",
    "torchspan.adapters.dynamo",
)


def torch_arrived() -> None:
    """The library has been imported: have the engine know when it is being traced, or run for a tracer alone."""
    torch = sys.modules["torch"]
    _tracing.is_tracing = torch.compiler.is_dynamo_compiling
    _tracing.is_symbolic = _symbolic(torch)


def dynamo_arrived() -> None:
    """Dynamo has been imported: keep it out of our code and, below it, out of callbacks."""
    dynamo = sys.modules["torch._dynamo"]
    _tracing.undisturbed = _undisturbed(dynamo)
    for code in _codes_of_ours():
        dynamo.eval_frame.skip_code(code)


def _codes_of_ours() -> Iterator[CodeType]:
    """Every piece of code through which a call of the program's may run, what is nested in another included."""
    for name in [*sys.modules]:
        if name.startswith(_OURS):
            for value in list(vars(sys.modules[name]).values()):
                if getattr(value, "__module__", None) == name:
                    yield from _codes(value)


def _codes(value: Any) -> Iterator[CodeType]:
    if isinstance(value, type):
        for each in list(vars(value).values()):
            yield from _codes(each)
    elif isinstance(value, property):
        yield from _codes(value.fget)
    elif isinstance(value, CodeType):
        yield value
        for constant in value.co_consts:
            yield from _codes(constant)
    else:
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if isinstance(code, CodeType):
            yield from _codes(code)


def _symbolic(torch: Any) -> Callable[[tuple[Any, ...]], bool]:
    """Non-strict export, AOT tracing and fake kernels run the program's Python for real, with tensors that hold no data.

    A mode for such tensors alone does not say so: Torch-TensorRT compiles below one, lowering passes of the program's included.
    """
    mode, keys = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey
    fake, proxy = keys.FAKE, keys.PROXY
    is_exporting = torch.compiler.is_exporting
    modules = sys.modules

    def is_symbolic(values: tuple[Any, ...]) -> bool:
        if mode(proxy) is not None or (mode(fake) is not None and is_exporting()):
            return True
        tensor = getattr(modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
        for each in values:  # noqa: SIM110 - a generator would take longer than all the rest
            if isinstance(each, tensor):
                return True
        return False

    return is_symbolic


def _undisturbed(dynamo: Any) -> Any:
    """Between two graphs Dynamo looks at every frame that begins, and would compile our bookkeeping."""
    watching = sys.modules["torch"]._C._dynamo.eval_frame.get_eval_frame_callback
    apart = dynamo.disable(_call)

    def undisturbed(function: Callable[..., Any], *args: Any) -> Any:
        return apart(function, *args) if watching() else function(*args)

    return undisturbed


def _call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)
