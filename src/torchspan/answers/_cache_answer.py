# SPDX-License-Identifier: Apache-2.0
"""The line about the engine cache: what happened to each engine, why, and what would change it."""

from __future__ import annotations

from collections import Counter

from torchspan import phase, semconv
from torchspan.answers import _labels
from torchspan.answers._answer import Answer, Why, settings_of, words
from torchspan.answers._units import plural
from torchspan.traces import Node

_C = semconv.CacheReason
_OFF = "off; cache_built_engines, reuse_cached_engines turn it on"
WHY = {
    _C.NOT_REQUESTED: Why("not requested", "reuse_cached_engines turns it on"),
    _C.NO_CACHE_GIVEN: Why("no cache passed", "pass engine_cache"),
    _C.REFIT_UNAVAILABLE: Why("refit unavailable", "the cache needs a TensorRT that refits"),
    _C.IMMUTABLE_WEIGHTS: Why("immutable weights", "immutable_weights=False turns it on"),
    _C.NO_HASH: Why("no hash", "get_hash must return one"),
    _C.SETTINGS: Why("other settings", "compile with the same, or clear the cache"),
    _C.INPUTS: Why("other inputs", "get_hash must tell them apart"),
    _C.OUTDATED_ENTRY: Why("outdated entry", "it is built again"),
    _C.OTHER_SETTINGS: Why("an entry for other settings", "compile with the same to use it"),
    _C.OTHER_INPUTS: Why("an entry for other inputs", ""),
    _C.IGNORED: Why("withheld by the cache", "the cache's own check decides"),
    _C.UNREADABLE: Why("unreadable", "remove the entry, or correct the cache"),
    _C.MALFORMED_ENTRY: Why("not a cache entry", "correct the cache's check"),
    _C.ENGINE_UNREADABLE: Why(
        "unreadable engine", "remove the entry: other TensorRT or GPU, or without one another XDG_CACHE_HOME"
    ),
    _C.REFIT_FAILED: Why("refit failed", "remove the entry"),
    _C.LARGER_THAN_CACHE: Why("larger than the cache", "raise engine_cache_size"),
    _C.CACHE_FULL: Why("cache full", "clear it, or raise engine_cache_size"),
    _C.WRITE_FAILED: Why("write failed", "make the folder writable"),
    _C.INSERT_RAISED: Why("raised", "correct the cache"),
}
_PLURALS = {"hit": "hits", "miss": "misses"}


def cache_answers(nodes: list[Node]) -> list[Answer]:
    """What happened to each engine; from conversions, which all say it, or else from the lookups that were seen."""
    conversions = sum((_outcomes(nodes, conversion) for conversion in phase.CONVERSIONS), Counter[tuple[str, str]]())
    looked = conversions or _outcomes(nodes, phase.CACHE_LOOKUP)
    stored = _outcomes(nodes, phase.CACHE_INSERT)
    if not looked and not stored:
        return _by_settings(nodes)
    if looked.keys() == {("disabled", _C.NOT_REQUESTED)} and not stored:
        return [Answer("Cache", (words(_OFF),))]
    differing = sorted(
        {name for node in nodes for name in _labels.strings(node.span.attributes, semconv.CACHE_SETTINGS)}
    )
    details = {_C.SETTINGS: " " + ", ".join(differing) if differing else "", _C.OTHER_SETTINGS: _neighbors(nodes)}
    texts = [
        f"{plural(count, result, _PLURALS.get(result, result))}{_because(reason, details)}"
        for (result, reason), count in sorted((looked + stored).items())
    ]
    remedies = dict.fromkeys(WHY[reason].remedy for _, reason in sorted(looked + stored) if reason in WHY)
    return [Answer("Cache", (words("; ".join([", ".join(texts), *filter(None, remedies)])),))]


def _outcomes(nodes: list[Node], of: phase.Phase) -> Counter[tuple[str, str]]:
    """(result, reason) of each span of this phase that has a result; an empty reason where it needs none."""
    key = semconv.CACHE_INSERTED if of is phase.CACHE_INSERT else semconv.CACHE_RESULT
    return Counter(
        (str(span.attributes[key]), str(span.attributes.get(semconv.CACHE_REASON, "")))
        for span in (node.span for node in nodes)
        if span.name == of.name and key in span.attributes
    )


def _because(reason: str, details: dict[str, str]) -> str:
    """The reason in brackets; nothing without one."""
    return f" ({WHY[reason].reason if reason in WHY else reason}{details.get(reason, '')})" if reason else ""


def _neighbors(nodes: list[Node]) -> str:
    """`: optimization_level 3 there, 2 here`, for each setting by which an entry was missed."""
    differing: dict[str, None] = {}
    for node in nodes:
        names, stored, requested = (
            _labels.strings(node.span.attributes, key)
            for key in (
                semconv.CACHE_NEIGHBOR_SETTINGS,
                semconv.CACHE_NEIGHBOR_STORED,
                semconv.CACHE_NEIGHBOR_REQUESTED,
            )
        )
        if len(names) == len(stored) == len(requested):
            for name, there, here in zip(names, stored, requested, strict=True):
                differing[f"{name} {there} there, {here} here"] = None
    return f": {'; '.join(differing)}" if differing else ""


def _by_settings(nodes: list[Node]) -> list[Answer]:
    """Where no span says what the cache did: that it is off, as the settings say."""
    settings = settings_of(nodes)
    requests = [settings.get(semconv.SETTINGS[name]) for name in ("cache_built_engines", "reuse_cached_engines")]
    is_off = requests == [False, False] and any(node.span.name == phase.BUILD_ENGINE.name for node in nodes)
    return [Answer("Cache", (words(_OFF),))] if is_off else []
