# SPDX-License-Identifier: Apache-2.0
"""A Python implementation of ATen's RecordFunction callbacks, with the words of ATen/record_function.h. Its public face is `torchspan.callbacks`."""

from __future__ import annotations

import os
import sys

from torchspan.base import dynamo_safety, reading
from torchspan.base.errors import UserCallback
from torchspan.engine.subscribers import sampling
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.checks import check_handle, check_integer
from torchspan.engine.subscribers.entry import Entry, RecordFunctionCallback, Removable
from torchspan.engine.subscribers.local_state import (
    DisableRecordFunctionGuard,
    RecordFunctionGuard,
    RecordFunctionTLS,
    ThreadLocalState,
    enable_record_function,
    get_record_function_tls,
    is_record_function_enabled,
    set_record_function_tls,
)
from torchspan.engine.subscribers.ranges import RecordedRange, record_function
from torchspan.engine.subscribers.record_function import RecordFunction, current_thread_id
from torchspan.engine.subscribers.sampling import SamplingMode
from torchspan.engine.subscribers.scope import RecordScope

__all__ = [
    "INVALID_CALLBACK_HANDLE",
    "CallbackHandle",
    "DisableRecordFunctionGuard",
    "RecordFunction",
    "RecordFunctionCallback",
    "RecordFunctionGuard",
    "RecordFunctionTLS",
    "RecordScope",
    "RecordedRange",
    "SamplingMode",
    "ThreadLocalState",
    "add_global_callback",
    "add_thread_local_callback",
    "clear_callbacks",
    "clear_global_callbacks",
    "clear_thread_local_callbacks",
    "current_thread_id",
    "disable_callback",
    "enable_record_function",
    "get_default_node_id",
    "get_record_function_tls",
    "has_callbacks",
    "has_global_callbacks",
    "has_thread_local_callbacks",
    "is_record_function_enabled",
    "record_function",
    "reenable_callback",
    "remove_callback",
    "set_default_node_id",
    "set_record_function_seed_for_testing",
    "set_record_function_tls",
]


class CallbackHandle(int, Removable):
    """A registered callback: remove it with `remove`, or use the handle in a `with` statement.

    It is the number by which `remove_callback`, `disable_callback` and `reenable_callback` identify the callback. Numbers are
    unique in the process and are not reused.
    """

    __slots__ = ()

    def remove(self) -> None:
        """Unregister the callback, as `remove_callback` does. A second call does nothing."""
        remove_callback(self)


INVALID_CALLBACK_HANDLE = CallbackHandle(0)
"""The handle of no callback. Every function that takes a handle does nothing with it."""


# --- registration ---------------------------------------------------------------------------------------------
def add_global_callback(callback: RecordFunctionCallback) -> CallbackHandle:
    """Register a callback for the whole process.

    Logs a warning if the callback names a scope that nothing fires, such as a phase while torchspan is not instrumented.

    Args:
        callback: The start and the end, with the events that they run for.

    Returns:
        The handle, which removes the callback with `remove()` or at the end of a `with` statement.

    Raises:
        TypeError: `callback` is not a `RecordFunctionCallback`.
    """
    return INVALID_CALLBACK_HANDLE if dynamo_safety.is_tracing() else _add(callback, is_local=False)


def add_thread_local_callback(callback: RecordFunctionCallback) -> CallbackHandle:
    """Register a callback for the current execution context. It is not sampled.

    The callback is propagated with the work into tasks, threads, thread pools and `asyncio.to_thread` that are started from now
    on. Use `ThreadLocalState` to propagate it anywhere else.

    Args:
        callback: The start and the end, with the events that they run for. Its `sampling_prob` is not used.

    Returns:
        The handle, which removes the callback with `remove()` or at the end of a `with` statement.

    Raises:
        TypeError: `callback` is not a `RecordFunctionCallback`.
    """
    return INVALID_CALLBACK_HANDLE if dynamo_safety.is_tracing() else _add(callback, is_local=True)


