# SPDX-License-Identifier: Apache-2.0
"""The outcome of an engine-cache lookup and of an insertion, and why.

Upstream reports little: any defect of an entry is a bare AssertionError, an ignored entry looks like a miss, and a refused
entry counts as inserted. So the answers of the cache, of pickle and of the library's own comparisons are recorded when they
are given. Nothing is read, unpickled or compared a second time, because a cache may be the user's.
"""

from __future__ import annotations

import hashlib
import sys
from types import TracebackType
from typing import Any

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.base.scratch import FAILED_CHILD, Key, Scratch
from torchspan.hooks.probes._call import RAISED, Call
from torchspan.hooks.probes.describe import cache_neighbors
from torchspan.hooks.probes.describe.common import LIST_LIMIT, engine_id
from torchspan.words import semconv
from torchspan.words.semconv import CacheReason

# --- results of the engine cache's parts ----------------------------------------------------------------------------
# Keys of the scratch space. READ is FOUND, NOTHING or RAISED.
READ: Key[Any] = Key("cache_read")
FOUND, NOTHING = "found", "nothing"
ENTRY: Key[int] = Key("cache_entry")
PACKED: Key[int] = Key("cache_packed")
STORED_ID: Key[str | None] = Key("cache_stored_id")
SETTINGS: Key[list[str]] = Key("cache_settings")
INPUTS: Key[bool] = Key("cache_inputs")
REFIT: Key[bool] = Key("cache_refit")
FREED: Key[int] = Key("cache_freed")
NOT_STORED: Key[str] = Key("cache_not_stored")


def count_read(scratch: Scratch, _call: Call, result: Any, _duration_s: float) -> None:
    """`BaseEngineCache.check(self, hash)`: the entry or None."""
    scratch[READ] = RAISED if result is RAISED else NOTHING if result is None else FOUND


