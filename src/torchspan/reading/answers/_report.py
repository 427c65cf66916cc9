# SPDX-License-Identifier: Apache-2.0
"""The report of spans: the answers as data and as one document, and everything as text."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchspan.reading.answers import _kinds_of_answer as kinds
from torchspan.reading.answers._attributes import number
from torchspan.reading.answers._built_engines import engines
from torchspan.reading.answers._compiled import Compiled
from torchspan.reading.answers._device_times import gpu_times, layer_times
from torchspan.reading.answers._frame_answer import frames
from torchspan.reading.answers._operator_rows import operator_times
from torchspan.reading.answers._stages import stages
from torchspan.reading.answers._time_split import TimeSplit
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.answers.html import IN_NOTEBOOK, first_screen
from torchspan.reading.answers.whole_texts import with_texts
from torchspan.reading.traces import Run, Searchable, Span, Trace, TraceFile
from torchspan.reading.traces import read as read_traces
from torchspan.reading.traces._input import Source
from torchspan.words import semconv

FORMAT = "torchspan.summary/1"
"""The version of the document. A change of a field that its readers may notice has the next number."""
_WIDTH = 80


@dataclass(frozen=True)
class RunFacts:
    """A program that ran under `torchspan run`.

    Attributes:
        id: The id of the run.
        started: When it began: ISO 8601, UTC.
        exit_code: The exit status of the program; None if a signal ended it, or it is unknown.
        signal: The signal that ended it; empty without one.
    """

    id: str
    started: str
    exit_code: int | None
    signal: str

    @classmethod
    def of(cls, run: Run) -> RunFacts:
        """The facts of a run.

        Args:
            run: A program that ran under `torchspan run`.

        Returns:
            Its facts.
        """
        started = dt.datetime.fromtimestamp(run.span.start_ns // 1_000_000_000, dt.timezone.utc)
        code = number(run.span.attributes, semconv.PROCESS_EXIT_CODE)
        return cls(
            id=run.run_id,
            started=started.isoformat(),
            exit_code=None if code is None else int(code),
            signal=str(run.span.attributes.get(semconv.RUN_SIGNAL) or ""),
        )


@dataclass(frozen=True)
class Answers:
    """What spans say: those of the newest run of `torchspan run`, or, in files of other programs, all.

    Fallbacks, recompilations, breaks, errors, sizes and caches are the findings of what was compiled, in the order of its start.

    Attributes:
        run: The run; None if there is none, or if there are several.
        time: How the wall time of the program splits; None without a run.
        compiled: What was compiled, the worst first.
        stages: The stages of the work, the longest first; then those of compile workers.
        engines: TensorRT's engines, the one that took longest first.
        frames: Frames of torch.compile, in the order of their start.
        fallbacks: Operators that run in PyTorch instead of TensorRT.
        cache: What caches did.
        recompiles: Why functions were compiled again, and limits that were reached.
        breaks: Where graphs broke.
        errors: Exceptions, row by row. Those that torch.compile caught are the last.
        sizes: Sizes of inputs that do not fit what an engine was built for.
        operators: Operators of PyTorch that ran, the longest 40 of each kind of run first by their own time; empty where none are
            recorded.
        gpu_times: Engines and graphs whose runs have times on the device, that which took longest in all first.
        layers: The layers of each engine that TensorRT timed, the slowest first.
    """

    run: RunFacts | None
    time: TimeSplit | None
    compiled: tuple[Compiled, ...]
    stages: tuple[kinds.Stage, ...]
    engines: tuple[kinds.BuiltEngine, ...]
    frames: tuple[kinds.Frame, ...]
    fallbacks: tuple[kinds.Fallback, ...]
    cache: tuple[kinds.CacheResult, ...]
    recompiles: tuple[kinds.Recompile, ...]
    breaks: tuple[kinds.Break, ...]
    errors: tuple[kinds.Failure, ...]
    sizes: tuple[kinds.Sizes, ...]
    operators: tuple[kinds.OperatorTime, ...]
    gpu_times: tuple[kinds.GpuTime, ...]
    layers: tuple[kinds.LayerTime, ...]

    @classmethod
    def of(cls, drawing: Drawing) -> Answers:
        """The answers of what is drawn.

        Args:
            drawing: What is drawn.

        Returns:
            The answers.
        """
        nodes = [node for section in drawing.sections for trace in section.traces for node in trace.nodes()]
        runs = [section.run for section in drawing.sections if section.run is not None]
        rows = [row for _, row in drawing.rows]
        found = [finding for row in sorted(rows, key=_start_ns) for finding in row.findings]
        errors = [finding for finding in found if isinstance(finding, kinds.Failure)]
        return cls(
            run=RunFacts.of(runs[0]) if len(runs) == 1 else None,
            time=TimeSplit.of(runs[0]) if len(runs) == 1 else None,
            compiled=tuple(row for row in rows if row.is_compilation),
            stages=tuple(stages(nodes)),
            engines=tuple(engines(nodes)),
            frames=tuple(frames(nodes)),
            fallbacks=tuple(finding for finding in found if isinstance(finding, kinds.Fallback)),
            cache=tuple(finding for finding in found if isinstance(finding, kinds.CacheResult)),
            recompiles=tuple(finding for finding in found if isinstance(finding, kinds.Recompile)),
            breaks=tuple(finding for finding in found if isinstance(finding, kinds.Break)),
            errors=tuple(sorted(errors, key=lambda failure: failure.is_caught)),
            sizes=tuple(finding for finding in found if isinstance(finding, kinds.Sizes)),
            operators=tuple(operator_times(nodes)),
            gpu_times=tuple(gpu_times(nodes)),
            layers=tuple(layer_times(nodes)),
        )

    def __str__(self) -> str:
        """A line for each finding that calls for an action, those of errors first."""
        labels = (
            (self.errors, "Error: "),
            (self.fallbacks, "Fallback: "),
            (self.recompiles, ""),
            (self.breaks, ""),
            (self.sizes, ""),
        )
        return "\n".join(f"{label}{' '.join(finding.paragraph)}" for findings, label in labels for finding in findings)

    def document(self) -> dict[str, Any]:
        """All of it as one document of JSON's types, whose schema is `docs/reference/summary.schema.json`.

        Returns:
            The document, with the name and version of its format under `format`.
        """
        names = [field.name for field in dataclasses.fields(self) if field.name not in {"run", "time"}]
        lists = {name: [_plain(part) for part in getattr(self, name)] for name in names}
        run, time = (None if part is None else dataclasses.asdict(part) for part in (self.run, self.time))
        return {"format": FORMAT, "run": run, "time": time, **lists}


def _start_ns(row: Compiled) -> int:
    return min(node.span.start_ns for node in row.nodes)


def _plain(part: kinds.Answer | Compiled) -> dict[str, Any]:
    if isinstance(part, Compiled):
        findings = [{"kind": type(finding).__name__, **_said(finding)} for finding in part.findings]
        facts = {
            "name": part.name,
            "place": part.place,
            "count": part.count,
            "s": part.ns / 1e9,
            "outcome": part.outcome,
        }
        return {**facts, "findings": findings}
    own = {field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.repr}
    return {**_said(part), **{key: list(value) if isinstance(value, tuple) else value for key, value in own.items()}}


def _said(finding: kinds.Answer) -> dict[str, str]:
    return {"sentence": finding.sentence, "remedy": finding.remedy}


class Report(Searchable):
    """Spans with what they say. `str(report)`, and a notebook, have the answers and the waterfalls.

    The spans are found as in `torchspan.traces`: `report.one(name)`, `report.find(name)`, `report.traces`.
    """

    @property
    def answers(self) -> Answers:
        """What the spans say, as data."""
        return Answers.of(self._drawing())

    def __str__(self) -> str:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self._drawing().lines(_WIDTH))

    def _repr_html_(self) -> str:
        return first_screen(self._drawing(), IN_NOTEBOOK)

    def _drawing(self) -> Drawing:
        return Drawing.of(node.span for node in self._nodes())


class TraceReport(Report):
    """The report of files.

    Attributes:
        file: The files as they were read, with what could not be read.

    Args:
        texts: Whether sentences have the whole texts of messages, if a file has them.
    """

    def __init__(self, file: TraceFile, *, texts: bool = False) -> None:
        self.file = file
        self._texts = texts

    def __repr__(self) -> str:
        return f"<TraceReport of {len(self.file.spans)} spans>"

    @property
    def traces(self) -> list[Trace]:
        """The spans as trees, one entry for each trace id, in the order of their start."""
        return self.file.traces

    @functools.cached_property
    def answers(self) -> Answers:
        """What the spans say, as data."""
        return Answers.of(self._newest)

    def _drawing(self) -> Drawing:
        return self._newest

    @functools.cached_property
    def _newest(self) -> Drawing:
        records: Sequence[Span] = self.file.records
        return Drawing.of(with_texts(records) if self._texts else records, newest=True)


def read(*sources: Source, texts: bool = False) -> TraceReport:
    """Read what files of traces say.

    Args:
        *sources: Paths, or files that are open in binary mode, as `torchspan.traces.read` takes them.
        texts: Whether sentences have the whole texts of messages, if a file has them. They may have values of the program.

    Returns:
        The report: of the newest run of `torchspan run`, or of every trace if there is no run.

    Raises:
        OSError: A source cannot be opened or read, or is a device without an end.
        TypeError: A source is neither a path nor a file in binary mode.
    """
    return TraceReport(read_traces(*sources), texts=texts)


__all__ = ["FORMAT", "Answers", "Report", "RunFacts", "TraceReport", "read"]
