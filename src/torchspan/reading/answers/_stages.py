# SPDX-License-Identifier: Apache-2.0
"""Where the time of spans went: the stages by the time in which they ran and nothing inside them did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchspan.reading.answers import _labels
from torchspan.reading.answers._frame_answer import dynamos_share
from torchspan.reading.answers._kinds_of_answer import Stage
from torchspan.reading.answers._labels import SEPARATOR, StepRows
from torchspan.reading.answers._wording import listed, words
from torchspan.reading.answers.lines import Paragraph
from torchspan.reading.answers.units import duration, plural, share
from torchspan.reading.traces import Node, UnfinishedSpan, at_or_below, length_ns, own_intervals, union
from torchspan.words import phase

_WAIT_FOR_WORKERS = "async_compile.wait"
"""PyTorch's name of the phase in which a frame waits for its compile workers (torch/_inductor/async_compile.py)."""
LARGEST = 3
"""Stages that a line names."""


def stages(nodes: list[Node]) -> list[Stage]:
    """Every stage, the longest first: those of the work, then those of compile workers."""
    work, workers = _sums(nodes)
    whole_ns = covered_ns(nodes)
    return [
        *(_stage(row, share(row.ns, whole_ns)) for row in _longest(work)),
        *(_stage(row, "in workers", in_workers=True) for row in _longest(workers)),
    ]


def _stage(row: StepRows, share_: str, *, in_workers: bool = False) -> Stage:
    return Stage(
        sentence_pieces=(row.name, duration(row.ns), f"in {plural(row.runs, 'call')},", *words(share_)),
        name=row.name,
        s=row.ns / 1e9,
        calls=row.runs,
        in_workers=in_workers,
    )


def own_time(nodes: list[Node]) -> Iterator[Paragraph]:
    """The stages that took longest, as shares of the whole, and what compile workers did, which has no share of it."""
    whole_ns = covered_ns(nodes)
    if len(nodes) < 2 or whole_ns <= 0 or all(node.span.name == phase.IMPORT.name for node in nodes):
        return  # or the lines above say it
    every = stages(nodes)
    work = [stage for stage in every if not stage.in_workers][:LARGEST]
    in_workers = [stage for stage in every if stage.in_workers][:LARGEST]
    if work:
        yield listed(f"{stage.name} {duration(stage.s * 1e9)} {share(stage.s * 1e9, whole_ns)}" for stage in work)
    if any(node.is_stand_in for node in nodes):
        yield ("stand-in", "left", "out")
    if in_workers:
        calls = (f"{stage.name} {duration(stage.s * 1e9)} in {plural(stage.calls, 'call')}" for stage in in_workers)
        yield ("in workers:", *listed(calls))
    yield from dynamos_share(nodes, whole_ns)


def covered_ns(nodes: Iterable[Node]) -> int:
    """Nanoseconds in which at least one of the roots among the nodes ran, without what the stand-in for a GPU did."""
    every = list(nodes)
    left_out = at_or_below(every, lambda node: node.is_stand_in)
    own = own_intervals(every)
    return length_ns(union(moments for node in every if id(node) not in left_out for moments in own[id(node)]))


def _longest(rows: dict[str, StepRows]) -> list[StepRows]:
    return sorted((row for row in rows.values() if row.ns), key=lambda row: -row.ns)


def _sums(nodes: list[Node]) -> tuple[dict[str, StepRows], dict[str, StepRows]]:
    """The stages by name, of the work and in compile workers."""
    own = own_intervals(nodes)
    left_out = at_or_below(nodes, lambda node: node.is_stand_in)
    in_workers = at_or_below(nodes, lambda node: node.span.name == phase.COMPILE_WORKER.name)
    work: dict[str, StepRows] = {}
    workers: dict[str, StepRows] = {}
    for node in nodes:
        if id(node) in in_workers:
            if node.span.name != phase.COMPILE_WORKER.name or not node.children:
                _add(workers, StepRows(_labels.short(node.span), 1, length_ns(own[id(node)])))
        elif id(node) not in left_out and not is_wait(node):
            for piece in _pieces(node, length_ns(own[id(node)])):
                _add(work, piece)
    return work, workers


def _add(rows: dict[str, StepRows], piece: StepRows) -> None:
    sum_ = rows.get(piece.name, StepRows(piece.name, 0, 0))
    rows[piece.name] = StepRows(piece.name, sum_.runs + piece.runs, sum_.ns + piece.ns)


def is_wait(node: Node) -> bool:
    """Whether the thread only waited: for a compilation in another thread, or for compile workers."""
    return node.span.name == phase.COMPILE_WAIT.name or _labels.short(node.span) == _WAIT_FOR_WORKERS


def _pieces(node: Node, own: int) -> Iterator[StepRows]:
    """The span's own time in nanoseconds, divided into the steps that it names and the rest."""
    running = node.span.running if isinstance(node.span, UnfinishedSpan) else None
    if running is not None:
        ns = min(running.for_ns, own)
        own -= ns
        yield StepRows(_labels.without_library(running.name.partition(SEPARATOR)[0]), 1, ns)
    steps, rest = _labels.split(node.span, own)
    yield from steps
    yield StepRows(_labels.short(node.span), 1, rest)