def count_unpickled(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`pickle.loads(data)` as `_engine_cache` calls it: the packed entry, from any cache."""
    size = reading.size(call.get("data", position=0))
    if size is not None:
        scratch[ENTRY] = size


def count_packed(scratch: Scratch, call: Call, result: Any, _duration_s: float) -> None:
    """`BaseEngineCache.pack(serialized_engine, ...)` returns the packed entry."""
    size = reading.size(result)
    if size is not None:
        scratch[PACKED] = size
    scratch[STORED_ID] = engine_id(call.get("serialized_engine"))


def count_settings(scratch: Scratch, _call: Call, result: Any, _duration_s: float) -> None:
    """`settings_are_compatible(a, b)` returns (whether, names of the settings that differ)."""
    if type(result) is not tuple or len(result) != 2:
        return
    compatible, differing = result
    if compatible is False:
        names = (reading.text(name) for name in reading.entries(differing) or ())
        scratch[SETTINGS] = sorted(name for name in names if name is not None)[:LIST_LIMIT]


def count_input(scratch: Scratch, _call: Call, result: Any, _duration_s: float) -> None:
    """`Input.equivalent_spec(a, b)`, asked for each input."""
    if reading.switch(result) is False:
        scratch[INPUTS] = True


def count_refit(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`_refit_single_trt_engine_with_gm(new_gm, old_engine, ...)`. Without an old engine, TensorRT could not read it."""
    scratch[REFIT] = call.get("old_engine") is not None


def count_freed(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`DiskEngineCache.clear_cache(self, needed_min_size)`."""
    if call.before is not None:
        scratch[FREED] = scratch.get(FREED, 0) + free_bytes(call) - call.before


def free_bytes(call: Call) -> int:
    """The bytes that a `DiskEngineCache` counts as free."""
    return reading.whole_number(attribute(call.get("self"), "available_engine_cache_size")) or 0


def count_saved(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`DiskEngineCache.save(self, hash, blob)`, which reports a refusal only in its log. The free space shows it."""
    free, size = free_bytes(call), reading.size(call.get("blob"))
    total = reading.whole_number(attribute(call.get("self"), "total_engine_cache_size"))
    freed = scratch.get(FREED, 0)
    if call.before is None or size is None or total is None or free < call.before + freed:
        return
    if size > total:
        scratch[NOT_STORED] = CacheReason.LARGER_THAN_CACHE
    elif size > free:
        scratch[NOT_STORED] = CacheReason.CACHE_FULL
    else:
        scratch[NOT_STORED] = CacheReason.WRITE_FAILED


# ------------------------------------------------------------------------------------------------------------------
Facts = dict[str, Any]

KEY_LENGTH = 16
"""Hexadecimal digits of the digest of an engine's hash: enough to compare."""


def availability(call: Call) -> Facts:
    """`interpret_module_to_result(module, inputs, settings, engine_cache)` if it does not look the engine up in the cache.

    In the order in which upstream decides (conversion/_conversion.py).
    """
    settings = call.get("settings")
    if not reading.switch(attribute(settings, "reuse_cached_engines")):
        reason = CacheReason.NOT_REQUESTED
    elif call.get("engine_cache") is None:
        reason = CacheReason.NO_CACHE_GIVEN
    elif not _can_refit():
        reason = CacheReason.REFIT_UNAVAILABLE
    elif reading.switch(attribute(settings, "immutable_weights")):
        reason = CacheReason.IMMUTABLE_WEIGHTS
    else:
        return {}
    return {semconv.CACHE_RESULT: "disabled", semconv.CACHE_REASON: reason}


def _can_refit() -> bool:
    features = getattr(sys.modules.get("torch_tensorrt._features"), "ENABLED_FEATURES", None)
    return bool(getattr(features, "refit", True))


# --- the lookup --------------------------------------------------------------------------------------------------
def key(call: Call) -> Facts:
    """A digest of `hash_val`: a cache of the program's may return any text as the hash of an engine."""
    value = call.get("hash_val")
    if type(value) is not str:
        return {}
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=KEY_LENGTH // 2)
    return {semconv.CACHE_KEY: digest.hexdigest()}


def looked_up(call: Call, result: Any, scratch: Scratch) -> Facts:
    """`pull_cached_engine` returns the refitted engine, or None."""
    if result is not None:
        engine = attribute(result, "serialized_engine")
        facts: Facts = {semconv.ENGINE_SIZE: reading.size(engine), semconv.ENGINE_ID: engine_id(engine)}
        return {semconv.CACHE_RESULT: "hit", **facts, **_size(scratch)}
    unavailable = _unavailable(call)
    if unavailable:
        return {semconv.CACHE_RESULT: "disabled", semconv.CACHE_REASON: unavailable}
    outcome = scratch.get(READ)
    if outcome is not FOUND and ENTRY not in scratch:
        return {semconv.CACHE_RESULT: "miss", **cache_neighbors.facts(call), **_size(scratch)}
    reason = CacheReason.OUTDATED_ENTRY if outcome is NOTHING else CacheReason.IGNORED
    return {
        **_rejected(reason, scratch),
        semconv.FALLBACK_REASON_CLASSES: [semconv.FallbackReason.CACHE_ENTRY_REJECTED],
    }


def lookup_failed(_call: Call, error: BaseException, scratch: Scratch) -> Facts:
    """An exception out of `pull_cached_engine`: an entry was rejected, unless it is an interrupt."""
    if not reading.is_a(error, Exception):
        return _size(scratch)
    if SETTINGS in scratch:
        return {**_rejected(CacheReason.SETTINGS, scratch), semconv.CACHE_SETTINGS: scratch[SETTINGS]}
    if INPUTS in scratch:
        return _rejected(CacheReason.INPUTS, scratch)
    if REFIT in scratch:
        return _rejected(CacheReason.REFIT_FAILED if scratch[REFIT] else CacheReason.ENGINE_UNREADABLE, scratch)
    if FAILED_CHILD in scratch:  # reading the engine is the only child before the refit
        return _rejected(CacheReason.ENGINE_UNREADABLE, scratch)
    if scratch.get(READ) is not RAISED and _raised_by_library(reading.traceback_of(error)):
        return _rejected(CacheReason.MALFORMED_ENTRY, scratch)
    return _rejected(CacheReason.UNREADABLE, scratch)


def _rejected(reason: str, scratch: Scratch) -> Facts:
    return {semconv.CACHE_RESULT: "rejected", semconv.CACHE_REASON: reason, **_size(scratch)}


def _size(scratch: Scratch) -> Facts:
    return {semconv.CACHE_ENTRY_SIZE: scratch.get(ENTRY)}


def _unavailable(call: Call) -> str | None:
    if call.get("hash_val") is None:
        return CacheReason.NO_HASH
    return None if _can_refit() else CacheReason.REFIT_UNAVAILABLE


def _raised_by_library(entry: TracebackType | None) -> bool:
    """Whether Torch-TensorRT itself raised, while it unpacked what a cache had returned."""
    module = ""
    while entry is not None:
        module = reading.module_of_frame(entry.tb_frame)
        entry = entry.tb_next
    return module.startswith("torch_tensorrt.") and not module.endswith("._engine_cache")


# --- the insertion -----------------------------------------------------------------------------------------------
def inserted(call: Call, result: Any, scratch: Scratch) -> Facts:
    """`insert_engine_to_cache`, which returns whether it tried."""
    refusal = scratch.get(NOT_STORED) if reading.switch(result) else _unavailable(call)
    if refusal is not None or not reading.switch(result):
        return {semconv.CACHE_INSERTED: "refused", semconv.CACHE_REASON: refusal, **_stored(scratch)}
    refreshed = scratch.get(READ) is FOUND
    return {semconv.CACHE_INSERTED: "refreshed" if refreshed else "inserted", **_stored(scratch)}


def insertion_failed(_call: Call, error: BaseException, scratch: Scratch) -> Facts:
    """An exception out of `insert_engine_to_cache`, the cache's own in most cases."""
    if not reading.is_a(error, Exception):
        return _stored(scratch)
    return {
        semconv.CACHE_INSERTED: "refused",
        semconv.CACHE_REASON: CacheReason.INSERT_RAISED,
        **_stored(scratch),
    }


def _stored(scratch: Scratch) -> Facts:
    return {semconv.CACHE_ENTRY_SIZE: scratch.get(PACKED), semconv.ENGINE_ID: scratch.get(STORED_ID)}
