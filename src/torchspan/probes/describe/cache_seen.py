# SPDX-License-Identifier: Apache-2.0
"""What the parts of an engine-cache lookup, and of an insertion, returned. It is recorded when they return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchspan._base import reading
from torchspan._base.reading import attribute
from torchspan._base.scratch import Key, Scratch
from torchspan.probes._call import RAISED, Call
from torchspan.probes.describe._values import LIST_LIMIT
from torchspan.probes.describe.identity import engine_id
from torchspan.semconv import CacheReason

# Keys of the scratch space. READ: (seconds, result), where the result is FOUND, NOTHING or RAISED.
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
        names = (reading.text(each) for each in reading.entries(differing) or ())
        scratch[SETTINGS] = sorted(name for name in names if name is not None)[:LIST_LIMIT]


def count_input(scratch: Scratch, _call: Call, result: Any, _duration_s: float) -> None:
    """`Input.equivalent_spec(a, b)`, asked for each input."""
    if reading.switch(result) is False:
        scratch[INPUTS] = True


def count_refit(scratch: Scratch, call: Call, _result: Any, duration_s: float) -> None:
    """`_refit_single_trt_engine_with_gm(new_gm, old_engine, ...)`. Without an old engine, TensorRT could not read it."""
    scratch[REFIT] = duration_s
    scratch[ENGINE] = call.get("old_engine") is not None


def entries(call: Call) -> tuple[int, int]:
    """How many entries a `DiskEngineCache` has, and the bytes it counts as free, before it clears some."""
    cache = call.get("self")
    folder = reading.text(attribute(cache, "engine_cache_dir"))
    count = 0 if folder is None else sum(1 for _ in Path(folder).iterdir())
    return count, free_bytes(call)


def count_evicted(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`DiskEngineCache.clear_cache(self, needed_min_size)`."""
    if call.before is None:
        return
    (count, free), (count_before, free_before) = entries(call), call.before
    gone, freed = scratch.get(EVICTED, (0, 0))
    scratch[EVICTED] = (gone + count_before - count, freed + free - free_before)


def free_bytes(call: Call) -> int:
    """The bytes that a `DiskEngineCache` counts as free before it saves."""
    return reading.whole_number(attribute(call.get("self"), "available_engine_cache_size")) or 0


def count_saved(scratch: Scratch, call: Call, _result: Any, _duration_s: float) -> None:
    """`DiskEngineCache.save(self, hash, blob)`, which reports a refusal only in its log. The free space shows it."""
    free, size = free_bytes(call), reading.size(call.get("blob"))
    total = reading.whole_number(attribute(call.get("self"), "total_engine_cache_size"))
    freed = scratch.get(EVICTED, (0, 0))[1]
    if call.before is None or size is None or total is None or free < call.before + freed:
        return
    if size > total:
        scratch[NOT_STORED] = CacheReason.LARGER_THAN_CACHE
    elif size > free:
        scratch[NOT_STORED] = CacheReason.CACHE_FULL
    else:
        scratch[NOT_STORED] = CacheReason.WRITE_FAILED
