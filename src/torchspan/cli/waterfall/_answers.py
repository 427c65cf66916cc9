# SPDX-License-Identifier: Apache-2.0
"""The at most five lines under a waterfall: where the time went, what fell back and why, what the cache did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchspan import phase, semconv
from torchspan.cli._terminal import Style
from torchspan.cli.waterfall import _labels
from torchspan.cli.waterfall._reader import Span
from torchspan.cli.waterfall._tree import Node, Trace
from torchspan.cli.waterfall._units import duration, plural, share, times

MOST_ANSWERS = 5
_LARGEST = 3
_LIBRARIES = ("torch_tensorrt.", "tensorrt.", "torch.")


@dataclass(frozen=True)
class Part:
    """A name that may be shortened and a number that may not."""

    name: str
    number: str = ""


@dataclass(frozen=True)
class Answer:
    """One line: what it answers, the parts in order of weight, and a text after them.

    omitted: noun for parts that find no room, so that they are counted instead of shown; None: all are shown.
    note: said where there is room for it.
    """

    head: str
    parts: tuple[Part, ...]
    tail: str = ""
    omitted: tuple[str, str] | None = None
    note: str = ""
    style: Style = Style.PLAIN


class _Why:
    """A reason class in words, and what would change it."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason = reason
        self.remedy = remedy


_C = semconv.CacheReason
_R = semconv.FallbackReason
_WHY = {
    _R.NO_CONVERTER: _Why("no converter", "register one, or replace the op"),
    _R.VALIDATOR_REFUSED: _Why("refused by its converter", "other dtype, shape or argument"),
    _R.USER_EXCLUDED: _Why("excluded by you", "take it out of torch_executed_ops"),
    _R.COMPLEX_DTYPE: _Why("complex numbers", "compute with real ones"),
    _R.DATA_DEPENDENT: _Why("data-dependent shape", "fallback_data_dependent_ops=False"),
    _R.MIN_BLOCK_SIZE: _Why("group smaller than min_block_size", "lower it"),
    _R.NO_SUPPORTED_OPERATORS: _Why("nothing in the graph has a converter", "register converters"),
    _R.COMPILE_FAILED: _Why("conversion or build failed", "mend the error, then compile again"),
}


def answers(trace: Trace) -> list[Answer]:
    """At most five, none of them empty: time, fallback (a line for each reason), cache, error."""
    nodes = list(trace.nodes())
    around = [*_time(nodes), *_cache(nodes), *_error(nodes)]
    fallback = _fallback(nodes)
    room = MOST_ANSWERS - len(around)
    if len(fallback) > room:
        rest = plural(len(fallback) - room + 1, "further reason")
        fallback = [*fallback[: room - 1], Answer("Fallback", (), f"{rest}; see the lines above", style=Style.FALLBACK)]
    return sorted(
        [*around, *fallback], key=lambda answer: ("Own time", "Fallback", "Cache", "Error").index(answer.head)
    )


def _time(nodes: list[Node]) -> list[Answer]:
    spent: Counter[str] = Counter()
    for node, name, ns in _pieces(nodes):
        if not _has_stand_in(node):
            spent[name] += round(ns)
    total = spent.total()
    if len(nodes) < 2 or not total:
        return []
    largest = tuple(Part(name, f"{duration(ns)} {share(ns, total)}") for name, ns in spent.most_common(_LARGEST) if ns)
    stand_in = any(node.is_stand_in for node in nodes)
    return [Answer("Own time", largest, note="; stand-in left out" if stand_in else "")]


def _pieces(nodes: Iterable[Node]) -> Iterator[tuple[Node, str, float]]:
    """Every span's own time, divided into the steps that it names and the rest."""
    for node in nodes:
        own: float = node.self_ns()
        for step in _labels.steps(node.span):
            ns = min(step.ns, own)
            own -= ns
            yield node, step.name, ns
        yield node, _short(node.span), own


