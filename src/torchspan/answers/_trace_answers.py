# SPDX-License-Identifier: Apache-2.0
"""The at most eight answers under a waterfall: time, what Dynamo did, what fell back, the cache, errors, sizes of inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator

from torchspan import phase, semconv
from torchspan.answers import _frame_answer, _labels, _limit_answer
from torchspan.answers._answer import Answer, Why, listed, settings_of, words
from torchspan.answers._cache_answer import cache_answers
from torchspan.answers._error_answer import error_answers, refusals
from torchspan.answers._labels import SEPARATOR
from torchspan.answers._limit_answer import limit_answers
from torchspan.answers._units import duration, plural, share, times
from torchspan.answers.lines import Style
from torchspan.traces import Node, Trace, UnfinishedSpan, at_or_below

MOST_ANSWERS = 5
"""That of torch.compile and those of sizes are not among them."""
_ORDER = ("Own time", _frame_answer.HEAD, "Fallback", "Cache", "Error", _limit_answer.OUTSIDE, _limit_answer.DRIFT)
_WAIT_FOR_WORKERS = "async_compile.wait"
"""PyTorch's name of the phase in which a frame waits for its compile workers (torch/_inductor/async_compile.py)."""
_LARGEST = 3
_KINDS = 5
"""Kinds of operators that an answer names; the others are counted."""

_R = semconv.FallbackReason
_WHY = {
    _R.NO_CONVERTER: Why("no converter", "register one, or replace the op"),
    _R.VALIDATOR_REFUSED: Why("refused by its converter", "other dtype, shape or argument"),
    _R.USER_EXCLUDED: Why("excluded by you", "remove it from torch_executed_ops"),
    _R.COMPLEX_DTYPE: Why("complex numbers", "use real numbers"),
    _R.DATA_DEPENDENT: Why("data-dependent shape", "fallback_data_dependent_ops=False"),
    _R.MIN_BLOCK_SIZE: Why("group smaller than min_block_size", "lower it"),
    _R.NO_SUPPORTED_OPERATORS: Why("nothing in the graph has a converter", "register converters"),
    _R.COMPILE_FAILED: Why("conversion or build failed", "fix the error, then compile again"),
}


_RELEASE = "release_host_and_device_memory"
_NOTABLE = 0.2
_COLLECTING = (
    words(
        f"{_RELEASE}: Torch-TensorRT collects garbage after each engine, among all objects of the process; call "
        "gc.freeze() after the imports to leave theirs out"
    ),
)
"""What is said of the step from this share of the time on."""


def answers(trace: Trace, *, says_time: bool = True) -> list[Answer]:
    """At most eight, none of them empty: time, torch.compile, fallback (a line for each reason), cache, error, sizes.

    Args:
        says_time: Whether times and shares of them are said.
    """
    nodes = list(trace.nodes())
    left_out = at_or_below(nodes, lambda node: node.is_stand_in)
    whole_ns = 0
    if says_time:
        whole_ns = _covered_ns(trace.roots) - sum(node.self_ns() for node in nodes if id(node) in left_out)
    frames = _frame_answer.frame_answers(nodes, whole_ns)
    around = [*_time(nodes, left_out, whole_ns), *cache_answers(nodes), *error_answers(nodes)]
    fallback = _fallback(nodes)
    room = MOST_ANSWERS - len(around)
    if len(fallback) > room:
        rest = plural(len(fallback) - room + 1, "further reason")
        fallback = [
            *fallback[: room - 1],
            Answer("Fallback", (words(f"{rest}; see the lines above"),), style=Style.FALLBACK),
        ]
    return sorted([*around, *frames, *fallback, *limit_answers(nodes)], key=lambda answer: _ORDER.index(answer.head))


def news(trace: Trace) -> tuple[Answer, ...]:
    """The answers that are printed even if the trace is not drawn: all but those about time and the cache."""
    return tuple(answer for answer in answers(trace, says_time=False) if answer.head != "Cache")


def _time(nodes: list[Node], left_out: Container[int], whole_ns: int) -> list[Answer]:
    """Own times, as shares of the whole. What compile workers did meanwhile is work, which has no share of it.

    Args:
        left_out: Ids of the nodes of the stand-in.
        whole_ns: How long the roots ran, without those.
    """
    spent: Counter[str] = Counter()
    in_workers = at_or_below(nodes, lambda node: node.span.name == phase.COMPILE_WORKER.name)
    work: dict[str, list[int]] = {}
    for node in nodes:
        if id(node) in in_workers:
            if node.span.name != phase.COMPILE_WORKER.name or not node.children:
                work.setdefault(_labels.short(node.span), []).append(node.self_ns())
        elif id(node) not in left_out and not _is_wait(node):
            for name, ns in _pieces(node):
                spent[name] += round(ns)
    if len(nodes) < 2 or whole_ns <= 0 or all(node.span.name == phase.IMPORT.name for node in nodes):
        return []  # or the lines above say it
    largest = [f"{name} {duration(ns)} {share(ns, whole_ns)}" for name, ns in spent.most_common(_LARGEST) if ns]
    paragraphs = [listed(largest)] if largest else []
    has_stand_in = any(id(node) in left_out for node in nodes)
    if work:
        longest = sorted(work.items(), key=lambda item: -sum(item[1]))[:_LARGEST]
        calls = [f"{name} {duration(sum(ns))} in {plural(len(ns), 'call')}" for name, ns in longest]
        paragraphs.append(("in workers:", *listed(calls)))
    collecting = _COLLECTING if spent[_RELEASE] >= _NOTABLE * whole_ns else ()
    note = "; stand-in left out" if has_stand_in else ""
    return [Answer("Own time", (*paragraphs, *collecting), note=note)] if paragraphs else []


