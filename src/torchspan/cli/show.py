# SPDX-License-Identifier: Apache-2.0
"""`torchspan show`."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from torchspan import phase, semconv
from torchspan._files.opening import open_own
from torchspan.cli._command import CommandError
from torchspan.cli._svg import Picture
from torchspan.cli._terminal import Line, Style, Terminal, broken, printable
from torchspan.cli._what_leaves import Listing
from torchspan.cli._whole_texts import HELP, with_texts, write_redacted
from torchspan.cli.waterfall import Scene, answers, overview, plural, printable_spans, program, waterfall
from torchspan.semconv.torch import FrameOutcome
from torchspan.traces import FileContent, Run, Span, Trace, UnfinishedSpan, by_run, read, strings, trees

MOST_PARTS = 10
"""Parts drawn when none is asked for; of the others, what happened in them is listed."""

_MOST_PROBLEMS = 5
_TITLE = "Waterfall of a trace, drawn by torchspan"
_PICTURE = re.compile(rf"<svg [^\n]*\n<title>{_TITLE}</title>".encode())
"""What a file begins with that `--svg` wrote."""

_Content = TypeVar("_Content", bound=FileContent)


class ShowCommand:
    """Show files of traces of torch.compile, Torch-TensorRT and TensorRT as a waterfall.

    Reads OTLP JSON, plain or packed with gzip: files of `torchspan run`, of the exporter torchspan_file, and of the
    Collector's file exporter. Several files are shown as one; `-` is the standard input. Exit status 1: part of a file
    could not be read; 2: none of it.

    With --what-leaves, every distinct string of the files is listed instead with its type, including strings in
    metrics and logs. `!` marks a string that its type does not allow, `*` one that is not torchspan's, `=` one that is
    in this file alone, which a terminal shows, or --text. Exit status 1 then also means that a string is marked with `!`.

    A file of `torchspan run` has the whole texts of messages, which no exporter gets. They are shown on a terminal, or
    with --text. To pass a file on, write a copy without them: torchspan show --redact FILE COPY.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", metavar="FILE", nargs="+")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--trace", metavar="ID", help="show only the trace whose id starts with this")
        which.add_argument(
            "--part",
            metavar="N",
            type=int,
            help="show only the part with this number, which the title of a part or the list of parts names",
        )
        which.add_argument("--what-leaves", action="store_true", help="list every distinct string, with its type")
        which.add_argument(
            "--redact",
            action="store_true",
            help="write a copy of the first file to the second, which must not exist, without the whole texts of messages",
        )
        parser.add_argument("--text", action="store_true", help=HELP)
        parser.add_argument(
            "--all",
            action="store_true",
            help="show all of one file that several runs have written to; default: the newest run of `torchspan run`",
        )
        parser.add_argument(
            "--svg",
            metavar="FILE",
            help="draw to this SVG file instead, as wide as the terminal or COLUMNS; replaces no file but a picture that "
            "torchspan drew",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        paths: list[str] = arguments.files
        if arguments.redact:
            return _redact(paths)
        if arguments.what_leaves:
            if arguments.svg:
                raise CommandError("--svg draws traces and --what-leaves lists strings; leave out one of them", 2)
            return _list(paths, shows_texts=arguments.text or sys.stdout.isatty())
        file = _read(paths, read)
        if not file.records:
            raise CommandError(_nothing(paths, file, "spans"), 2)
        spans = _chosen(file.records, arguments.trace, paths) if arguments.trace else file.records
        shows_texts = arguments.text or (sys.stdout.isatty() and not arguments.svg)
        spans = list(with_texts(spans)) if shows_texts else spans
        drawing = Drawing.of(spans, newest=len(paths) == 1 and not (arguments.all or arguments.trace))
        if arguments.part is not None and not 1 <= arguments.part <= len(drawing.parts):
            name = printable(_names(paths))
            raise CommandError(f"no part {arguments.part} in {name}; it has parts 1 to {len(drawing.parts)}", 2)
        limit = None if arguments.trace else MOST_PARTS
        if arguments.svg:
            _draw(drawing, arguments.svg, limit, arguments.part, paths)
        else:
            drawing.write(Terminal(sys.stdout), limit=limit, only=arguments.part)
            sys.stdout.flush()
        write_problems(file)
        return 1 if file.unread else 0


def _draw(drawing: Drawing, file: str, limit: int | None, part: int | None, inputs: Sequence[str]) -> None:
    picture = Picture(Terminal(sys.stdout).width)
    drawing.write(picture, limit=limit, only=part)
    try:
        with os.fdopen(_opened(file, inputs), "w", encoding="utf-8") as opened:
            opened.write(picture.svg(_TITLE))
    except OSError as error:
        raise CommandError(
            f"cannot write {printable(file)}: {error.strerror or error}; name another file: --svg <file>.svg", 2
        ) from None


def _opened(file: str, inputs: Sequence[str]) -> int:
    """A descriptor of a new file, or of an earlier picture, which is emptied. Raises OSError for any other file."""
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        opened = open_own(file, _PICTURE, "a picture that torchspan drew", inputs)
    os.ftruncate(opened, 0)
    return opened


def _redact(paths: Sequence[str]) -> int:
    if len(paths) != 2:
        raise CommandError("--redact takes two files: torchspan show --redact FILE COPY", 2)
    unread = write_redacted(*paths)
    if unread:
        print(
            f"torchspan: {plural(unread, 'line')} could not be read, and {printable(paths[1])} lacks them",
            file=sys.stderr,
        )
    return 1 if unread else 0


def _list(paths: Sequence[str], *, shows_texts: bool) -> int:
    file = _read(paths, strings)
    if not file.texts:
        raise CommandError(_nothing(paths, file, "strings"), 2)
    listing = Listing(file.texts, shows_texts)
    Terminal(sys.stdout).write(listing.lines())
    sys.stdout.flush()
    write_problems(file)
    return 1 if file.unread or listing.rejected else 0


@dataclass(frozen=True)
class Drawing:
    """What of a file is drawn.

    Args:
        items: Runs of `torchspan run`, and traces of other programs.
        parts: What can be drawn as a waterfall, in order of start; a part's number is its position, from 1.
        scene: All of it.
        left_out: How many runs and other traces are not drawn.
    """

    items: Sequence[Run | Trace]
    parts: Sequence[Trace]
    scene: Scene
    left_out: Sequence[str] = ()

    @classmethod
    def of(cls, spans: Iterable[Span], *, newest: bool = False) -> Drawing:
        """The drawing of spans.

        Args:
            newest: Of the newest run alone, if there is a run.
        """
        every = list(printable_spans(spans))
        items = by_run(trees(every))
        runs = [work for work in items if isinstance(work, Run)]
        left_out: list[str] = []
        shown = items
        if newest and runs:
            shown = [max(runs, key=lambda run: run.span.start_ns)]
            others = ((len(runs) - 1, "older run"), (len(items) - len(runs), "trace of no run", "traces of no run"))
            left_out = [plural(*other) for other in others if other[0]]
        parts = [
            trace for work in shown for trace in (filter(_is_more, work.members) if isinstance(work, Run) else [work])
        ]
        return cls(shown, parts, Scene.of(every), left_out)

    def write(self, terminal: Terminal | Picture, *, limit: int | None, only: int | None = None) -> None:
        """Draw the parts in order of their start, an empty line between them.

        The parts of one `torchspan run` stand below a drawing of the whole program.

        Args:
            limit: Beyond so many, those with news and the longest are drawn, and the others are listed with their news.
            only: The number of the only part to draw.
        """
        numbers = {id(trace): number for number, trace in enumerate(self.parts, 1)}
        # If all are drawn anyway, no number is needed to choose one.
        heads = {} if (limit is None and only is None) or len(self.parts) == 1 else numbers
        ranked = sorted(self.parts, key=_rank, reverse=True) if only is None else [self.parts[only - 1]]
        drawn = {id(trace) for trace in ranked[:limit]}
        is_first = True
        for lines in self._waterfalls(drawn, heads, terminal.width, draws_runs=only is None):
            if not is_first:
                terminal.write([[("", Style.PLAIN)]])
            terminal.write(lines)
            is_first = False
        rest = [(numbers[id(trace)], trace) for trace in ranked if id(trace) not in drawn]
        if rest:
            terminal.write([[("", Style.PLAIN)], *overview(rest, terminal.width)])
        if self.left_out and only is None:
            line = f"{' and '.join(self.left_out)} in the file; show --all draws everything"
            terminal.write([[("", Style.PLAIN)], *([(text, Style.STRONG)] for text in broken(line, terminal.width))])

    def _waterfalls(
        self, drawn: Container[int], numbers: Mapping[int, int], width: int, *, draws_runs: bool
    ) -> Iterator[Iterable[Line]]:
        for work in self.items:
            if isinstance(work, Run) and draws_runs:
                yield program(work, width, self.scene, drawn)
            for trace in work.members if isinstance(work, Run) else [work]:
                if id(trace) in drawn:
                    # Another part of the run has the same trace id.
                    is_of_run = isinstance(work, Run) and trace.trace_id == work.span.trace_id
                    head = f"part {numbers[id(trace)]}" if is_of_run and numbers else ""
                    yield waterfall(trace, width, self.scene, head)


def _is_more(member: Trace) -> bool:
    """Whether a waterfall of it says more than its line in the drawing of the program.

    An import is reported with its whole time, further imports included.
    """
    if all(node.span.name == phase.IMPORT.name for node in member.nodes()):
        return False
    return len(member.roots) > 1 or bool(member.roots[0].children) or bool(answers(member))


def _rank(trace: Trace) -> tuple[bool | int, ...]:
    """News first: an error or no end, a recompile limit, a fallback, a recompilation, a graph break; then how long."""
    spans = [node.span for node in trace.nodes()]
    outcomes = [span.attributes.get(semconv.FRAME_OUTCOME) for span in spans]
    return (
        any(span.is_error or isinstance(span, UnfinishedSpan) for span in spans),
        FrameOutcome.LIMIT in outcomes,
        FrameOutcome.FALLEN_BACK in outcomes
        or any(span.attributes.get(semconv.FALLBACK_REASON_CLASSES) for span in spans),
        any(semconv.RECOMPILE_REASON in span.attributes for span in spans),
        any(event.name == semconv.GRAPH_BREAK_EVENT for span in spans for event in span.events),
        any(span.attributes.get(semconv.KEEP) is True for span in spans),
        trace.end_ns - trace.start_ns,
    )


def write_problems(file: FileContent) -> None:
    """Say on stderr what could not be read."""
    for problem in file.problems[:_MOST_PROBLEMS]:
        print(f"torchspan: {printable(str(problem))}", file=sys.stderr)
    more = file.unread - _MOST_PROBLEMS
    if more > 0:
        print(f"torchspan: {more} more places could not be read", file=sys.stderr)


def _read(paths: Sequence[str], reader: Callable[..., _Content]) -> _Content:
    sources: list[str | BinaryIO] = [sys.stdin.buffer if path == "-" else path for path in paths]
    try:
        return reader(*sources)
    except OSError as error:
        name = printable(str(error.filename or _names(paths)))
        raise CommandError(f"cannot read {name}: {error.strerror or error}", 2) from None


def _names(paths: Sequence[str]) -> str:
    return ", ".join("the standard input" if path == "-" else path for path in paths)


def _chosen(spans: Sequence[Span], wanted: str, paths: Sequence[str]) -> list[Span]:
    chosen = [span for span in spans if span.trace_id.startswith(wanted.lower())]
    if chosen:
        return chosen
    trace_ids = list(dict.fromkeys(trace.trace_id for trace in trees(spans)))
    ids = ", ".join([*trace_ids[:3], *(["…"] if len(trace_ids) > 3 else [])])
    raise CommandError(f"no trace {printable(wanted)} in {printable(_names(paths))}; its traces are {ids}", 2)


def _nothing(paths: Sequence[str], file: FileContent, what: str) -> str:
    if not file.unread:
        return f"no {what} in {printable(_names(paths))}; expected OTLP JSON, as `torchspan run` writes it"
    more = f" (and {file.unread - 1} more)" if file.unread > 1 else ""
    reason = f"nothing readable in {printable(str(file.problems[0]))}{more}"
    if file.problems[0].what.startswith("cut off"):
        return f"{reason}; try again when the program has ended"
    return f"{reason}; expected OTLP JSON, as `torchspan run` writes it"
