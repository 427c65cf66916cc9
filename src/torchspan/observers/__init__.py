# SPDX-License-Identifier: Apache-2.0
"""Observers: be told of calls with their arguments and results, with the words of `torch_tensorrt.dynamo.observer`.

    with torchspan.observers.build_engine.post.add(lambda context: print(context.outcome)):
        torch_tensorrt.compile(...)

Every phase of the bridge has a pair of observers here, by the last part of its span's name: `compile`, `trace`, `lower`,
`partition`, `convert`, `construct_network`, `build_engine` and so on, `pass_` for `pass`. `observable` and
`observe_function` make such pairs of functions. docs/callbacks-and-observers.md teaches it and says what is different
from Torch-TensorRT's module. In a function that Dynamo traces everything does nothing.

General layout: `_observer` is a source of events and who listens, `_observable` a pair around a function, `_official` the
pairs of the phases, `_elsewhere` functions that belong to others.
"""

from __future__ import annotations

from typing import Any

from torchspan import _dynamo_safety
from torchspan._base.errors import ErrorPolicy
from torchspan.observers._elsewhere import Observation, observe_function
from torchspan.observers._observable import CallableObservers, ObserveContext, ObservedCallable, observable
from torchspan.observers._observable import make_observable as _make_observable
from torchspan.observers._observer import Observer, Registration
from torchspan.observers._official import OFFICIAL

RETHROW_CALLBACK_EXCEPTION: bool = False
"""Set it to have exceptions of callbacks come out of the observed call, as `ErrorPolicy(rethrow=True)` does for one."""

PHASES: tuple[str, ...] = tuple(OFFICIAL)
"""The names of the official pairs, in the order of a compilation."""

globals().update(OFFICIAL, pass_=OFFICIAL["pass"])


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torchspan.observers has no {name!r}; phases with official observers: {', '.join(PHASES)}")


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
    "observable",
    "observe_function",
]

_dynamo_safety.register_with_dynamo()