def _has_stand_in(node: Node) -> bool:
    above: Node | None = node
    while above is not None:
        if above.is_stand_in:
            return True
        above = above.parent
    return False


def _short(span: Span) -> str:
    name = str(_labels.target(span) or span.name)
    return next((name.removeprefix(prefix) for prefix in _LIBRARIES if name.startswith(prefix)), name)


def _fallback(nodes: list[Node]) -> list[Answer]:
    by_reason: dict[str, Counter[str]] = {}
    for node in nodes:
        if not _is_outermost_fallback(node):
            continue
        reasons = _labels.strings(node.span.attributes, semconv.FALLBACK_REASON)
        for reason, name, count in _fallen(node):
            by_reason.setdefault(reason, Counter())[name] += count
        for reason in reasons:
            by_reason.setdefault(reason, Counter())
    settings = _settings(nodes)
    return [
        Answer(
            "Fallback",
            tuple(Part(name, times(count)) for name, count in operators.most_common()),
            _why(reason, settings, has_operators=bool(operators)),
            ("more kind", "more kinds"),
            style=Style.FALLBACK,
        )
        for reason, operators in sorted(by_reason.items(), key=lambda item: -item[1].total())
    ]


def _is_outermost_fallback(node: Node) -> bool:
    """Whether no span above says the same: a compilation repeats what its partition found."""
    if semconv.FALLBACK_REASON not in node.span.attributes or node.span.name == phase.CACHE_LOOKUP.name:
        return False  # what a lookup passed over is built, in TensorRT
    above = node.parent
    while above is not None:
        if semconv.FALLBACK_REASON in above.span.attributes:
            return False
        above = above.parent
    return True


def _fallen(node: Node) -> list[tuple[str, str, int]]:
    a = node.span.attributes
    names, reasons = _labels.strings(a, semconv.FALLBACK_OPERATORS), _labels.strings(a, semconv.FALLBACK_REASONS)
    counts = _labels.numbers(a, semconv.FALLBACK_COUNTS)
    if not len(names) == len(reasons) == len(counts):
        return []
    return [
        (reason, _labels.operator(name), int(count)) for reason, name, count in zip(reasons, names, counts, strict=True)
    ]


def _settings(nodes: list[Node]) -> dict[str, object]:
    return next((node.span.attributes for node in nodes if node.span.name == phase.COMPILE.name), {})


def _why(reason: str, settings: dict[str, object], *, has_operators: bool) -> str:
    why = _WHY.get(reason)
    if why is None:
        text = reason
    elif reason == _R.MIN_BLOCK_SIZE and semconv.SETTINGS["min_block_size"] in settings:
        text = f"group smaller than min_block_size={settings[semconv.SETTINGS['min_block_size']]}; {why.remedy}"
    else:
        text = f"{why.reason}; {why.remedy}"
    return f": {text}" if has_operators else text


def _cache(nodes: list[Node]) -> list[Answer]:
    """What became of each engine; from conversions, which all say it, or else from the lookups that were seen."""
    looked = _outcomes(nodes, phase.CONVERT) or _outcomes(nodes, phase.CACHE_LOOKUP)
    stored = _outcomes(nodes, phase.CACHE_INSERT)
    if not looked and not stored:
        return _cache_settings(nodes)
    if looked.keys() == {("disabled", _C.NOT_REQUESTED)} and not stored:
        return [Answer("Cache", (), _OFF)]
    texts = [_outcome(result, reason, count, nodes) for (result, reason), count in sorted((looked + stored).items())]
    remedies = dict.fromkeys(_CACHE_WHY[reason].remedy for _, reason in sorted(looked + stored) if reason in _CACHE_WHY)
    return [Answer("Cache", (), "; ".join([", ".join(texts), *filter(None, remedies)]))]


