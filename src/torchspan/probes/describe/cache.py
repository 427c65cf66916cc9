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

from torchspan import semconv
from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan._base.scratch import Scratch
from torchspan.probes._call import RAISED, Call
from torchspan.probes.describe import cache_neighbors
from torchspan.probes.describe import cache_seen as seen
from torchspan.probes.describe._values import known
from torchspan.probes.describe.identity import engine_id
from torchspan.semconv import CacheReason

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
        return known({semconv.CACHE_RESULT: "hit", **facts, **_cost(scratch)})
    unavailable = _unavailable(call)
    if unavailable:
        return {semconv.CACHE_RESULT: "disabled", semconv.CACHE_REASON: unavailable}
    found = scratch.get(seen.READ, (0.0, None))[1]
    if found is not seen.FOUND and seen.ENTRY not in scratch:
        return {semconv.CACHE_RESULT: "miss", **cache_neighbors.facts(call), **_cost(scratch)}
    reason = CacheReason.OUTDATED_ENTRY if found is seen.NOTHING else CacheReason.IGNORED
    return {
        **_rejected(reason, scratch),
        semconv.FALLBACK_REASON_CLASSES: [semconv.FallbackReason.CACHE_ENTRY_REJECTED],
    }


def lookup_failed(_call: Call, error: BaseException, scratch: Scratch) -> Facts:
    """An exception out of `pull_cached_engine`: an entry was rejected, unless it is an interrupt."""
    if not reading.is_a(error, Exception):
        return _cost(scratch)
    if seen.SETTINGS in scratch:
        return {**_rejected(CacheReason.SETTINGS, scratch), semconv.CACHE_SETTINGS: scratch[seen.SETTINGS]}
    if seen.INPUTS in scratch:
        return _rejected(CacheReason.INPUTS, scratch)
    if seen.REFIT in scratch:
        return _rejected(CacheReason.REFIT_FAILED if scratch[seen.ENGINE] else CacheReason.ENGINE_UNREADABLE, scratch)
    if scratch.failed_child is not None:  # reading the engine is the only child before the refit
        return _rejected(CacheReason.ENGINE_UNREADABLE, scratch)
    if scratch.get(seen.READ, (0.0, None))[1] is not RAISED and _raised_by_library(reading.traceback_of(error)):
        return _rejected(CacheReason.MALFORMED_ENTRY, scratch)
    return _rejected(CacheReason.UNREADABLE, scratch)


def _rejected(reason: str, scratch: Scratch) -> Facts:
    return {semconv.CACHE_RESULT: "rejected", semconv.CACHE_REASON: reason, **_cost(scratch)}


def _cost(scratch: Scratch) -> Facts:
    return known(
        {
            semconv.CACHE_ENTRY_SIZE: scratch.get(seen.ENTRY),
            semconv.CACHE_READ_DURATION: _read_s(scratch),
            semconv.CACHE_REFIT_DURATION: scratch.get(seen.REFIT),
        }
    )


def _unavailable(call: Call) -> str | None:
    if call.get("hash_val") is None:
        return CacheReason.NO_HASH
    return None if _can_refit() else CacheReason.REFIT_UNAVAILABLE


def _raised_by_library(entry: TracebackType | None) -> bool:
    """Whether Torch-TensorRT itself raised, while it unpacked what a cache had returned."""
    module = ""
    while entry is not None:
        module = reading.text(entry.tb_frame.f_globals.get("__name__")) or ""
        entry = entry.tb_next
    return module.startswith("torch_tensorrt.") and not module.endswith("._engine_cache")


# --- the insertion -----------------------------------------------------------------------------------------------
def inserted(call: Call, result: Any, scratch: Scratch) -> Facts:
    """`insert_engine_to_cache`, which returns whether it tried."""
    refusal = scratch.get(seen.NOT_STORED) if reading.switch(result) else _unavailable(call)
    if refusal is not None or not reading.switch(result):
        return known({semconv.CACHE_INSERTED: "refused", semconv.CACHE_REASON: refusal, **_stored(scratch)})
    refreshed = scratch.get(seen.READ, (0.0, None))[1] is seen.FOUND
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
    gone, freed = scratch.get(seen.EVICTED) or (None, None)
    return known(
        {
            semconv.CACHE_ENTRY_SIZE: scratch.get(seen.PACKED),
            semconv.ENGINE_ID: scratch.get(seen.STORED_ID),
            semconv.CACHE_READ_DURATION: _read_s(scratch),
            semconv.CACHE_EVICTED: gone,
            semconv.CACHE_EVICTED_SIZE: freed,
        }
    )


def _read_s(scratch: Scratch) -> float | None:
    """Seconds that reading the entry took; None if nothing was read."""
    read = scratch.get(seen.READ)
    return None if read is None else read[0]
