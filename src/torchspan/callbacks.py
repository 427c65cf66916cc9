# SPDX-License-Identifier: Apache-2.0
"""A Python implementation of ATen's RecordFunction callbacks, with the words of ATen/record_function.h.

Callbacks are pairs, a start and an end, that run around events: ranges of the program's own (`record_function`) and, while
the bridge is on, its phases (`torchspan.phase`). They live as long as the process, whether the bridge is on or not.

    handle = add_global_callback(RecordFunctionCallback(lambda record: time.perf_counter(), report, sampling_prob=0.01))

docs/callbacks-and-observers.md teaches it and says of each public name of the header what it is here. Everything may be
called from any thread and inside a callback. In a function that Dynamo traces everything does nothing: what registers
returns `INVALID_CALLBACK_HANDLE`, what asks says that no callback is registered.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from torchspan import _dynamo_safety
from torchspan._base import reading
from torchspan._base.errors import Guarded
from torchspan.subscribers import sampling
from torchspan.subscribers.checks import check_bool, check_callable, checked_scopes
from torchspan.subscribers.entry import Entry
from torchspan.subscribers.local_state import (
    DisableRecordFunctionGuard,
    RecordFunctionGuard,
    RecordFunctionTLS,
    ThreadLocalState,
    enable_record_function,
    get_record_function_tls,
    is_record_function_enabled,
    set_record_function_tls,
)
from torchspan.subscribers.ranges import record_function
from torchspan.subscribers.record_function import RecordFunction, current_thread_id
from torchspan.subscribers.registry import REGISTRY, probability
from torchspan.subscribers.sampling import SamplingMode
from torchspan.subscribers.scope import RecordScope, Scope

__all__ = [
    "INVALID_CALLBACK_HANDLE",
    "CallbackHandle",
    "DisableRecordFunctionGuard",
    "RecordFunction",
    "RecordFunctionCallback",
    "RecordFunctionGuard",
    "RecordFunctionTLS",
    "RecordScope",
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

CallbackHandle = int
"""Names a registered callback: unique, never given out again."""

INVALID_CALLBACK_HANDLE: CallbackHandle = 0
"""Names none; whatever is done with it does nothing."""


def _nothing(_record: RecordFunction, _context: Any) -> None:
    """The end of a callback that has none."""


@dataclass(frozen=True)
class RecordFunctionCallback:
    """A start and an end that run as a pair and are sampled together. Raises ValueError, TypeError for what cannot be.

    start: called with the `RecordFunction`; what it returns is the observer context. end: called with the same object and
    the observer context. needs_inputs, needs_outputs, needs_ids: have them in the `RecordFunction`. sampling_prob: how
    probable it is that the pair runs for an event, 0 to 1. scopes: for which; empty means all, phases included. should_run:
    called without arguments at each event, decides in place of `sampling_prob`. sampling_mode: where `sampling_prob` is
    applied, to each event as in PyTorch or where a tree of events starts.
    """

    start: Callable[[RecordFunction], Any]
    end: Callable[[RecordFunction, Any], Any] | None = None
    needs_inputs: bool = False
    needs_outputs: bool = False
    needs_ids: bool = False
    sampling_prob: float = 1.0
    scopes: Collection[Scope] = field(default=frozenset())
    should_run: Callable[[], Any] | None = None
    sampling_mode: SamplingMode = SamplingMode.PER_EVENT

    def __post_init__(self) -> None:
        check_callable("start", self.start)
        check_callable("end", self.end, optional=True)
        check_callable("should_run", self.should_run, optional=True)
        for name in ("needs_inputs", "needs_outputs", "needs_ids"):
            check_bool(name, getattr(self, name))
        probability(self.sampling_prob)
        object.__setattr__(self, "scopes", checked_scopes(self.scopes))
        if not isinstance(self.sampling_mode, SamplingMode):
            modes = ", ".join(str(each) for each in SamplingMode)
            raise TypeError(f"sampling_mode must be a SamplingMode ({modes}), not {self.sampling_mode!r}")


# --- registration ---------------------------------------------------------------------------------------------
def add_global_callback(callback: RecordFunctionCallback) -> CallbackHandle:
    """Register a callback for the whole process. Logs a warning if nothing fires a scope that it names.

    Raises TypeError for what is no `RecordFunctionCallback`.
    """
    return INVALID_CALLBACK_HANDLE if _dynamo_safety.is_tracing() else _add(callback, is_local=False)


def add_thread_local_callback(callback: RecordFunctionCallback) -> CallbackHandle:
    """Have `callback` run for events of the work going on here, never sampled.

    It follows the work into tasks, threads, thread pools and `asyncio.to_thread` that are started from now on; elsewhere
    `ThreadLocalState` takes it. Raises TypeError for what is no `RecordFunctionCallback`.
    """
    return INVALID_CALLBACK_HANDLE if _dynamo_safety.is_tracing() else _add(callback, is_local=True)


def _add(callback: RecordFunctionCallback, *, is_local: bool) -> CallbackHandle:
    if not isinstance(callback, RecordFunctionCallback):
        hint = f": write RecordFunctionCallback({getattr(callback, '__name__', '…')})" if callable(callback) else ""
        raise TypeError(f"callback must be a RecordFunctionCallback, not {callback!r}{hint}")
    scopes: frozenset[Scope] = frozenset(callback.scopes)
    silent = sorted(REGISTRY.silent(scopes), key=lambda each: each.name)
    if silent:
        names = ", ".join(each.name for each in silent)
        REGISTRY.warn(
            f"A callback was registered on {names}, and nothing that is installed fires that yet: {REGISTRY.reason(silent)}."
        )
    if is_local and callback.sampling_prob != 1:
        REGISTRY.warn("A thread-local callback is never sampled: its sampling_prob is not used.")
    handle = REGISTRY.new_handle()
    entry = Entry(
        handle,
        Guarded(f"callback {handle} ({reading.function_name(callback.start)}) of {_named(scopes)}"),
        callback.start,
        callback.end or _nothing,
        scopes,
        REGISTRY.guard,
        probability=1.0 if is_local else float(callback.sampling_prob),
        mode=callback.sampling_mode,
        should_run=callback.should_run,
        needs_inputs=callback.needs_inputs,
        needs_outputs=callback.needs_outputs,
        needs_ids=callback.needs_ids,
    )
    (REGISTRY.add_local if is_local else REGISTRY.add)(entry)
    return handle


_SCOPES_NAMED = 3
"""How many scopes of a callback the log names."""


def _named(scopes: frozenset[Scope]) -> str:
    names = sorted(each.name for each in scopes)
    others = len(names) - _SCOPES_NAMED
    more = f" and {others} more" if others > 0 else ""
    return ", ".join(names[:_SCOPES_NAMED]) + more if names else "all scopes"


def remove_callback(handle: CallbackHandle) -> None:
    """Unregister the callback, wherever it has followed the work to. What it started still ends."""
    entry = _find(handle)
    if entry is not None:
        REGISTRY.remove(entry)


def disable_callback(handle: CallbackHandle) -> None:
    """Have the callback start for no event until `reenable_callback`; what it started still ends."""
    entry = _find(handle)
    if entry is not None:
        REGISTRY.enable(entry, enabled=False)


def reenable_callback(handle: CallbackHandle) -> None:
    """Take `disable_callback` back."""
    entry = _find(handle)
    if entry is not None:
        REGISTRY.enable(entry, enabled=True)


def _find(handle: CallbackHandle) -> Entry | None:
    return None if _dynamo_safety.is_tracing() else REGISTRY.find(handle)


def has_global_callbacks() -> bool:
    """Whether a global callback is registered, a disabled one included."""
    return not _dynamo_safety.is_tracing() and bool(REGISTRY.users())


def has_thread_local_callbacks() -> bool:
    """Whether a thread-local callback is registered for the work going on here, a disabled one included."""
    return not _dynamo_safety.is_tracing() and any(not each.is_removed for each in get_record_function_tls().callbacks)


def has_callbacks() -> bool:
    """Whether any callback is registered that may run here."""
    return has_global_callbacks() or has_thread_local_callbacks()


def clear_global_callbacks() -> None:
    """Remove every global callback."""
    if not _dynamo_safety.is_tracing():
        for entry in REGISTRY.users():
            REGISTRY.remove(entry)


def clear_thread_local_callbacks() -> None:
    """Have no thread-local callback run for the work going on here any more; work started before keeps its own."""
    if not _dynamo_safety.is_tracing():
        set_record_function_tls(get_record_function_tls()._replace(callbacks=()))
        REGISTRY.update()


def clear_callbacks() -> None:
    """Both of the above."""
    clear_global_callbacks()
    clear_thread_local_callbacks()


def set_record_function_seed_for_testing(seed: int) -> None:
    """Have sampling pick the same events again, in this thread; every thread draws again how far its next hits are."""
    if not _dynamo_safety.is_tracing():
        sampling.seed(seed)
        REGISTRY.update()


# --- which process this is ------------------------------------------------------------------------------------
_default_node_id: int | None = None


def set_default_node_id(node_id: int) -> None:
    """Say which node of a distributed program this process is."""
    global _default_node_id
    if not _dynamo_safety.is_tracing():
        _default_node_id = node_id


def get_default_node_id() -> int:
    """What was set; else the rank, of torch.distributed or of the variable RANK that torchrun sets; else -1."""
    if _dynamo_safety.is_tracing():
        return -1
    if _default_node_id is not None:
        return _default_node_id
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else -1


_dynamo_safety.register_with_dynamo()