_OFF = "off; cache_built_engines, reuse_cached_engines turn it on"
_CACHE_WHY = {
    _C.NOT_REQUESTED: _Why("not asked for", "reuse_cached_engines turns it on"),
    _C.NO_CACHE_GIVEN: _Why("no cache at hand", "pass engine_cache"),
    _C.REFIT_UNAVAILABLE: _Why("refit unavailable", "the cache needs a TensorRT that refits"),
    _C.IMMUTABLE_WEIGHTS: _Why("immutable weights", "immutable_weights=False turns it on"),
    _C.NO_HASH: _Why("no hash", "get_hash must return one"),
    _C.SETTINGS: _Why("other settings", "compile with the same, or clear the cache"),
    _C.INPUTS: _Why("other inputs", "get_hash must tell them apart"),
    _C.OUTDATED_ENTRY: _Why("outdated entry", "it is built anew"),
    _C.IGNORED: _Why("withheld by the cache", "the cache's own check decides"),
    _C.UNREADABLE: _Why("unreadable", "remove the entry, or mend the cache"),
    _C.MALFORMED_ENTRY: _Why("no entry", "mend the cache's check"),
    _C.ENGINE_UNREADABLE: _Why("unreadable engine", "remove the entry: other TensorRT or GPU"),
    _C.REFIT_FAILED: _Why("refit failed", "remove the entry"),
    _C.LARGER_THAN_CACHE: _Why("larger than the cache", "raise engine_cache_size"),
    _C.CACHE_FULL: _Why("cache full", "clear it, or raise engine_cache_size"),
    _C.WRITE_FAILED: _Why("write failed", "make the folder writable"),
    _C.INSERT_RAISED: _Why("raised", "mend the cache"),
}
_PLURALS = {"hit": "hits", "miss": "misses"}


def _outcomes(nodes: list[Node], of: phase.Phase) -> Counter[tuple[str, str]]:
    """(result, reason) of each span of this phase that has a result; an empty reason where it needs none."""
    key = semconv.CACHE_INSERTED if of is phase.CACHE_INSERT else semconv.CACHE_RESULT
    return Counter(
        (str(span.attributes[key]), str(span.attributes.get(semconv.CACHE_REASON, "")))
        for span in (node.span for node in nodes)
        if span.name == of.name and key in span.attributes
    )


def _outcome(result: str, reason: str, count: int, nodes: list[Node]) -> str:
    text = plural(count, result, _PLURALS.get(result, result))
    if not reason:
        return text
    differing = sorted(
        {name for node in nodes for name in _labels.strings(node.span.attributes, semconv.CACHE_SETTINGS)}
    )
    names = f" {', '.join(differing)}" if reason == _C.SETTINGS and differing else ""
    return f"{text} ({_CACHE_WHY[reason].reason if reason in _CACHE_WHY else reason}{names})"


def _cache_settings(nodes: list[Node]) -> list[Answer]:
    """Where no span says what the cache did: spans of an older version."""
    settings = _settings(nodes)
    keys = [semconv.SETTINGS[name] for name in ("cache_built_engines", "reuse_cached_engines")]
    if any(node.span.name == phase.BUILD_ENGINE.name for node in nodes) and any(key in settings for key in keys):
        if not any(settings.get(key) for key in keys):
            return [Answer("Cache", (), _OFF)]
        return [Answer("Cache", (), "on, but no lookup was seen")]
    return []


def _error(nodes: list[Node]) -> list[Answer]:
    failed = [node for node in nodes if _labels.error(node.span)[0]]
    above = {id(node.parent) for node in failed}
    innermost = [node for node in failed if id(node) not in above]
    if not innermost:
        return []
    kind, message = _labels.error(innermost[0].span)
    name = _short(innermost[0].span)
    more = f" (+ {len(innermost) - 1} more)" if len(innermost) > 1 else ""
    text = f"{kind} in {name}{more}"
    return [Answer("Error", (Part(f"{text}: {message}" if message else text),), style=Style.ERROR)]
