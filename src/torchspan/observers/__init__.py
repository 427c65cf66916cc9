# SPDX-License-Identifier: Apache-2.0
"""Callbacks that receive calls with their arguments and results, compatible with `torch_tensorrt.dynamo.observer`.

    with torchspan.observers.tensorrt.build_engine.post.add(lambda context: print(context.outcome)):
        torch_tensorrt.compile(...)

Every phase has a pair of observers below the name of its library: `torch_tensorrt.compile`, `torch_tensorrt.convert`,
`tensorrt.build_engine`, `torch.export` and so on. `observable` and `observe_function` give functions such a pair.
docs/tutorial/observers.md is a tutorial and lists the differences from Torch-TensorRT's module. In a function that Dynamo
traces, every function does nothing.
"""

# General layout: `_observer` is a source of events and `_added` its callbacks, `_observable` a pair around a function,
# `_elsewhere` functions of other libraries, `_official` the pairs of the phases, which `torch_tensorrt`, `tensorrt` and
# `torch` list.

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from torchspan.base import dynamo_safety
from torchspan.base.errors import ErrorPolicy
from torchspan.hooks.observers._elsewhere import Observation, observe_function
from torchspan.hooks.observers._observable import (
    CallableObservers,
    ObserveContext,
    ObservedCallable,
    make_observable,
    observable,
)
from torchspan.hooks.observers._observer import Observer, Registration
from torchspan.hooks.observers._official import OFFICIAL, missing
from torchspan.observers import tensorrt, torch, torch_tensorrt

RETHROW_CALLBACK_EXCEPTION: bool = False
"""Set it to True to raise exceptions of all callbacks in the observed call, as `ErrorPolicy(rethrow=True)` does for one."""

PHASES: tuple[str, ...] = tuple(OFFICIAL)
"""The names of the official pairs below this package, by library."""

_make_observable = make_observable
"""The name that Torch-TensorRT's guide uses."""

if not TYPE_CHECKING:  # a type checker knows the names

    def __getattr__(name: str) -> NoReturn:
        missing(__name__, name)


__all__ = [
    "PHASES",
    "RETHROW_CALLBACK_EXCEPTION",
    "CallableObservers",
    "ErrorPolicy",
    "Observation",
    "ObserveContext",
    "ObservedCallable",
    "Observer",
    "Registration",
    "_make_observable",
    "make_observable",
    "observable",
    "observe_function",
    "tensorrt",
    "torch",
    "torch_tensorrt",
]

dynamo_safety.register_with_dynamo()
