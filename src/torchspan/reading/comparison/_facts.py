# SPDX-License-Identifier: Apache-2.0
"""What a run says about one compilation besides time, as facts, and what of it differs between two sides."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torchspan.reading.answers import Break, BuiltEngine, CacheResult, Failure, Fallback, Recompile
from torchspan.reading.answers._attributes import number, operator, strings
from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.answers.units import size, times
from torchspan.reading.comparison._times import engine_key
from torchspan.reading.traces import Attributes
from torchspan.words import phase, semconv

_CAUSES = ("versions", "errors", "settings", "cache_key")
_EFFECTS = ("fallback", "breaks", "recompiles", "cache", "coverage", "compilations", "engines", "engine_bytes")
KINDS = (*_CAUSES, *_EFFECTS)
"""Kinds of facts, likely causes first."""
_COUNTED = {"errors", "fallback", "breaks", "recompiles", "engines"}
_VERSIONS = {semconv.TORCH_VERSION, semconv.TORCH_TENSORRT_VERSION, semconv.TENSORRT_VERSION}
_SETTINGS = "torch_tensorrt.settings."
_KEYS = {
    "AOTAutograd's": (semconv.AOTAUTOGRAD_CACHE_KEY_PARTS, semconv.AOTAUTOGRAD_CACHE_KEY_DIGESTS),
    "Inductor's": (semconv.INDUCTOR_CACHE_KEY_PARTS, semconv.INDUCTOR_CACHE_KEY_DIGESTS),
}
_CACHES = {"engine": "engine cache", "aotautograd": "AOTAutograd's cache", "inductor": "Inductor's cache"}
_LOWERING = frozenset(row.name for row in phase.LOWERING)
_CONFIGURED = frozenset({*_LOWERING, phase.COMPILE_FRAME.name, phase.COMPILE_BACKWARD.name, phase.BUILD_ENGINE.name})
"""Work whose spans have versions, settings or keys of caches."""


class FactKey(NamedTuple):
    """Which fact: its kind, and what it describes in words."""

    kind: str
    subject: str


class ComparedFact(NamedTuple):
    """One fact of one run.

    Attributes:
        content: What is compared.
        text: The content in words.
        why: What explains it; empty if nothing does.
        badness: Grows with what is wrong.
    """

    content: tuple[Any, ...]
    text: str
    why: str = ""
    badness: float = 0

    @classmethod
    def absent(cls, key: FactKey) -> ComparedFact:
        """What a run says that has no such fact: a setting has its default."""
        default = semconv.SETTING_DEFAULTS.get(key.subject) if key.kind == "settings" else None
        if default is not None:
            return cls((str(default),), str(default))
        return cls((), times(0) if key.kind in _COUNTED else "none")


@dataclass
class Facts:
    """The facts of one compilation in one run.

    Attributes:
        facts: Each fact.
        key_parts: The digests of each part of the keys of torch.compile's caches, by cache.
    """

    facts: dict[FactKey, ComparedFact] = field(default_factory=dict)
    key_parts: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, work: Compiled) -> Facts:
        """Those of a compilation."""
        facts = cls()
        facts._add_attributes(work)
        facts._add_findings(work)
        facts._add_engines(work)
        return facts

    def _count(self, kind: str, subject: str, count: int, why: str = "", what: str = "") -> None:
        """Add to a number; `what` distinguishes the things that it counts."""
        key = FactKey(kind, subject)
        before = self.facts.get(key, ComparedFact((), "", why))
        counts = Counter(dict(before.content))
        counts[what] += count
        content = tuple(sorted(counts.items()))
        self.facts[key] = ComparedFact(content, times(counts.total()), before.why or why, counts.total())

    def _add_attributes(self, work: Compiled) -> None:
        texts: defaultdict[FactKey, dict[str, None]] = defaultdict(dict)
        total, inside = 0.0, 0.0
        for node in (node for node in work.every if node.span.name in _CONFIGURED):
            attributes = node.span.attributes
            for name, content in attributes.items():
                if name in _VERSIONS:
                    texts[FactKey("versions", name.rpartition(".")[0])][str(content)] = None
                elif name.startswith(_SETTINGS):
                    texts[FactKey("settings", name.rpartition(".")[2])][_text(content)] = None
            self._add_key_parts(attributes)
            total += number(attributes, semconv.OPERATORS_TOTAL) or 0
            inside += number(attributes, semconv.OPERATORS_TENSORRT) or 0
        self.facts |= {key: ComparedFact(tuple(sorted(of_key)), ", ".join(of_key)) for key, of_key in texts.items()}
        if total:
            key = FactKey("coverage", "operators in TensorRT")
            self.facts[key] = ComparedFact((inside, total), f"{inside:.0f} of {total:.0f}", badness=1 - inside / total)

    def _add_key_parts(self, attributes: Attributes) -> None:
        for cache, (parts_key, digests_key) in _KEYS.items():
            parts, digests = strings(attributes, parts_key), strings(attributes, digests_key)
            if parts and len(parts) == len(digests):
                of_cache = self.key_parts.setdefault(cache, {})
                for part, digest in zip(parts, digests, strict=True):
                    of_cache[part] = (*of_cache.get(part, ()), digest)

    def _add_findings(self, work: Compiled) -> None:
        caches: defaultdict[str, list[CacheResult]] = defaultdict(list)
        for finding in work.findings:
            if isinstance(finding, Fallback):
                reason = " ".join(finding.sentence_pieces[1:]) if finding.operator else finding.sentence
                why = " at ".join(filter(None, (reason, finding.place)))
                what = finding.operator or "compilations"
                self._count("fallback", f"{what} in PyTorch", finding.count or 1, why, finding.reason)
            elif isinstance(finding, Recompile):
                functions = dict.fromkeys(map(_without_line, finding.functions))
                self._count(
                    "recompiles",
                    f"recompiles of {', '.join(functions)}",
                    finding.count,
                    finding.sentence,
                    finding.guard,
                )
            elif isinstance(finding, Break):
                subject = f"graph breaks of {_without_line(finding.function)}, {finding.reason.replace('_', ' ')}"
                self._count("breaks", subject, finding.count, finding.place)
            elif isinstance(finding, Failure):
                self._count("errors", f"{finding.type} in {finding.stage}", finding.count, finding.message)
            elif isinstance(finding, CacheResult):
                caches[finding.cache].append(finding)
        for cache, results in caches.items():
            text = ", ".join(result.sentence.partition(", which saved")[0] for result in results)
            missed = sum(result.count for result in results if result.outcome in {"miss", "bypass"})
            self.facts[FactKey("cache", _CACHES[cache])] = ComparedFact((text,), text, badness=missed)

    def _add_engines(self, work: Compiled) -> None:
        engines: defaultdict[str, list[BuiltEngine]] = defaultdict(list)
        for engine in work.engines:
            engines[f"engine of {engine_key(engine.node.span) or engine.node.span.name}"].append(engine)
        for subject, same in engines.items():
            ids = sorted(str(engine.node.span.attributes.get(semconv.ENGINE_ID)) for engine in same)
            text = size(sum(engine.bytes or 0 for engine in same))
            self.facts[FactKey("engine_bytes", subject)] = ComparedFact(tuple(ids), text, "other bytes")
            self._count("engines", subject, len(same), " … ".join(same[0].modules))


def _without_line(function: str) -> str:
    """`forward` of `forward from line 19`: another line is no other function."""
    return function.partition(" from line ")[0]


def _text(setting: Any) -> str:
    if isinstance(setting, list):
        return ", ".join(operator(str(part)) for part in setting) or "none"
    return str(setting)


# --- what differs ---------------------------------------------------------------------------------------------------
_FEWEST_PARTS = 3
"""Parts of a key from which on it says something that none is the same."""


@dataclass(frozen=True)
class Change:
    """Something that no run of one side has as a run of the other has it.

    Attributes:
        kind: One of `KINDS`.
        subject: What has changed: `aten.relu in PyTorch`, `min_block_size`.
        base: What the first side has, in words; empty for a part of a key, of which only digests are known.
        new: What the second side has.
        why: What explains it; empty if nothing does.
        is_worse: Whether the second side has more of what is unwanted.
        work: The compilations that it concerns, as lines call them; empty if it concerns all.
    """

    kind: str
    subject: str
    base: str
    new: str
    why: str = ""
    is_worse: bool = False
    work: str = ""

    def sentence(self, base: str, new: str) -> str:
        """`min_block_size: before 1 → after 5`, behind the compilation that it concerns.

        Args:
            base: The name of the first side.
            new: The name of the second side.

        Returns:
            The sentence.
        """
        why = f" ({self.why})" if self.why else ""
        about = f"{self.work}: {self.subject}" if self.work else self.subject
        if self.kind == "cache_key":
            return f"{about} differs between {base} and {new}{why}"
        return f"{about}: {base} {self.base} → {new} {self.new}{why}"


def changes(base: Sequence[Facts], new: Sequence[Facts]) -> Iterator[Change]:
    """What differs of one compilation.

    Args:
        base: The facts of each run of one side.
        new: Those of the other side.
    """
    for key in dict.fromkeys(key for run in (*base, *new) for key in run.facts):
        yield from _change(key, base, new)
    yield from _key_changes(base, new)


def _change(key: FactKey, base: Sequence[Facts], new: Sequence[Facts]) -> Iterator[Change]:
    absent = ComparedFact.absent(key)
    is_of_engine = key.kind == "engine_bytes"  # that a run lacks the engine is another fact
    before, after = (
        [run.facts.get(key, absent) for run in side if key in run.facts or not is_of_engine] for side in (base, new)
    )
    if not before or not after or {fact.content for fact in before} & {fact.content for fact in after}:
        return
    first, second = _usual(before), _usual(after)
    why = first.why if first.badness > second.badness else second.why
    yield Change(key.kind, key.subject, first.text, second.text, why, second.badness > first.badness)


def _usual(facts: Sequence[ComparedFact]) -> ComparedFact:
    """The fact that most runs have."""
    return Counter(facts).most_common(1)[0][0]


def _key_changes(base: Sequence[Facts], new: Sequence[Facts]) -> Iterator[Change]:
    """The parts of the keys of torch.compile's caches that differ, where both sides report parts."""
    for cache in dict.fromkeys(cache for run in base for cache in run.key_parts):
        before, after = ([run.key_parts[cache] for run in side if cache in run.key_parts] for side in (base, new))
        if not after:
            continue
        parts = dict.fromkeys(part for run in (*before, *after) for part in run)
        differing = [part for part in parts if not _digests(part, before) & _digests(part, after)]
        if len(differing) == len(parts) >= _FEWEST_PARTS:
            why = "digests of different machines or home folders cannot be compared"
            yield Change("cache_key", f"every part of {cache} key", "", "", why)
            continue
        for part in differing:
            if not (part.endswith("*]") and any(_is_below(other, part) for other in differing)):
                yield Change("cache_key", f"{part} in {cache} key", "", "")


def _digests(part: str, runs: Sequence[Mapping[str, tuple[str, ...]]]) -> set[tuple[str, ...]]:
    return {run.get(part, ()) for run in runs}


def _is_below(part: str, group: str) -> bool:
    """Whether a part was a member of the group before its value was changed."""
    return part != group and part.startswith(group.removesuffix("*]"))
