# SPDX-License-Identifier: Apache-2.0
"""What caches did: the engine cache with each engine, and those of torch.compile with each graph."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

from torchspan import phase, semconv
from torchspan.answers._attributes import number, strings
from torchspan.answers._findings import CacheResult
from torchspan.answers._wording import Why, settings_of, words
from torchspan.answers.lines import Paragraph
from torchspan.answers.units import duration, plural
from torchspan.traces import Node

_C = semconv.CacheReason
_OFF = CacheResult(
    sentence_pieces=("off",),
    remedy_pieces=words("cache_built_engines, reuse_cached_engines turn it on"),
    cache="engine",
    outcome="disabled",
    reason=_C.NOT_REQUESTED,
    count=0,
    saved_s=None,
)
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
            remedy_pieces=words(WHY[reason].remedy) if reason in WHY else (),
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
_KEEP = "keep the folder of TORCHINDUCTOR_CACHE_DIR, and the next run hits"


def _compile_cache_results(nodes: list[Node]) -> Iterator[CacheResult]:
    """What the caches of torch.compile did with each graph."""
    attributes = [node.span.attributes for node in nodes]
    for cache, outcome_key, reason_key, saved_key in _COMPILE_CACHES:
        lookups = [lookup for lookup in attributes if outcome_key in lookup]
        counts = Counter((str(lookup[outcome_key]), str(lookup.get(reason_key, ""))) for lookup in lookups)
        for (outcome, reason), count in sorted(counts.items()):
            hits = [lookup for lookup in lookups if outcome == lookup[outcome_key] == "hit" and saved_key in lookup]
            saved = [number(hit, saved_key) or 0.0 for hit in hits]
            said = f", which saved {duration(sum(saved) * 1e9)}" if saved else f" ({reason})" if reason else ""
            yield CacheResult(
                sentence_pieces=words(f"{plural(count, outcome, _PLURALS.get(outcome, outcome))}{said}"),
                remedy_pieces=words(_KEEP) if outcome == "miss" else (),
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
    remedies = dict.fromkeys(result.remedy for result in every if result.remedy)
    return words("; ".join([sentences, *remedies]))


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
    """Whether the settings say so, where no span says what the cache did."""
    settings = settings_of(nodes)
    requests = [settings.get(semconv.SETTINGS[name]) for name in ("cache_built_engines", "reuse_cached_engines")]
    return requests == [False, False] and any(node.span.name == phase.BUILD_ENGINE.name for node in nodes)
