# SPDX-License-Identifier: Apache-2.0
"""A comparison as lines: the answer first, then where the time differs, then what else does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from torchspan.reading.answers._wording import words
from torchspan.reading.answers.lines import Line, Style, flowed, printable
from torchspan.reading.answers.units import duration, plural
from torchspan.reading.comparison._device_pairs import DevicePair
from torchspan.reading.comparison._exact_test import FEWEST, LEVEL
from torchspan.reading.comparison._times import TimeRow

if TYPE_CHECKING:
    from torchspan.reading.comparison._pairs import Comparison, Pair

_MOST_PAIRS, _MOST_CHANGES = 10, 40
_LONGEST = 300
"""Characters of a line. Names and messages of a file may be longer."""
_MOST_LIKELY = 3
"""Changes that the first line names."""
_MOST_STAGES = 3
"""Stages that the path of a part names: the first and the last ones."""
_TOO_MANY_ROWS, _TOO_FEW_RUNS = "too few runs for so many rows", "not judged"
"""What is said of a whole without p, with 4 runs a side or more and with fewer."""
_NOTABLE = 0.02
"""The share of the time from which on a difference is notable that cannot be judged."""
_NOTABLE_S = 0.001


def lines(comparison: Comparison, width: int, encoding: str = "utf-8") -> Iterator[Line]:
    """The lines of a comparison, at most `width` columns wide."""
    yield from flowed_lines(sentences(comparison), width, encoding)


def flowed_lines(texts: Iterable[tuple[str, Style]], width: int, encoding: str = "utf-8") -> Iterator[Line]:
    """The lines of texts, those that begin with spaces indented as a whole. Nothing in a text acts on a terminal."""
    for sentence, style in texts:
        indent = " " * (len(sentence) - len(sentence.lstrip()))
        text = " ".join(sentence.split())
        shown = printable(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", encoding)
        for piece in flowed(words(shown), width - len(indent)):
            yield [(f"{indent}{piece}", style)]


def sentences(comparison: Comparison) -> Iterator[tuple[str, Style]]:
    """What the lines say, those about a compilation indented below it."""
    yield headline(comparison), Style.STRONG
    shown = [pair for pair in comparison.pairs if _has_news(pair)]
    for index, pair in enumerate(shown[:_MOST_PAIRS]):
        if index:
            yield whole_sentence(comparison, pair), Style.STRONG
        yield from ((f"   {text}", Style.PLAIN) for text in part_sentences(comparison, pair))
    if len(shown) > _MOST_PAIRS:
        yield f"{plural(len(shown) - _MOST_PAIRS, 'more pair')} with other times", Style.DIM
    on_device = [pair for pair in comparison.device if _differs(pair)]
    yield from ((device_sentence(comparison, pair), Style.PLAIN) for pair in on_device[:_MOST_PAIRS])
    if len(on_device) > _MOST_PAIRS:
        yield f"{plural(len(on_device) - _MOST_PAIRS, 'more engine')} with other times", Style.DIM
    names, changes = (comparison.base.name, comparison.new.name), comparison.changes
    for change in changes[:_MOST_CHANGES]:
        yield change.sentence(*names), Style.FALLBACK if change.is_worse else Style.PLAIN
    if len(changes) > _MOST_CHANGES:
        yield f"{plural(len(changes) - _MOST_CHANGES, 'more change')}; --json has all", Style.DIM
    if any(row.ratio is None for row in (*(pair.whole for pair in shown), *(pair.device for pair in on_device))):
        yield f"times are judged with {FEWEST} runs a side or more", Style.DIM
    for text in (*comparison.base.left_out, *comparison.new.left_out):
        yield f"left out: {text}", Style.DIM


def headline(comparison: Comparison) -> str:
    """The first line: the pair that differs most, with the likely causes; or that nothing has changed."""
    pair = comparison.pairs[0]
    whole = whole_sentence(comparison, pair)
    if comparison.changes:
        likely = [change for change in comparison.changes if change.kind == comparison.changes[0].kind][:_MOST_LIKELY]
        causes = (change.sentence(comparison.base.name, comparison.new.name) for change in likely)
        return f"{whole}: {'; '.join(causes)}"
    if not any(map(_has_news, comparison.pairs)) and not any(map(_differs, comparison.device)):
        return f"nothing has changed: {whole}"
    return f"{whole}: {_path(pair.parts[0])} {_signed(pair.parts[0].difference_s)}" if pair.parts else whole


def whole_sentence(comparison: Comparison, pair: Pair) -> str:
    """`compile ConvNet: before 1.94 s → after 2.61 s (+34 %, 5 and 5 runs, p=0.008)`."""
    whole = pair.whole
    runs = f"{len(whole.base_runs_s)} and {len(whole.new_runs_s)} runs"
    unjudged = _TOO_FEW_RUNS if whole.ratio is None else _TOO_MANY_ROWS
    facts = [_percent(whole), runs, _verdict(whole) or unjudged]
    return f"{pair.name}: {_times(comparison, whole)} ({', '.join(facts)})"


def part_sentences(comparison: Comparison, pair: Pair) -> Iterator[str]:
    """Where the time of a pair differs, and what the processor did."""
    for row in pair.parts:
        verdict = _verdict(row)
        yield f"{_signed(row.difference_s)}  {_path(row)}: {_times(comparison, row)}{f' ({verdict})' if verdict else ''}"
    before_s, after_s = pair.times.processor_s
    if before_s and after_s and _has_news(pair) and abs(after_s - before_s) * 3 < abs(pair.whole.difference_s):
        times = f"{comparison.base.name} {duration(before_s * 1e9)} → {comparison.new.name} {duration(after_s * 1e9)}"
        yield f"on the processor {times}: the rest is waiting, or the machine was busy"


def device_sentence(comparison: Comparison, pair: DevicePair) -> str:
    """`Net · _run_on_acc_0: device before 12.0 ms → after 6.00 ms (-50 %, p=0.008), host before 400 µs → after 410 µs (+2 %, ~)`."""
    rows = (("device", pair.device), ("host", pair.host))
    texts = (
        f"{name} {_times(comparison, row)} ({', '.join(filter(None, (_percent(row), _verdict(row))))})"
        for name, row in rows
    )
    return f"{pair.name}: {', '.join(texts)}"


def _differs(pair: DevicePair) -> bool:
    """Whether a time of the runs differs, as far as that can be judged."""
    return any(
        row.is_different if row.ratio is not None else abs(row.difference_s) > _NOTABLE * row.base_s
        for row in (pair.device, pair.host)
    )


def _has_news(pair: Pair) -> bool:
    """Whether the times differ, as far as that can be judged."""
    rows = (pair.whole, *pair.parts)
    if pair.whole.ratio is not None:
        return any(row.is_different for row in rows)
    return abs(pair.whole.difference_s) > max(_NOTABLE * pair.whole.base_s, _NOTABLE_S)


def _times(comparison: Comparison, row: TimeRow) -> str:
    return f"{comparison.base.name} {duration(row.base_s * 1e9)} → {comparison.new.name} {duration(row.new_s * 1e9)}"


def _verdict(row: TimeRow) -> str:
    """`p=0.008`, or `~` for what chance may have made; empty where nothing can be said."""
    if row.p is None:
        return ""
    return f"p={row.p:.3f}" if row.p < LEVEL else "~"


def _percent(row: TimeRow) -> str:
    return f"{round(100 * row.difference_s / row.base_s):+d} %" if row.base_s else "from nothing"


def _signed(s: float) -> str:
    return f"{'+' if s >= 0 else '-'}{duration(abs(s) * 1e9)}"


def _path(row: TimeRow) -> str:
    stages = list(row.path) if len(row.path) <= _MOST_STAGES else [row.path[0], "…", *row.path[-2:]]
    return " > ".join(stages) or "outside of its stages"
