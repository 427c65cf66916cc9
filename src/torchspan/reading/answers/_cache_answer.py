# SPDX-License-Identifier: Apache-2.0
"""What caches did: the engine cache with each engine, and those of torch.compile with each graph."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

from torchspan.reading.answers import remedies
from torchspan.reading.answers._attributes import number, strings
from torchspan.reading.answers._kinds_of_answer import CacheResult
from torchspan.reading.answers._wording import settings_around, words
from torchspan.reading.answers.lines import Paragraph
from torchspan.reading.answers.units import duration, plural
from torchspan.reading.traces import Node
from torchspan.words import phase, semconv

_C = semconv.CacheReason
_OFF = CacheResult(
    sentence_pieces=("off",),
    remedy_pieces=remedies.remedy("engine_cache"),
    cache="engine",
    outcome="disabled",
    reason=_C.NOT_REQUESTED,
    count=0,
    saved_s=None,
)
WHY = {
    _C.NOT_REQUESTED: "not requested",
    _C.NO_CACHE_GIVEN: "no cache passed",
    _C.REFIT_UNAVAILABLE: "refit unavailable",
    _C.IMMUTABLE_WEIGHTS: "immutable weights",
    _C.NO_HASH: "no hash",
    _C.SETTINGS: "other settings",
    _C.INPUTS: "other inputs",
    _C.OUTDATED_ENTRY: "outdated entry",
    _C.OTHER_SETTINGS: "an entry for other settings",
    _C.OTHER_INPUTS: "an entry for other inputs",
    _C.IGNORED: "withheld by the cache",
    _C.UNREADABLE: "unreadable",
    _C.MALFORMED_ENTRY: "not a cache entry",
    _C.ENGINE_UNREADABLE: "unreadable engine",
    _C.REFIT_FAILED: "refit failed",
    _C.LARGER_THAN_CACHE: "larger than the cache",
    _C.CACHE_FULL: "cache full",
    _C.WRITE_FAILED: "write failed",
    _C.INSERT_RAISED: "raised",
}
_TURNED_OFF = {_C.NOT_REQUESTED, _C.IMMUTABLE_WEIGHTS}
_PLURALS = {"hit": "hits", "miss": "misses", "bypass": "bypasses"}


def cache_results(nodes: list[Node]) -> list[CacheResult]:
    """What the engine cache, and the caches of torch.compile, did."""
    return [*_engine_cache_results(nodes), *_compile_cache_results(nodes)]


def _engine_cache_results(nodes: list[Node]) -> list[CacheResult]:
    """What the engine cache did with each engine; from conversions, which all say it, or else from the lookups that were seen."""
    conversions = sum((_outcomes(nodes, conversion) for conversion in phase.CONVERSIONS), Counter[tuple[str, str]]())
    looked = conversions or _outcomes(nodes, phase.CACHE_LOOKUP)
    stored = _outcomes(nodes, phase.CACHE_INSERT)
    if not looked and not stored:
        return [_OFF] if _is_off(nodes) else []
    if looked.keys() == {("disabled", _C.NOT_REQUESTED)} and not stored:
        return [dataclasses.replace(_OFF, count=looked.total())]
    differing = sorted({name for node in nodes for name in strings(node.span.attributes, semconv.CACHE_SETTINGS)})
    details = {_C.SETTINGS: " " + ", ".join(differing) if differing else "", _C.OTHER_SETTINGS: _neighbors(nodes)}
    return [
        CacheResult(
            sentence_pieces=words(
                f"{plural(count, outcome, _PLURALS.get(outcome, outcome))}{_because(reason, details)}"
            ),
            remedy_pieces=remedies.remedy("engine_cache") if reason in _TURNED_OFF else (),
            cache="engine",
            outcome=outcome,
            reason=reason,
            count=count,
            saved_s=None,
        )
        for (outcome, reason), count in sorted((looked + stored).items())
    ]


_COMPILE_CACHES = (
    (
        "aotautograd",
        semconv.AOTAUTOGRAD_CACHE,
        semconv.AOTAUTOGRAD_CACHE_BYPASS_REASON,
        semconv.AOTAUTOGRAD_CACHE_SAVED,
    ),
    ("inductor", semconv.INDUCTOR_CACHE, semconv.INDUCTOR_CACHE_BYPASS_REASON, semconv.INDUCTOR_CACHE_SAVED),
)


def _compile_cache_results(nodes: list[Node]) -> Iterator[CacheResult]:
    """What the caches of torch.compile did with each graph."""
    attributes = [node.span.attributes for node in nodes]
    for cache, outcome_key, reason_key, saved_key in _COMPILE_CACHES:
        lookups = [lookup for lookup in attributes if outcome_key in lookup]
        counts = Counter(
            (str(lookup[outcome_key]), str(lookup.get(reason_key, "")).replace("\\n", "")) for lookup in lookups
        )
        for (outcome, reason), count in sorted(counts.items()):
            hits = [lookup for lookup in lookups if outcome == lookup[outcome_key] == "hit" and saved_key in lookup]
            disabled = lookups if outcome == "disabled" else []
            variables = [
                name for lookup in disabled for name in strings(lookup, semconv.INDUCTOR_CACHE_DISABLING_VARIABLES)
            ]
            saved = [number(hit, saved_key) or 0.0 for hit in hits]
            said = f", which saved {duration(sum(saved) * 1e9)}" if saved else f" ({reason})" if reason else ""
            yield CacheResult(
                sentence_pieces=words(f"{plural(count, outcome, _PLURALS.get(outcome, outcome))}{said}"),
                remedy_pieces=remedies.of_a_cache_of_graphs(reason, variables),
                cache=cache,
                outcome=outcome,
                reason=reason,
                count=count,
                saved_s=sum(saved) if saved else None,
            )


def together(results: Iterable[CacheResult]) -> Paragraph:
    """What one cache did, and what would change it, in one paragraph."""
    every = list(results)
    sentences = ", ".join(result.sentence for result in every)
    advice = dict.fromkeys(result.remedy for result in every if result.remedy)
    return words("; ".join([sentences, *advice]))


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
    return f" ({WHY.get(reason, reason)}{details.get(reason, '')})" if reason else ""


def _neighbors(nodes: list[Node]) -> str:
    """`: optimization_level 3 there, 2 here`, for each setting by which an entry was missed."""
    differing: dict[str, None] = {}
    for node in nodes:
        names, stored, requested = (
            strings(node.span.attributes, key)
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


def _is_off(nodes: list[Node]) -> bool:
    """Whether the settings of a build's own compilation turn the cache off, where no span reports what it did."""
    builds = [settings_around(node) for node in nodes if node.span.name == phase.BUILD_ENGINE.name]
    keys = [semconv.SETTINGS[name] for name in ("cache_built_engines", "reuse_cached_engines")]
    return any([settings.get(key) for key in keys] == [False, False] for settings in builds)
