# SPDX-License-Identifier: Apache-2.0
"""`torch.cuda` of a machine with one GPU, where there is none. Each factory takes the original and returns its stand-in."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from types import FrameType, SimpleNamespace
from typing import Any

import torch

from torchspan.hooks.without_gpu._stand_in_errors import NeedsGpuError

TOTAL_BYTES, FREE_BYTES = 24 << 30, 20 << 30

# Their own CUDA branches would continue to calls that have no stand-in (RNG state, allocator hooks, custom kernels).
_LIBRARIES = frozenset({"functorch", "torch", "torch_tensorrt", "torchgen", "transformers", "triton"})

PROPERTIES = SimpleNamespace(
    name="torchspan stand-in",
    major=8,
    minor=9,
    total_memory=TOTAL_BYTES,
    multi_processor_count=100,
    warp_size=32,
    max_threads_per_multi_processor=1536,
    max_threads_per_block=1024,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=99 << 10,
    shared_memory_per_multiprocessor=100 << 10,
    L2_cache_size=64 << 20,
    is_integrated=0,
    is_multi_gpu_board=0,
    gcnArchName="",
    uuid="GPU-00000000-0000-0000-0000-000000000000",
)


def for_program(answer: Any, library_answer: Any) -> Callable[[Any, str], Any]:
    """A function that answers the program one thing, and the libraries that would act on it another.

    Who asks is decided by the module of the calling frame. Dynamo, where it evaluates the call for a model it traces,
    asks on the program's behalf.
    """

    def make(original: Any, _call: str) -> Any:
        @functools.wraps(original)
        def ask(*_args: Any, **_kwargs: Any) -> Any:
            caller = str(sys._getframe(1).f_globals.get("__name__", ""))
            if caller.partition(".")[0] in _LIBRARIES and not caller.startswith("torch._dynamo.variables"):
                return library_answer
            return answer

        ask._dynamo_marked_constant = True  # type: ignore[attr-defined] # torch.compiler.assume_constant_result, unimported
        return ask

    return make


def returns(value: Any) -> Callable[[Any, str], Any]:
    """A function that takes anything and returns `value`."""

    def make(original: Any, _call: str) -> Any:
        @functools.wraps(original)
        def answer(*_args: Any, **_kwargs: Any) -> Any:
            return value

        return answer

    return make


def stands_in(value: Any) -> Callable[[Any, str], Any]:
    """The object itself instead of the original."""

    def make(_original: Any, _call: str) -> Any:
        return value

    return make


def refuses_class(original: Any, call: str) -> Any:
    """A subclass whose construction raises NeedsGpuError: annotations and isinstance continue working."""

    def new(_cls: type, *_args: Any, **_kwargs: Any) -> Any:
        raise NeedsGpuError(call)

    body = {"__new__": new, "__module__": original.__module__, "__doc__": original.__doc__}
    return type(original.__name__, (original,), body)


def no_initialization(original: Any, _call: str) -> Any:
    """`torch.cuda._lazy_init`, through which Python and C++ alike initialize CUDA: refuses, and names who asked."""

    @functools.wraps(original)
    def _lazy_init() -> None:
        raise NeedsGpuError(_who_asked(sys._getframe(1)))

    return _lazy_init


def _who_asked(frame: FrameType | None) -> str:
    """The outermost function of torch on the stack above the program, and the program's line."""
    call = "a tensor or operation on a CUDA device"
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "torch":
        call = f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"
        frame = frame.f_back
    if frame is None:
        return call
    place = traceback.extract_stack(frame, limit=1)[0]
    return f"{call} (called at {place.filename}:{place.lineno})"


class OnDevice:
    """Stands in for `torch.cuda.device` and `torch.cuda.device_of`: there is one device, and it is current."""

    __torchspan_stand_in__ = True

    def __init__(self, device: Any = None) -> None:
        self.idx, self.prev_idx = 0, -1
        del device

    def __enter__(self) -> None: ...
    def __exit__(self, *_exc_info: object) -> None: ...


def manual_seed(_original: Any, _call: str) -> Any:
    """Tensors "on the GPU" come from the CPU's generator, so that is the one to seed."""

    def manual_seed(seed: int) -> None:
        torch.default_generator.manual_seed(int(seed))

    return manual_seed
