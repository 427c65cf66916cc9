# SPDX-License-Identifier: Apache-2.0
"""What the parts of a look into the engine cache, and of an insertion, answered: counted while they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchspan.probes._call import RAISED, Call
from torchspan.probes.describe._values import LIST_LIMIT
from torchspan.probes.describe.identity import engine_id
from torchspan.semconv import CacheReason

Tally = dict[str, Any]

# Keys of the tally. READ: (seconds, what came of it): FOUND, NOTHING or RAISED.
READ = "cache_read"
FOUND, NOTHING = "found", "nothing"
ENTRY = "cache_entry"
PACKED = "cache_packed"
STORED_ID = "cache_stored_id"
SETTINGS = "cache_settings"
INPUTS = "cache_inputs"
REFIT = "cache_refit"
ENGINE = "cache_engine"
EVICTED = "cache_evicted"
NOT_STORED = "cache_not_stored"


def count_read(tally: Tally, _call: Call, result: Any, duration_s: float) -> None:
    """`BaseEngineCache.check(self, hash)`: the entry or None."""
    tally[READ] = (duration_s, RAISED if result is RAISED else NOTHING if result is None else FOUND)


def count_unpickled(tally: Tally, call: Call, _result: Any, _duration_s: float) -> None:
    """`pickle.loads(data)` as `_engine_cache` calls it: the packed entry, whoever stored it."""
    tally[ENTRY] = len(call.get("data", position=0))


def count_packed(tally: Tally, call: Call, result: Any, _duration_s: float) -> None:
    """`BaseEngineCache.pack(serialized_engine, ...)` returns the packed entry."""
    tally[PACKED] = len(result)
    tally[STORED_ID] = engine_id(call.get("serialized_engine"))


def count_settings(tally: Tally, _call: Call, result: Any, _duration_s: float) -> None:
    """`settings_are_compatible(a, b)` returns (whether, names of the settings that differ)."""
    compatible, differing = result
    if not compatible:
        tally[SETTINGS] = sorted(map(str, differing))[:LIST_LIMIT]


def count_input(tally: Tally, _call: Call, result: Any, _duration_s: float) -> None:
    """`Input.equivalent_spec(a, b)`, asked for each input."""
    if not result:
        tally[INPUTS] = True


def count_refit(tally: Tally, call: Call, _result: Any, duration_s: float) -> None:
    """`_refit_single_trt_engine_with_gm(new_gm, old_engine, ...)`; without an engine TensorRT could not read it."""
    tally[REFIT] = duration_s
    tally[ENGINE] = call.get("old_engine") is not None


def entries(call: Call) -> tuple[int, int]:
    """How many entries a `DiskEngineCache` has, and the bytes it counts as free, before it clears some."""
    cache = call.get("self")
    return sum(1 for _ in Path(cache.engine_cache_dir).iterdir()), cache.available_engine_cache_size


def count_evicted(tally: Tally, call: Call, _result: Any, _duration_s: float) -> None:
    """`DiskEngineCache.clear_cache(self, needed_min_size)`."""
    (count, free), (count_before, free_before) = entries(call), call.before
    gone, freed = tally.get(EVICTED, (0, 0))
    tally[EVICTED] = (gone + count_before - count, freed + free - free_before)


def free_bytes(call: Call) -> int:
    """The bytes that a `DiskEngineCache` counts as free before it saves."""
    return int(call.get("self").available_engine_cache_size)


def count_saved(tally: Tally, call: Call, _result: Any, _duration_s: float) -> None:
    """`DiskEngineCache.save(self, hash, blob)`, which says nowhere but in its log that it did not: room shows it."""
    cache, size = call.get("self"), len(call.get("blob"))
    freed = tally.get(EVICTED, (0, 0))[1]
    if cache.available_engine_cache_size < call.before + freed:
        return
    if size > cache.total_engine_cache_size:
        tally[NOT_STORED] = CacheReason.LARGER_THAN_CACHE
    elif size > cache.available_engine_cache_size:
        tally[NOT_STORED] = CacheReason.CACHE_FULL
    else:
        tally[NOT_STORED] = CacheReason.WRITE_FAILED
