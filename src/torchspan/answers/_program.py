# SPDX-License-Identifier: Apache-2.0
"""The line that splits the wall time of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from torchspan import phase, semconv
from torchspan.answers.lines import Line, Style, broken
from torchspan.traces import Span, Trace

IMPORT = phase.IMPORT.name
"""Name of the spans of a library's first import."""

_NOT_WORK = {IMPORT, phase.RUN.name, phase.PROGRESS.name}
_FRAMES = {
    part.name
    for part in (
        phase.COMPILE_FRAME,
        phase.COMPILE_BACKWARD,
        phase.COMPILE_PHASE,
        phase.COMPILE_WAIT,
        phase.COMPILE_WORKER,
    )
}
_MOST_S = 2.0**32
"""Seconds of runs beyond which a report says nothing: more than a century of one thread."""
_NOTABLE = 1.01
"""How many times as long as the time that is left for it a sum is that the line mentions."""

_Interval = tuple[int, int]


class RunFigures(Protocol):
    """What one process reports of its engine runs: their seconds, summed over its threads."""

    @property
    def runs_s(self) -> float: ...


def program_line(run: Span, traces: Iterable[Trace], reports: Iterable[RunFigures], width: int) -> Iterator[Line]:
    """`program 6.00 s: imports 2.90, Torch-TensorRT 0.95, torch.compile 0.30, runs 1.20, rest 0.65`, in as many lines as the
    width needs.

    The parts do not overlap and add up to the whole. Imports, Torch-TensorRT and torch.compile are the time in which at
    least one thread of one process was in such work: an import inside a compilation counts as import, and what
    Torch-TensorRT does for a frame of torch.compile as Torch-TensorRT. Of runs only the sum is known: where threads overlap
    it may be more than the time that is left for it, and then the line has the sum, too.

    Args:
        run: The span `torchspan.run`.
        traces: Those of the program, each process's.
        reports: One for each process.
    """
    program = _Found(run, traces)
    imports, work, frames = _union(program.imports), _union(program.work), _union(program.frames)
    import_ns = _length(imports)
    work_ns = _length(_union([*imports, *work])) - import_ns
    frames_ns = _length(_union([*imports, *work, *frames])) - import_ns - work_ns
    # A report is a file of the program's: its numbers may be any.
    runs_sum = round(sum(report.runs_s for report in reports if 0 <= report.runs_s < _MOST_S) * 1e9)
    left_ns = run.duration_ns - import_ns - work_ns - frames_ns
    runs_ns = min(runs_sum, left_ns)
    named = {
        "imports": import_ns,
        "TensorRT" if program.is_plain else "Torch-TensorRT": work_ns,
        "torch.compile": frames_ns,
        "runs": runs_ns,
    }
    parts = {name: ns for name, ns in named.items() if ns > 0} | {"rest": left_ns - runs_ns}
    summed = f" (runs of all threads summed: {runs_sum / 1e9:.2f} s)" if runs_sum > _NOTABLE * runs_ns else ""
    for piece in broken(_text(run.duration_ns, parts) + summed, width):
        yield [(piece, Style.PLAIN)]


class _Found:
    """Intervals inside a run.

    imports, and frames of torch.compile: the outermost. work: the outermost of Torch-TensorRT and TensorRT, in a frame or not.
    is_plain: whether all work is TensorRT's alone.
    """

    def __init__(self, run: Span, traces: Iterable[Trace]) -> None:
        self.imports: list[_Interval] = []
        self.work: list[_Interval] = []
        self.frames: list[_Interval] = []
        is_plain = True
        for trace in traces:
            # Nodes at or below work, or a frame; below an import that is another import.
            inside_work: set[int] = set()
            inside_frame: set[int] = set()
            for node in trace.nodes():
                above = id(node.parent)
                if above in inside_work:
                    inside_work.add(id(node))
                if above in inside_frame:
                    inside_frame.add(id(node))
                if _is_import(node.span):
                    if node.parent is None or not _is_import(node.parent.span):
                        self.imports.append(_clipped(node.span, run))
                elif _is_frame(node.span):
                    if above not in inside_frame and above not in inside_work:
                        self.frames.append(_clipped(node.span, run))
                    inside_frame.add(id(node))
                elif _is_work(node.span):
                    if above not in inside_work:
                        self.work.append(_clipped(node.span, run))
                        is_plain = is_plain and node.span.name.startswith("tensorrt.")
                    inside_work.add(id(node))
        self.is_plain = is_plain and bool(self.work)


def _is_import(span: Span) -> bool:
    return span.name == IMPORT and span.scope == semconv.SCOPE_NAME


def _is_frame(span: Span) -> bool:
    return span.name.split(" ")[0] in _FRAMES and span.scope == semconv.SCOPE_NAME


def _is_work(span: Span) -> bool:
    is_kept = span.attributes.get(semconv.KEEP) is True
    return is_kept and span.scope == semconv.SCOPE_NAME and span.name not in _NOT_WORK


def _clipped(span: Span, run: Span) -> _Interval:
    start = min(max(span.start_ns, run.start_ns), run.end_ns)
    return start, max(min(span.end_ns, run.end_ns), start)


def _union(intervals: Iterable[_Interval]) -> list[_Interval]:
    """The same moments as intervals that do not overlap."""
    union: list[_Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def _length(intervals: Sequence[_Interval]) -> int:
    return sum(end - start for start, end in intervals)


def _text(whole_ns: int, parts: dict[str, int]) -> str:
    seconds = whole_ns / 1e9
    digits = 3 if seconds < 1 else 2 if seconds < 100 else 1
    unit = 10 ** (9 - digits)
    shares = _rounded(list(parts.values()), round(whole_ns / unit), unit)
    listed = ", ".join(f"{name} {share * unit / 1e9:.{digits}f}" for name, share in zip(parts, shares, strict=True))
    text = f"program {round(whole_ns / unit) * unit / 1e9:.{digits}f} s"
    return f"{text}: {listed}" if len(parts) > 1 else text


def _rounded(values: Sequence[int], whole: int, unit: int) -> list[int]:
    """The values in units, each rounded up or down so that they add up to the whole."""
    rounded = [value // unit for value in values]
    by_remainder = sorted(range(len(values)), key=lambda index: values[index] % unit, reverse=True)
    for index in by_remainder[: max(whole - sum(rounded), 0)]:
        rounded[index] += 1
    return rounded