def _add(callback: RecordFunctionCallback, *, is_local: bool) -> CallbackHandle:
    if not isinstance(callback, RecordFunctionCallback):
        hint = f": write RecordFunctionCallback({getattr(callback, '__name__', '…')})" if callable(callback) else ""
        raise TypeError(f"callback must be a RecordFunctionCallback, not {callback!r}{hint}")
    silent = sorted(REGISTRY.silent(callback.scopes), key=lambda scope: scope.name)
    if silent:
        names = ", ".join(scope.name for scope in silent)
        REGISTRY.warn(f"A callback was registered on {names}, which nothing fires yet: {REGISTRY.reason(silent)}.")
    if is_local and callback.sampling_prob != 1:
        REGISTRY.warn("A thread-local callback is never sampled: its sampling_prob is not used.")
    handle = CallbackHandle(REGISTRY.new_handle())
    named = ", ".join(sorted(scope.name for scope in callback.scopes)) or "all scopes"
    guarded = UserCallback(f"callback {handle} ({reading.function_name(callback.start)}) of {named}")
    REGISTRY.add(Entry(handle, guarded, callback, is_local))
    return handle


def remove_callback(handle: int) -> None:
    """Unregister a callback, in every context that it was propagated to. An end that is due still runs.

    Args:
        handle: The handle that registering returned. An unknown handle does nothing.

    Raises:
        TypeError: `handle` is not an integer.
    """
    entry = _find(handle)
    if entry is not None:
        REGISTRY.remove(entry)


def disable_callback(handle: int) -> None:
    """Pause a callback until `reenable_callback`. An end that is due still runs.

    Args:
        handle: The handle that registering returned. An unknown handle does nothing.

    Raises:
        TypeError: `handle` is not an integer.
    """
    entry = _find(handle)
    if entry is not None:
        REGISTRY.enable(entry, enabled=False)


def reenable_callback(handle: int) -> None:
    """Resume a callback that `disable_callback` paused.

    Args:
        handle: The handle that registering returned. An unknown handle does nothing.

    Raises:
        TypeError: `handle` is not an integer.
    """
    entry = _find(handle)
    if entry is not None:
        REGISTRY.enable(entry, enabled=True)


def _find(handle: int) -> Entry | None:
    if dynamo_safety.is_tracing():
        return None
    check_handle(handle)
    return REGISTRY.find(handle)


def has_global_callbacks() -> bool:
    """Return whether a global callback is registered. A disabled callback counts."""
    return not dynamo_safety.is_tracing() and bool(REGISTRY.users())


def has_thread_local_callbacks() -> bool:
    """Return whether a thread-local callback is registered for the current context. A disabled callback counts."""
    return not dynamo_safety.is_tracing() and any(
        not callback.is_removed for callback in get_record_function_tls().callbacks
    )


def has_callbacks() -> bool:
    """Return whether a callback is registered that may run here, global or thread-local."""
    return has_global_callbacks() or has_thread_local_callbacks()


def clear_global_callbacks() -> None:
    """Remove every global callback."""
    if not dynamo_safety.is_tracing():
        for entry in REGISTRY.users():
            REGISTRY.remove(entry)


def clear_thread_local_callbacks() -> None:
    """Remove every thread-local callback from the current context. Work that was started before keeps its callbacks."""
    if not dynamo_safety.is_tracing():
        set_record_function_tls(get_record_function_tls()._replace(callbacks=()))
        REGISTRY.update()


def clear_callbacks() -> None:
    """Remove every global callback, and every thread-local callback of the current context."""
    clear_global_callbacks()
    clear_thread_local_callbacks()


def set_record_function_seed_for_testing(seed: int) -> None:
    """Make sampling in this thread reproducible.

    The other threads keep their generators, and draw their next sampled event again.

    Args:
        seed: The seed of this thread's generator.

    Raises:
        TypeError: `seed` is not an integer.
    """
    if not dynamo_safety.is_tracing():
        check_integer("seed", seed)
        sampling.seed(seed)
        REGISTRY.update()


# --- which process this is ------------------------------------------------------------------------------------
_default_node_id: int | None = None


def set_default_node_id(node_id: int) -> None:
    """Set which node of a distributed program this process is.

    Args:
        node_id: The node's number, 0 or more.

    Raises:
        TypeError: `node_id` is not an integer.
        ValueError: `node_id` is negative.
    """
    global _default_node_id
    if not dynamo_safety.is_tracing():
        check_integer("node_id", node_id)
        if node_id < 0:
            raise ValueError(f"node_id must be 0 or more, not {node_id!r}")
        _default_node_id = node_id


def get_default_node_id() -> int:
    """Return which node of a distributed program this process is.

    Returns:
        The number that `set_default_node_id` set; else the rank of torch.distributed; else that of the variable RANK,
        which torchrun sets; else -1.
    """
    if dynamo_safety.is_tracing():
        return -1
    if _default_node_id is not None:
        return _default_node_id
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else -1


dynamo_safety.register_with_dynamo()
