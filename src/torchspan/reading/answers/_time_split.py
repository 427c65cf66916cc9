# SPDX-License-Identifier: Apache-2.0
"""How the wall time of a program splits, each moment counted once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchspan.reading.answers._attributes import number
from torchspan.reading.answers.lines import Line, Style, broken
from torchspan.reading.answers.units import plural
from torchspan.reading.traces import Interval, Node, Run, Span, length_ns, union
from torchspan.words import phase, semconv

_IMPORTS, _BUILDS, _OTHER = "imports", "builds", "other compilation"
_KINDS = (_IMPORTS, _BUILDS, _OTHER)
"""Kinds of work. A moment belongs to the first kind of which it has some."""
_NOT_WORK = {phase.IMPORT.name, phase.RUN.name, phase.PROGRESS.name}
_MOST_S = 2.0**32
"""Seconds of runs beyond which a file says nothing: more than a century of one thread."""
_NOTABLE = 1.01
"""How many times as long as the time that is left for it a sum is that the line mentions."""

_Thread = tuple[object, object]
"""Process and thread; the thread is None for the main thread."""


@dataclass(frozen=True)
class TimeSplit:
    """How the wall time of a program splits.

    Attributes:
        program_s: Seconds from the start of the program to its end.
        parts: Seconds in which the main thread did work of a kind: `builds` of TensorRT's engines, `other compilation`, `imports`,
            `runs` of engines, and the `rest`. They do not overlap and add up to `program_s`.
        runs: Number of runs of engines, those without a span included.
        runs_s: Seconds of all runs, those without a span included, summed over the threads of the program.
        elsewhere: Seconds of work of each kind in other threads and processes of the program, summed over them.
    """

    program_s: float
    parts: Mapping[str, float]
    runs: int
    runs_s: float
    elsewhere: Mapping[str, float]

    @classmethod
    def of(cls, run: Run) -> TimeSplit:
        """The split of a run.

        Imports are those that torchspan reports; an import inside a compilation counts as import, a build inside of one as build.
        Of runs only the sum is known.

        Args:
            run: A program that ran under `torchspan run`.

        Returns:
            The split.
        """
        by_thread = _by_thread(run)
        parts_ns = _split(by_thread.pop(_main_thread(run, by_thread), {}))
        runs_s = number(run.span.attributes, semconv.RUN_ENGINES_TIME) or 0.0
        runs_ns = round(runs_s * 1e9) if runs_s < _MOST_S else 0
        left_ns = run.span.duration_ns - sum(parts_ns.values())
        ordered = {_BUILDS: parts_ns[_BUILDS], _OTHER: parts_ns[_OTHER], _IMPORTS: parts_ns[_IMPORTS]}
        parts = {**ordered, "runs": min(runs_ns, left_ns), "rest": left_ns - min(runs_ns, left_ns)}
        others_ns = [_split(intervals) for intervals in by_thread.values()]
        elsewhere = {kind: sum(ns[kind] for ns in others_ns) / 1e9 for kind in (_BUILDS, _OTHER, _IMPORTS)}
        count = int(number(run.span.attributes, semconv.RUN_ENGINES_RUNS) or 0)
        seconds = {name: ns / 1e9 for name, ns in parts.items()}
        return cls(run.span.duration_ns / 1e9, seconds, count, runs_ns / 1e9, elsewhere)

    def lines(self, width: int) -> Iterator[Line]:
        """The sentences as lines.

        Args:
            width: Columns of the terminal.

        Yields:
            Each line.
        """
        yield from ([(piece, Style.PLAIN)] for text in self.sentences() for piece in broken(text, width))

    def sentences(self) -> list[str]:
        """`program 6.00 s: builds 0.95, other compilation 0.30, imports 2.90, runs 1.20, rest 0.65`, and of other threads.

        Returns:
            One sentence, or two.
        """
        labels = {"runs": plural(self.runs, "run")} if self.runs else {}
        said = {labels.get(name, name): s for name, s in self.parts.items() if s > 0 or name == "rest"}
        runs = self.parts["runs"]
        summed = f" (runs of all threads summed: {self.runs_s:.2f} s)" if self.runs_s > _NOTABLE * runs else ""
        texts = [_text("program", self.program_s, said) + summed]
        elsewhere = {name: s for name, s in self.elsewhere.items() if s > 0}
        if elsewhere:
            texts.append(_text("other threads and processes", sum(elsewhere.values()), elsewhere))
        return texts


def _split(intervals: Mapping[str, list[Interval]]) -> dict[str, int]:
    """Nanoseconds of each kind of work in one thread."""
    taken: list[Interval] = []
    parts_ns, taken_ns = {}, 0
    for kind in _KINDS:
        taken = union([*taken, *intervals.get(kind, [])])
        parts_ns[kind] = length_ns(taken) - taken_ns
        taken_ns += parts_ns[kind]
    return parts_ns


def _main_thread(run: Run, threads: Collection[_Thread]) -> _Thread:
    """The main thread of the program itself, or of the first process that it started, if it is not a Python program."""
    main = (number(run.span.attributes, semconv.PROCESS_PID), None)
    return main if main in threads else next((thread for thread in threads if thread[1] is None), main)


def _by_thread(run: Run) -> dict[_Thread, dict[str, list[Interval]]]:
    """Intervals of each kind of work in each thread, inside the run."""
    result: dict[_Thread, dict[str, list[Interval]]] = defaultdict(lambda: defaultdict(list))
    for member in run.members:
        threads: dict[int, _Thread] = {}
        for node in member.nodes():
            thread = threads[id(node)] = _thread(node, threads)
            kind = _kind(node.span)
            if kind:
                result[thread][kind].append(_clipped(node.span, run.span))
    return result


def _thread(node: Node, threads: Mapping[int, _Thread]) -> _Thread:
    pid = number(node.span.resource, semconv.PROCESS_PID)
    if node.span.name == phase.COMPILE_WORKER.name:
        return (pid, node.span.span_id)
    above = threads.get(id(node.parent))
    if above is not None and above[0] == pid and semconv.THREAD_ID not in node.span.attributes:
        return above
    return (pid, number(node.span.attributes, semconv.THREAD_ID))


def _kind(span: Span) -> str:
    """The kind of work of a span; empty for other spans."""
    if span.scope != semconv.SCOPE_NAME:
        return ""
    if span.name == phase.IMPORT.name:
        return _IMPORTS
    if span.name == phase.BUILD_ENGINE.name:
        return _BUILDS
    return _OTHER if span.attributes.get(semconv.KEEP) is True and span.name not in _NOT_WORK else ""


def _clipped(span: Span, run: Span) -> Interval:
    start = min(max(span.start_ns, run.start_ns), run.end_ns)
    return start, max(min(span.end_ns, run.end_ns), start)


def _text(name: str, whole_s: float, parts: Mapping[str, float]) -> str:
    digits = 3 if whole_s < 1 else 2 if whole_s < 100 else 1
    unit = 10.0**-digits
    shares = _rounded([s / unit for s in parts.values()], round(whole_s / unit))
    listed = ", ".join(f"{part} {share * unit:.{digits}f}" for part, share in zip(parts, shares, strict=True))
    text = f"{name} {round(whole_s / unit) * unit:.{digits}f} s"
    return f"{text}: {listed}" if list(parts) != ["rest"] else text


def _rounded(values: Sequence[float], whole: int) -> list[int]:
    """The values, each rounded up or down so that they add up to the whole."""
    rounded = [int(value) for value in values]
    by_remainder = sorted(range(len(values)), key=lambda index: values[index] % 1, reverse=True)
    for index in by_remainder[: max(whole - sum(rounded), 0)]:
        rounded[index] += 1
    return rounded
