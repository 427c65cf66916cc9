# SPDX-License-Identifier: Apache-2.0
"""PyTorch's `device=` arguments: whatever names a CUDA device means the CPU.

Patched functions, not a TorchFunctionMode: a mode belongs to one thread and changes how Dynamo traces. Each function here
takes the original and returns its replacement. Dynamo may trace into the replacements, so they hold nothing it cannot read.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def on_cpu(device: Any) -> Any:
    """The CPU if `device` names a CUDA device ("cuda", "cuda:0", 0, torch.device("cuda")), else `device` unchanged.

    A bare integer is a CUDA ordinal, as in `Tensor.to(0)`.
    """
    if isinstance(device, torch.device):
        return torch.device("cpu") if device.type == "cuda" else device
    if isinstance(device, str):
        return "cpu" if device.startswith("cuda") else device
    if isinstance(device, int) and not isinstance(device, bool):
        return "cpu"
    return device


def factory(original: Any, _call: str) -> Any:
    """A function that takes `device=` and `pin_memory=` by keyword, as every tensor factory does."""

    @functools.wraps(original)
    def create(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        if "pin_memory" in kwargs:
            kwargs["pin_memory"] = False
        return original(*args, **kwargs)

    return create


def torch_factory(original: Any, call: str) -> Any:
    """As `factory`, for names that other parts of torch recognize by identity: TorchScript, FX and default devices."""
    from torch.jit import _builtins
    from torch.utils import _device

    create = factory(original, call)
    operator = _builtins._find_builtin(original)
    if operator is not None:
        _builtins._register_builtin(create, operator)
    constructors = _device._device_constructors()  # cached with the originals: what a default device applies to
    if original in constructors:
        constructors.add(create)
    return create


def tensor_to(original: Any, _call: str) -> Any:
    """`Tensor.to`: the device may be the first argument."""

    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (on_cpu(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        return original(self, *args, **kwargs)

    return to


def itself(original: Any, _call: str) -> Any:
    """`Tensor.cuda`, `Tensor.pin_memory`: what is there already is returned as it is, as on a GPU."""

    @functools.wraps(original)
    def stay(self: Any, *_args: Any, **_kwargs: Any) -> Any:
        return self

    return stay


def first_argument(original: Any, _call: str) -> Any:
    """A constructor whose first argument is the device."""

    @functools.wraps(original)
    def init(self: Any, device: Any, *args: Any, **kwargs: Any) -> None:
        original(self, on_cpu(device), *args, **kwargs)

    return init


def autocast(original: Any, _call: str) -> Any:
    """`autocast.__init__`: for "cuda", the CPU's autocast with the data type that CUDA's would have (float16)."""

    @functools.wraps(original)
    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            dtype = torch.get_autocast_dtype("cuda") if dtype is None else dtype
            device_type = "cpu"
        original(self, device_type, dtype, *args, **kwargs)

    return init


def generator(original: Any, _call: str) -> Any:
    """`torch.Generator`: constructing gives an object of the original type, which alone C++ accepts."""

    class GeneratorType(type(original)):  # type: ignore[misc]
        def __call__(cls, device: Any = "cpu") -> Any:
            return original(on_cpu(device))

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

    return GeneratorType(original.__name__, (original,), {"__doc__": original.__doc__, "__module__": "torch"})


def restore_location(original: Any, _call: str) -> Any:
    """`torch.serialization.default_restore_location`: storages saved on, or asked for on, CUDA come back on the CPU."""

    @functools.wraps(original)
    def restore(storage: Any, location: str) -> Any:
        return original(storage, on_cpu(location))

    return restore
