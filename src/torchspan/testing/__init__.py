# SPDX-License-Identifier: Apache-2.0
"""Tests of what a program compiles: its spans (`capture`), and torch_tensorrt's real pipeline without a GPU (`without_gpu`).

    import torchspan.testing

    torchspan.testing.without_gpu()  # before torch_tensorrt is imported, for example in conftest.py
    import torch_tensorrt


    def test_the_model_has_no_fallback():
        with torchspan.testing.capture() as trace:
            torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[x])
        torchspan.testing.assert_all_in_tensorrt(trace)

Importing this imports neither torch nor torch_tensorrt nor the OpenTelemetry SDK. `pytest_plugin` provides both to pytest: the
fixture `torchspan_trace` and the option `--torchspan-without-gpu`.
"""

# General layout: `_capture` holds what tests ask of spans, `_assertions` what they most often assert. `_replacements` holds the rows (what is replaced, by what);
# `_switch` applies them. `_devices`, `_cuda`, `_stand_in_answers` replace what belongs to torch, `_library` what belongs to
# torch_tensorrt, `_stand_in_tensorrt` what belongs to TensorRT; `_runtime` is TensorRT's runtime half, `_reference` the subgraph that
# runs in its place, `_engines` finds one by the other, in this process or in an `_engine_folder`.

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from torchspan.hooks.without_gpu import _switch
from torchspan.hooks.without_gpu._stand_in_errors import NeedsGpuError, TooLateError, WithoutGpuError

if TYPE_CHECKING:
    from torchspan.testing._assertions import assert_all_in_tensorrt, assert_no_graph_breaks, assert_no_recompiles
    from torchspan.testing._capture import CapturedTrace, capture

__all__ = [
    "CapturedTrace",
    "NeedsGpuError",
    "TooLateError",
    "WithoutGpuError",
    "assert_all_in_tensorrt",
    "assert_no_graph_breaks",
    "assert_no_recompiles",
    "capture",
    "is_without_gpu",
    "without_gpu",
]


def without_gpu() -> None:
    """Run Torch-TensorRT without a GPU in this process from now on. Everything that needs a GPU is replaced.

    torch_tensorrt's trace, lowering, partitioning and conversion, TensorRT's build with its engine bytes, and
    torch_tensorrt's Python runtime, caches, save, load and refit are real. A compiled module runs, in PyTorch on the CPU, the
    subgraph from which an engine was built, so its numbers are right. Programs that use "cuda" run as written. CUDA is not
    initialized.

    Call it before torch_tensorrt or TensorRT is imported; torch may be imported already. The call itself does not import torch.
    The import of TensorRT that follows does, if torch is installed. A second call does nothing.

    A call for which there is no replacement raises `NeedsGpuError`, or torch's own error, from then on: CUDA graphs, layer times,
    weight streaming, several GPUs, the C++ runtime, custom kernels. Numbers are PyTorch's, not TensorRT's. Durations of
    deserializing, executing and refitting mean nothing. `tensor.device` is the CPU, and `tensor.is_cuda` is False. For an engine that was not built here,
    `deserialize_cuda_engine` returns None and logs an error, as TensorRT does for an engine that it cannot read.

    Engines are kept with the graphs they were built from in `torchspan` in the user's cache folder (XDG_CACHE_HOME, `~/.cache`), so
    that they run in other processes, too. It holds at most 500 engines and 2 GiB; the least recently used engines are removed. Its
    files are pickles, which run code when read. A folder that belongs to another user, or that others may write to, is therefore
    not used. In the folder torchspan reads only files that it wrote for this user: each has a digest under a key.

    Raises:
        TooLateError: torch_tensorrt is imported already, or CUDA is initialized.
    """
    _switch.enable()


def is_without_gpu() -> bool:
    """Return whether `without_gpu()` was called in this process."""
    return _switch.is_on()


_LATER = {
    "CapturedTrace": "_capture",
    "assert_all_in_tensorrt": "_assertions",
    "assert_no_graph_breaks": "_assertions",
    "assert_no_recompiles": "_assertions",
    "capture": "_capture",
}


def __getattr__(name: str) -> Any:
    """A name of `_LATER`, imported at its first use: it reads traces, and a program that runs without a GPU reads none."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
