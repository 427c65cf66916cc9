# SPDX-License-Identifier: Apache-2.0
"""Turns the rows of `_replacements.py` into replaced names, once per process and at the right moments."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from torchspan.base.imports import AroundImport
from torchspan.hooks.without_gpu._replacements import TENSORRT, TORCH, TORCH_TENSORRT, Replacement
from torchspan.hooks.without_gpu._stand_in_errors import TooLateError

_MISSING = object()
_TENSORRT = ("tensorrt", "tensorrt_rtx")
_lock = threading.RLock()
_is_on = False

applied: dict[str, Any] = {}
"""Dotted name -> what it was replaced with, for every name replaced so far."""


def enable() -> None:
    global _is_on
    with _lock:
        if not _is_on:
            _check_in_time()
            arounds = {name: functools.partial(_around_tensorrt, name) for name in _TENSORRT}
            AroundImport({"torch": _around_torch, "torch_tensorrt": _around_torch_tensorrt, **arounds}).install()
            if "torch" in sys.modules:
                _apply(TORCH)
            for name in _TENSORRT:
                if name in sys.modules:
                    _apply_to_tensorrt(name)
            _is_on = True


def is_on() -> bool:
    return _is_on


def _check_in_time() -> None:
    remedy = (
        "Call torchspan.testing.without_gpu() first thing in the program (or in conftest.py), or set TORCHSPAN_WITHOUT_GPU=1 "
        "and start it with `opentelemetry-instrument` or `torchspan run`."
    )
    if "torch_tensorrt" in sys.modules:
        where = getattr(sys.modules["torch_tensorrt"], "__file__", None) or "this process"
        raise TooLateError(
            "torchspan.testing.without_gpu() was called after torch_tensorrt had been imported "
            f"(from {where}): torch_tensorrt looks for a GPU during its import. {remedy}"
        )
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise TooLateError(
            f"torchspan.testing.without_gpu() was called after CUDA had been initialized: tensors may be on a GPU. {remedy}"
        )


@contextmanager
def _around_torch() -> Iterator[None]:
    yield
    _apply(TORCH)


@contextmanager
def _around_tensorrt(name: str) -> Iterator[None]:
    yield
    _apply_to_tensorrt(name)


def _apply_to_tensorrt(name: str) -> None:
    """Right after the package's own body, so that an instrumentation that hooks TensorRT, however early, hooks the stand-in.

    The stand-in is PyTorch's: without it nothing can run an engine here, and nothing is replaced.
    """
    if importlib.util.find_spec("torch") is not None:
        importlib.import_module("torch")
        _apply(TENSORRT, sys.modules[name])
        _share_engines()


@contextmanager
def _around_torch_tensorrt() -> Iterator[None]:
    # torch is imported by now or by the body; these modules import it themselves.
    from torchspan.hooks.without_gpu._library import hidden_during_import

    with hidden_during_import():
        yield
    _apply(TORCH_TENSORRT)


def _share_engines() -> None:
    from torchspan.hooks.without_gpu import _engines
    from torchspan.hooks.without_gpu._engine_folder import EngineFolder, default_folder

    folder = default_folder()
    _engines.share(None if folder is None else EngineFolder(folder))


def _apply(rows: tuple[Replacement, ...], home: ModuleType | None = None) -> None:
    """Replace what the rows name, in `home` where that is given: TensorRT goes by two names."""
    torch: Any = sys.modules["torch"]
    if not hasattr(torch._C, "_CudaDeviceProperties"):  # a CPU build of torch: torch_tensorrt's annotations name it
        torch._C._CudaDeviceProperties = type("_CudaDeviceProperties", (), {})
    for row in rows:
        module = home or _module(row.module)
        if module is None:
            continue
        maker = _maker(row.maker)
        for name in row.names.split():
            _replace(module, name, row, maker)


def _module(name: str) -> ModuleType | None:
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:  # of another version
        return None


def _maker(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(f"torchspan.hooks.without_gpu.{module}"), name)


def _replace(module: ModuleType, path: str, row: Replacement, maker: Any) -> None:
    *owners, name = path.split(".")
    owner: Any = module
    for part in owners:
        owner = getattr(owner, part, None)
    original = _MISSING if owner is None else _get(owner, name)
    if original is _MISSING:
        return
    call = f"{row.module}.{path}"
    new = maker(original, call)
    if row.is_stand_in:  # tells observers that no GPU and no TensorRT runtime stands behind this name
        new.__torchspan_stand_in__ = True
    setattr(owner, name, new)
    home: Any = sys.modules.get(str(getattr(original, "__module__", "")))
    if home is not None and getattr(home, name, None) is original:  # re-exported: torch.cuda.memory, torch.cuda.streams
        setattr(home, name, new)
    applied[call] = new


def _get(owner: Any, name: str) -> Any:
    """As getattr, except that a class method keeps its `__func__` and a module proxy is not asked for what it lacks."""
    owner = getattr(owner, "_target_module", owner)  # torch_tensorrt's `tensorrt` proxy prints what it does not find
    return getattr(owner, name, _MISSING)
