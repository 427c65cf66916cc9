# SPDX-License-Identifier: Apache-2.0
"""Entries of the same graph in a cache folder, if the lookup found nothing.

An entry's name is the engine's hash, and a hash has three parts of equal length: graph, inputs, settings
(`BaseEngineCache.get_hash`). So the names alone show which part differs, and no entry is read. To find the setting that differs,
the settings of this compilation are hashed with one of them changed, as the library hashes them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import itertools
import os
import pickle
import pickletools
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.base.reading import attribute, is_a
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe.common import LIST_LIMIT
from torchspan.words import semconv
from torchspan.words.semconv import CacheReason

Facts = dict[str, Any]

NAMES_LIMIT = 10_000
"""Names of a folder that are read."""

_PARTS = 3
_LEVELS = {
    "optimization_level": (None, 0, 1, 2, 3, 4, 5),
    "max_aux_streams": (None, 0, 1, 2, 3, 4),
    "tiling_optimization_level": ("none", "fast", "moderate", "full"),
    "autocast_max_depth_of_reduction": (None,),
}
"""The possible values of settings that are neither booleans nor enumerations."""

_TEXTS = frozenset({"tiling_optimization_level"})
"""Settings that are texts from a list of the library's."""


class _Hash(NamedTuple):
    graph: str
    inputs: str
    settings: str


def facts(call: Call) -> Facts:
    """`pull_cached_engine(hash_val, module, engine_cache, settings, inputs)` that found nothing."""
    wanted, folder = _hash(call.get("hash_val")), _folder(call.get("engine_cache"))
    if wanted is None or folder is None:
        return {}
    entries = [entry for entry in _entries(folder, wanted) if entry.graph == wanted.graph and entry != wanted]
    if not entries:
        return {}
    other_settings = {entry.settings for entry in entries if entry.inputs == wanted.inputs}
    differences = list(_differences(call.get("settings"), wanted.settings, other_settings))[:LIST_LIMIT]
    result: Facts = {semconv.CACHE_REASON: CacheReason.OTHER_SETTINGS if other_settings else CacheReason.OTHER_INPUTS}
    if differences:
        names, stored, requested = zip(*differences, strict=True)
        result[semconv.CACHE_NEIGHBOR_SETTINGS] = list(names)
        result[semconv.CACHE_NEIGHBOR_STORED] = list(stored)
        result[semconv.CACHE_NEIGHBOR_REQUESTED] = list(requested)
    return result


def _hash(text: Any) -> _Hash | None:
    if type(text) is not str or not text or len(text) % _PARTS:
        return None
    length = len(text) // _PARTS
    return _Hash(text[:length], text[length : 2 * length], text[2 * length :])


def _folder(cache: Any) -> str | None:
    """The folder of the library's own cache, or of a class made from it."""
    kind = reading.loaded("torch_tensorrt.dynamo._engine_cache", "DiskEngineCache")
    return reading.text(attribute(cache, "engine_cache_dir")) if is_a(cache, kind) else None


def _entries(folder: str, like: _Hash) -> Iterator[_Hash]:
    """The entries whose names are hashes of that length; none if the folder cannot be read."""
    length = sum(map(len, like))
    with contextlib.suppress(OSError), os.scandir(folder) as names:
        for entry in itertools.islice(names, NAMES_LIMIT):
            key = _hash(entry.name) if len(entry.name) == length else None
            if key is not None:
                yield key


# --- which setting it is ----------------------------------------------------------------------------------------
def _differences(settings: Any, hashed: str, others: set[str]) -> Iterator[tuple[str, str, str]]:
    """The settings that would give one of the other hashes if only that setting had another value, which is what was stored."""
    library = sys.modules.get("torch_tensorrt.dynamo._engine_cache")
    names = sorted(getattr(library, "_SETTINGS_TO_BE_ENGINE_INVARIANT", ()))
    text = getattr(library, "_canonicalize_setting_value", str)
    digest = getattr(library, "sha256_hash", None)
    if not others or not names or digest is None or not reading.is_of_library(type(settings)):
        return
    values = {name: attribute(settings, name) for name in names}
    if not all(map(_is_plain, values.values())):  # the library's text of it would be the program's
        return

    def hash_with(**changed: Any) -> Any:
        texts = [text(setting) for setting in {**values, **changed}.values()]
        return digest(pickletools.optimize(pickle.dumps(texts)))

    if hash_with() != hashed:  # another version of the library hashes in another way
        return
    for name, setting in values.items():
        for other in _alternatives(settings, name, setting):
            if hash_with(**{name: other}) in others:
                yield name, _shown(name, other), _shown(name, setting)


def _alternatives(settings: Any, name: str, setting: Any) -> Iterator[Any]:
    """Other values that the setting may have: those of its type, and the library's default."""
    if type(setting) is bool:
        yield not setting
        return
    kind: Any = type(setting)
    kinds = list(kind) if is_a(setting, enum.Enum) and reading.is_of_library(kind) else ()
    candidates = (*kinds, *_LEVELS.get(name, ()), *_precisions(name), *_default(settings, name))
    by_text = {str(candidate): candidate for candidate in candidates}  # the hash is made from texts
    yield from (dtype for text, dtype in by_text.items() if text != str(setting))


def _precisions(name: str) -> tuple[Any, ...]:
    if not name.endswith("_precision_type"):
        return ()
    torch: Any = sys.modules.get("torch")
    library = getattr(sys.modules.get("torch_tensorrt._enums"), "dtype", None)
    own = [getattr(library, dtype_name, None) for dtype_name in ("f16", "bf16")]
    return (None, torch.float16, torch.bfloat16, *(dtype for dtype in own if dtype is not None))


def _default(settings: Any, name: str) -> tuple[Any, ...]:
    is_known = reading.is_of_library(type(settings)) and dataclasses.is_dataclass(settings)
    for field in dataclasses.fields(settings) if is_known else ():
        if field.name == name and field.default is not dataclasses.MISSING:
            return (field.default,)
        if field.name == name and field.default_factory is not dataclasses.MISSING:
            return (field.default_factory(),)
    return ()


def _shown(name: str, setting: Any) -> str:
    """The value of a boolean, a number, an enumeration or a data type; `?` for anything else, which may be the program's."""
    is_listed = reading.is_of_library(type(setting)) or (name in _TEXTS and type(setting) is str)
    return str(setting) if setting is None or reading.exactly(setting, bool, int, float) or is_listed else "?"


def _is_plain(setting: Any) -> bool:
    """Whether making a text of it, as the library does for its hash, runs no code of the program."""
    if reading.exactly(setting, list, tuple, set, frozenset):
        return all(map(_is_plain, setting))
    if type(setting) is dict:
        return all(map(_is_plain, (*setting.keys(), *setting.values())))
    return (
        setting is None
        or reading.exactly(setting, bool, int, float, str, bytes)
        or reading.is_of_library(type(setting))
    )