def _is_wait(node: Node) -> bool:
    """Whether the thread only waited: for a compilation in another thread, or for compile workers."""
    return node.span.name == phase.COMPILE_WAIT.name or _labels.short(node.span) == _WAIT_FOR_WORKERS


def _covered_ns(roots: Iterable[Node]) -> int:
    """Nanoseconds in which at least one of the roots ran."""
    total, reached = 0, 0
    for root in roots:  # by start
        total += max(root.span.end_ns - max(root.span.start_ns, reached), 0)
        reached = max(reached, root.span.end_ns)
    return total


def _pieces(node: Node) -> Iterator[tuple[str, float]]:
    """The span's own time, divided into the steps that it names and the rest."""
    own: float = node.self_ns()
    running = node.span.running if isinstance(node.span, UnfinishedSpan) else None
    if running is not None:
        ns = min(running.for_ns, own)
        own -= ns
        yield _labels.without_library(running.name.partition(SEPARATOR)[0]), ns
    for step in _labels.steps(node.span):
        ns = min(step.ns, own)
        own -= ns
        yield step.name, ns
    yield _labels.short(node.span), own


def _fallback(nodes: list[Node]) -> list[Answer]:
    by_reason: dict[str, Counter[str]] = {}
    said = at_or_below(nodes, lambda node: semconv.FALLBACK_REASON_CLASSES in node.span.attributes)
    for node in nodes:
        if id(node) not in said or id(node.parent) in said:
            continue  # a compilation repeats what its partition found: the outermost counts
        if node.span.name == phase.CACHE_LOOKUP.name:
            continue  # what a lookup passed over is built, in TensorRT
        reasons = _labels.strings(node.span.attributes, semconv.FALLBACK_REASON_CLASSES)
        for reason, name, count in _fallen(node):
            by_reason.setdefault(reason, Counter())[name] += count
        for reason in reasons:
            by_reason.setdefault(reason, Counter())
    settings = settings_of(nodes)
    return [
        Answer(
            "Fallback",
            (
                (*_kinds(operators), *words(_why(reason, settings))),
                *(refusals(node.span.attributes for node in nodes) if reason == _R.VALIDATOR_REFUSED else ()),
            ),
            style=Style.FALLBACK,
        )
        for reason, operators in sorted(by_reason.items(), key=lambda item: -item[1].total())
    ]


def _kinds(operators: Counter[str]) -> tuple[str, ...]:
    """The operators that occur most, with how often, up to a colon; nothing without one."""
    shown = [f"{name} {times(count)}" for name, count in operators.most_common(_KINDS)]
    if len(operators) > _KINDS:
        shown.append(plural(len(operators) - _KINDS, "more kind"))
    *first, last = listed(shown) or ("",)
    return (*first, f"{last}:") if last else ()


_BY_STAND_IN = " (of the CPU, by the stand-in)"


def _fallen(node: Node) -> list[tuple[str, str, int]]:
    a = node.span.attributes
    names, reasons = (
        _labels.strings(a, semconv.FALLBACK_OPERATOR_NAMES),
        _labels.strings(a, semconv.FALLBACK_OPERATOR_REASONS),
    )
    counts = _labels.numbers(a, semconv.FALLBACK_OPERATOR_COUNTS)
    of_stand_in = _labels.strings(a, semconv.FALLBACK_OPERATORS_STAND_IN)
    if not len(names) == len(reasons) == len(counts):
        return []
    return [
        (reason, _labels.operator(name) + (_BY_STAND_IN if name in of_stand_in else ""), int(count))
        for reason, name, count in zip(reasons, names, counts, strict=True)
    ]


def _why(reason: str, settings: dict[str, object]) -> str:
    why = _WHY.get(reason)
    if why is None:
        return reason
    if reason == _R.MIN_BLOCK_SIZE and semconv.SETTINGS["min_block_size"] in settings:
        return f"group smaller than min_block_size={settings[semconv.SETTINGS['min_block_size']]}; {why.remedy}"
    return f"{why.reason}; {why.remedy}"
