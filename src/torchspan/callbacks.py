# SPDX-License-Identifier: Apache-2.0
"""A Python implementation of ATen's RecordFunction callbacks, with the words of ATen/record_function.h.

A callback is a pair of functions, a start and an end, that run around events. Events are the ranges that a program records
with `record_function` and, while torchspan is instrumented, its phases (`torchspan.phase`). A callback stays registered
until it is removed, whether or not torchspan is instrumented:

    callback = RecordFunctionCallback(lambda record: time.perf_counter(), report, sampling_prob=0.01)
    with add_global_callback(callback):
        ...

docs/tutorial/callbacks.md is a tutorial. docs/reference/record-function.md lists each public name of the header with its
equivalent here. Every function may be called from any thread and inside a callback. In a function that Dynamo traces, every
function does nothing: registering returns `INVALID_CALLBACK_HANDLE`, and queries answer that no callback is registered.
"""

from torchspan.engine.subscribers.callbacks import *  # noqa: F403 - see `__all__`
from torchspan.engine.subscribers.callbacks import __all__  # noqa: F401
