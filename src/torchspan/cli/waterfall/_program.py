# SPDX-License-Identifier: Apache-2.0
"""The line that splits the wall time of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from torchspan import phase, semconv
from torchspan.cli._terminal import Line, Style, broken
from torchspan.traces import Span, Trace

IMPORT = phase.IMPORT.name
"""Name of the spans of a library's first import."""

_NOT_WORK = {IMPORT, phase.RUN.name, phase.PROGRESS.name}
_MOST_S = 2.0**32
"""Seconds of runs beyond which a report says nothing: more than a century of one thread."""
_NOTABLE = 1.01
"""How many times as long as its union a sum is that the line mentions."""

_Interval = tuple[int, int]


class Runs(Protocol):
    """What one process reports of its engine runs: their seconds, summed over its threads."""

    @property
    def runs_s(self) -> float: ...


def program_line(run: Span, traces: Iterable[Trace], reports: Iterable[Runs], width: int) -> Iterator[Line]:
    """`program 6.00 s: imports 2.90, Torch-TensorRT 0.95, runs 1.20, rest 0.95`, in as many lines as the width needs.

    run: the span `torchspan.run`. traces: those of the program, each process's. reports: one for each process.

    The parts do not overlap and add up to the whole. Imports and Torch-TensorRT are the time in which at least one
    thread of one process was in such work; an import inside a compilation counts as import. Of runs only the sum is
    known: where threads overlap it may be more than the time that is left for it. The line then says so, as it does
    where compilations or imports overlap.
    """
    imports, work, is_plain = _found(run, traces)
    import_ns, import_sum = _length(_union(imports)), _length(imports)
    work_ns, work_sum = _length(_union([*imports, *work])) - import_ns, _length(work)
    # A report is a file of the program's: its numbers may be any.
    runs_sum = round(sum(report.runs_s for report in reports if 0 <= report.runs_s < _MOST_S) * 1e9)
    left_ns = run.duration_ns - import_ns - work_ns
    runs_ns = min(runs_sum, left_ns)
    named = {"imports": import_ns, "TensorRT" if is_plain else "Torch-TensorRT": work_ns, "runs": runs_ns}
    parts = {name: ns for name, ns in named.items() if ns > 0} | {"rest": left_ns - runs_ns}
    sums = ((import_sum, _length(_union(imports))), (work_sum, _length(_union(work))), (runs_sum, runs_ns))
    overlapping = {name: total for name, (total, ns) in zip(named, sums, strict=True) if total > _NOTABLE * ns}
    for piece in broken(_text(run.duration_ns, parts, overlapping), width):
        yield [(piece, Style.PLAIN)]


def _found(run: Span, traces: Iterable[Trace]) -> tuple[list[_Interval], list[_Interval], bool]:
    """Intervals of imports and of other outermost work inside the run, and whether that is TensorRT's alone."""
    imports: list[_Interval] = []
    work: list[_Interval] = []
    is_plain = True
    for trace in traces:
        inside: set[int] = set()  # nodes at or below work; below an import that is another import
        for node in trace.nodes():
            above = id(node.parent) in inside
            if _is_import(node.span):
                if node.parent is None or not _is_import(node.parent.span):
                    imports.append(_clipped(node.span, run))
            elif _is_work(node.span) and not above:
                work.append(_clipped(node.span, run))
                is_plain = is_plain and node.span.name.startswith("tensorrt.")
            if above or (_is_work(node.span) and not _is_import(node.span)):
                inside.add(id(node))
    return imports, work, is_plain and bool(work)


def _is_import(span: Span) -> bool:
    return span.name == IMPORT and span.scope == semconv.SCOPE_NAME


def _is_work(span: Span) -> bool:
    is_kept = span.attributes.get(semconv.KEEP) is True
    return is_kept and span.scope == semconv.SCOPE_NAME and span.name not in _NOT_WORK


def _clipped(span: Span, run: Span) -> _Interval:
    start = min(max(span.start_ns, run.start_ns), run.end_ns)
    return start, max(min(span.end_ns, run.end_ns), start)


def _union(intervals: Iterable[_Interval]) -> list[_Interval]:
    """The same moments as intervals that do not overlap."""
    result: list[_Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def _length(intervals: Sequence[_Interval]) -> int:
    return sum(end - start for start, end in intervals)


def _text(whole_ns: int, parts: dict[str, int], overlapping: dict[str, int]) -> str:
    seconds = whole_ns / 1e9
    digits = 3 if seconds < 1 else 2 if seconds < 100 else 1
    unit = 10 ** (9 - digits)
    shares = _rounded(list(parts.values()), round(whole_ns / unit), unit)
    listed = ", ".join(f"{name} {share * unit / 1e9:.{digits}f}" for name, share in zip(parts, shares, strict=True))
    text = f"program {round(whole_ns / unit) * unit / 1e9:.{digits}f} s"
    if len(parts) > 1:
        text += f": {listed}"
    if overlapping:
        sums = ", ".join(f"{name} {ns / 1e9:.{digits}f} s" for name, ns in overlapping.items())
        text += f" (threads or processes overlap; summed: {sums})"
    return text


def _rounded(values: Sequence[int], whole: int, unit: int) -> list[int]:
    """The values in units, each rounded up or down so that they add up to the whole."""
    result = [value // unit for value in values]
    by_remainder = sorted(range(len(values)), key=lambda index: values[index] % unit, reverse=True)
    for index in by_remainder[: max(whole - sum(result), 0)]:
        result[index] += 1
    return result
