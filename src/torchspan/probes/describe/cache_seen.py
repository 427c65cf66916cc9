# SPDX-License-Identifier: Apache-2.0
"""What the parts of a look into the engine cache, and of an insertion, answered: counted while they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchspan._base.scratch import Key, Scratch
from torchspan.probes._call import RAISED, Call
from torchspan.probes.describe._values import LIST_LIMIT
from torchspan.probes.describe.identity import engine_id
from torchspan.semconv import CacheReason

# Keys of the scratch space. READ: (seconds, what came of it): FOUND, NOTHING or RAISED.
READ: Key[tuple[float, Any]] = Key("cache_read")
FOUND, NOTHING = "found", "nothing"
ENTRY: Key[int] = Key("cache_entry")
PACKED: Key[int] = Key("cache_packed")
STORED_ID: Key[str | None] = Key("cache_stored_id")
SETTINGS: Key[list[str]] = Key("cache_settings")
INPUTS: Key[bool] = Key("cache_inputs")
REFIT: Key[float] = Key("cache_refit")
ENGINE: Key[bool] = Key("cache_engine")
EVICTED: Key[tuple[int, int]] = Key("cache_evicted")
NOT_STORED: Key[str] = Key("cache_not_stored")


def count_read(scratch: Scratch, _call: Call, result: Any, duration_s: float) -> None:
    """`BaseEngineCache.check(self, hash)`: the entry or None."""
    scratch[READ] = (duration_s, RAISED if result is RAISED else NOTHING if result is None else FOUND)


def count_unpickled(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`pickle.loads(data)` as `_engine_cache` calls it: the packed entry, from any cache."""
    scratch[ENTRY] = len(call.get("data", position=0))


def count_packed(scratch: Scratch, call: Call, result: Any, _duration_s: float) -> None:
    """`BaseEngineCache.pack(serialized_engine, ...)` returns the packed entry."""
    scratch[PACKED] = len(result)
    scratch[STORED_ID] = engine_id(call.get("serialized_engine"))


def count_settings(scratch: Scratch, _call: Call, result: Any, _duration_s: float) -> None:
    """`settings_are_compatible(a, b)` returns (whether, names of the settings that differ)."""
    compatible, differing = result
    if not compatible:
        scratch[SETTINGS] = sorted(map(str, differing))[:LIST_LIMIT]


def count_input(scratch: Scratch, _call: Call, result: Any, _duration_s: float) -> None:
    """`Input.equivalent_spec(a, b)`, asked for each input."""
    if not result:
        scratch[INPUTS] = True


def count_refit(scratch: Scratch, call: Call, _result: Any, duration_s: float) -> None:
    """`_refit_single_trt_engine_with_gm(new_gm, old_engine, ...)`; without an engine TensorRT could not read it."""
    scratch[REFIT] = duration_s
    scratch[ENGINE] = call.get("old_engine") is not None


def entries(call: Call) -> tuple[int, int]:
    """How many entries a `DiskEngineCache` has, and the bytes it counts as free, before it clears some."""
    cache = call.get("self")
    return sum(1 for _ in Path(cache.engine_cache_dir).iterdir()), cache.available_engine_cache_size


def count_evicted(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`DiskEngineCache.clear_cache(self, needed_min_size)`."""
    (count, free), (count_before, free_before) = entries(call), call.before
    gone, freed = scratch.get(EVICTED, (0, 0))
    scratch[EVICTED] = (gone + count_before - count, freed + free - free_before)


def free_bytes(call: Call) -> int:
    """The bytes that a `DiskEngineCache` counts as free before it saves."""
    return int(call.get("self").available_engine_cache_size)


def count_saved(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`DiskEngineCache.save(self, hash, blob)`, which says nowhere but in its log that it did not: room shows it."""
    cache, size = call.get("self"), len(call.get("blob"))
    freed = scratch.get(EVICTED, (0, 0))[1]
    if cache.available_engine_cache_size < call.before + freed:
        return
    if size > cache.total_engine_cache_size:
        scratch[NOT_STORED] = CacheReason.LARGER_THAN_CACHE
    elif size > cache.available_engine_cache_size:
        scratch[NOT_STORED] = CacheReason.CACHE_FULL
    else:
        scratch[NOT_STORED] = CacheReason.WRITE_FAILED
