# SPDX-License-Identifier: Apache-2.0
"""Keeps torchspan's own code out of what torch.compile and torch.export trace.

Three things make a user's observed function safe, even one that was decorated before torch was imported. A decorated function
has the function itself under `_torchdynamo_inline`, which Dynamo reads instead of the wrapper, so that no code of torchspan is
traced or guarded. All other public code calls `is_tracing()` first, which Dynamo folds to True. And Dynamo never begins to
trace at a frame of torchspan, so callbacks run where Python really runs between two graphs.

`is_tracing`, `is_symbolic` and `undisturbed` are replaced once torch has been imported. Callers look them up in this module at
each call, so that what was decorated before is safe as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator
from types import CodeType
from typing import Any

from torchspan.base import boundaries, import_hooks
from torchspan.base.errors import PROCESS_GUARD

_NOT_SKIPPED = ("torchspan.hooks.without_gpu", "torchspan.testing", "torchspan.cli")
"""Packages that Dynamo may trace: the stand-in for a GPU takes the place of functions that it traces without
torchspan. The others run alongside traced code."""


_FOLDER = __file__.removesuffix(f"base{os.sep}dynamo_safety.py")
_kept_apart: set[tuple[str, int]] = set()
"""Modules whose code Dynamo skips already, each with the number of its names."""


def _never() -> bool:
    return False


def _nothing_is(_values: tuple[Any, ...]) -> bool:
    return False


is_tracing: Callable[[], bool] = _never
"""Whether a tracer is reading the calling code. The tracer folds the answer. If True, torchspan must do nothing."""

is_symbolic: Callable[[tuple[Any, ...]], bool] = _nothing_is
"""Whether a call with these values runs only for a tracer, with stand-ins for data. Such a call is not an event."""

_PLAIN = undisturbed = boundaries.undisturbed
"""`undisturbed(function, *args)` calls the function so that no tracer reads what runs inside: bookkeeping and callbacks."""


def register_with_dynamo() -> None:
    """Keep Dynamo out of every module of torchspan that has been imported, as soon as torch and Dynamo are imported."""
    _when_imported("torch", torch_arrived)
    _when_imported("torch._dynamo", dynamo_arrived)


def torch_arrived() -> None:
    """Torch has been imported: `is_tracing` and `is_symbolic` can answer from now on."""
    global is_tracing, is_symbolic
    torch = sys.modules["torch"]
    is_tracing = torch.compiler.is_dynamo_compiling
    is_symbolic = _symbolic(torch)


def dynamo_arrived() -> None:
    """Dynamo has been imported: keep it out of torchspan's code and, below it, out of callbacks."""
    global undisturbed
    dynamo = sys.modules["torch._dynamo"]
    undisturbed = boundaries.undisturbed = _undisturbed()
    boundaries.keep_apart = dynamo_arrived
    for code in _own_codes(_kept_apart):
        if code.co_filename.startswith(
            (_FOLDER, "<string>")
        ):  # others may share what the standard library has made of a function
            dynamo.eval_frame.skip_code(code)


def _when_imported(library: str, arrived: Callable[[], None]) -> None:
    def action(_late: bool) -> Callable[[], None]:
        PROCESS_GUARD.call("keeping torchspan out of what torch.compile traces", arrived)
        return _nothing

    import_hooks.when_imported(library, action)


def _nothing() -> None:
    """Undo nothing: the change is for the life of the process."""


def _own_codes(known: Collection[tuple[str, int]] = ()) -> Iterator[CodeType]:
    """Every piece of torchspan's code through which a call of the program may run, nested code included, except for modules in `known`."""
    for name, module in [*sys.modules.items()]:
        key = name, len(vars(module))
        if name.startswith("torchspan.") and not name.startswith(_NOT_SKIPPED) and key not in known:
            _kept_apart.add(key)
            for value in list(vars(module).values()):
                if getattr(value, "__module__", None) == name:
                    yield from _codes(value)


def _codes(value: Any) -> Iterator[CodeType]:
    if isinstance(value, type):
        for member in list(vars(value).values()):
            yield from _codes(member)
    elif isinstance(value, property):
        yield from _codes(value.fget)
    elif hasattr(value, "__wrapped__"):
        yield from _codes(value.__wrapped__)
        yield from _codes(getattr(value, "__code__", None))
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

    A mode for such tensors alone is not proof: Torch-TensorRT compiles below one, the program's own lowering passes included.
    """
    mode, keys = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey
    fake, proxy = keys.FAKE, keys.PROXY
    is_exporting = torch.compiler.is_exporting
    modules = sys.modules

    def is_symbolic(values: tuple[Any, ...]) -> bool:
        if mode(proxy) is not None or (mode(fake) is not None and is_exporting()):
            return True
        tensor = getattr(modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
        for member in values:  # noqa: SIM110 - a generator would take longer than all the rest
            if issubclass(type(member), tensor):  # `isinstance` would ask an object of the program for its class
                return True
        return False

    return is_symbolic


def _undisturbed() -> Any:
    """Between two graphs, and below a compiled backward, Dynamo looks at every frame that begins, and would compile torchspan's."""
    eval_frame = sys.modules["torch"]._C._dynamo.eval_frame
    watching, watch = eval_frame.get_eval_frame_callback, eval_frame.set_eval_frame

    def undisturbed(function: Callable[..., Any], *args: Any) -> Any:
        callback = watching()
        if not callback:
            return function(*args)
        watch(None)
        try:
            return function(*args)
        finally:
            watch(callback)

    undisturbed._torchdynamo_inline = _PLAIN  # type: ignore[attr-defined]  # what Dynamo reads where it traces a caller
    return undisturbed
