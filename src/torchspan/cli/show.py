# SPDX-License-Identifier: Apache-2.0
"""`torchspan show`."""

from __future__ import annotations

import argparse
import os
import re
import stat
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from torchspan import phase, semconv
from torchspan._base.files import open_own, regular_or_named
from torchspan.cli._command import CommandError
from torchspan.cli._svg import Picture
from torchspan.cli._terminal import Line, Style, Terminal, printable
from torchspan.cli._what_leaves import Listing
from torchspan.cli.waterfall import Scene, answers, overview, printable_spans, program, waterfall
from torchspan.traces import FileContent, Run, Span, Trace, UnfinishedSpan, by_run, read, strings, trees

MOST_TRACES = 10
"""Traces drawn when none is asked for; the others are counted."""

_MOST_PROBLEMS = 5
_TITLE = "Waterfall of a trace, drawn by torchspan"
_PICTURE = re.compile(rf"<svg [^\n]*\n<title>{_TITLE}</title>".encode())
"""What a file begins with that `--svg` wrote."""

_Content = TypeVar("_Content", bound=FileContent)


class ShowCommand:
    """Show files of traces as a waterfall.

    Reads OTLP JSON, plain or packed with gzip: files of `torchspan run`, of the exporter torchspan_file, and of the
    Collector's file exporter. Several files are shown as one; `-` is the standard input. Exit status 1: part of a file
    could not be read; 2: none of it.

    With --what-leaves, every distinct string of the files is listed instead with its type, including strings in
    metrics and logs. `!` marks a string that its type does not allow, `*` one that is not torchspan's. Exit status 1
    then also means that a string is marked with `!`.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", metavar="FILE", nargs="+")
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--trace", metavar="ID", help="show only the trace whose id starts with this")
        which.add_argument("--what-leaves", action="store_true", help="list every distinct string, with its type")
        parser.add_argument(
            "--svg",
            metavar="FILE",
            help="draw to this SVG file instead, as wide as the terminal or COLUMNS; replaces no file but a picture that "
            "torchspan drew",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        paths: list[str] = arguments.files
        if arguments.what_leaves:
            if arguments.svg:
                raise CommandError("--svg draws traces and --what-leaves lists strings; leave out one of them", 2)
            return _list(paths)
        file = _read(paths, read)
        if not file.records:
            raise CommandError(_nothing(paths, file, "spans"), 2)
        spans = _chosen(file.records, arguments.trace, paths) if arguments.trace else file.records
        limit = None if arguments.trace else MOST_TRACES
        if arguments.svg:
            _draw(spans, arguments.svg, limit, paths)
        else:
            write_traces(spans, Terminal(sys.stdout), limit=limit)
            sys.stdout.flush()
        write_problems(file)
        return 1 if file.unread else 0


def _draw(spans: Iterable[Span], file: str, limit: int | None, inputs: Sequence[str]) -> None:
    picture = Picture(Terminal(sys.stdout).width)
    write_traces(spans, picture, limit=limit)
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
        opened = open_own(file, _PICTURE, "a picture that torchspan drew", inputs, regular_or_named)
    if stat.S_ISREG(os.fstat(opened).st_mode):
        os.ftruncate(opened, 0)
    else:
        os.set_blocking(opened, True)
    return opened


def _list(paths: Sequence[str]) -> int:
    file = _read(paths, strings)
    if not file.found:
        raise CommandError(_nothing(paths, file, "strings"), 2)
    listing = Listing(file.found)
    Terminal(sys.stdout).write(listing.lines())
    sys.stdout.flush()
    write_problems(file)
    return 1 if file.unread or listing.rejected else 0


def write_traces(spans: Iterable[Span], terminal: Terminal | Picture, *, limit: int | None) -> None:
    """Draw the traces in order of their start, an empty line between them; beyond `limit` only those that tell most.

    The traces of one `torchspan run` stand below a drawing of the whole program.
    """
    every = list(printable_spans(spans))
    scene = Scene.of(every)
    items = by_run(trees(every))
    candidates = [
        trace
        for item in items
        for trace in ([member for member in item.members if _is_more(member)] if isinstance(item, Run) else [item])
    ]
    chosen = candidates if limit is None or len(candidates) <= limit else _telling(candidates, limit)
    drawn = {id(trace) for trace in chosen}
    is_first = True
    for lines in _drawings(items, drawn, scene, terminal.width):
        if not is_first:
            terminal.write([[("", Style.PLAIN)]])
        terminal.write(lines)
        is_first = False
    if len(chosen) < len(candidates):
        rest = [trace for trace in candidates if id(trace) not in drawn]
        terminal.write([[("", Style.PLAIN)], *overview(rest, terminal.width)])


def _drawings(
    items: Iterable[Run | Trace], drawn: Container[int], scene: Scene, width: int
) -> Iterator[Iterable[Line]]:
    for item in items:
        if isinstance(item, Run):
            yield program(item, width, scene, drawn)
        for trace in item.members if isinstance(item, Run) else [item]:
            if id(trace) in drawn:
                yield waterfall(trace, width, scene)


def _is_more(member: Trace) -> bool:
    """Whether a waterfall of it says more than its line in the drawing of the program.

    An import is reported with its whole time, further imports included.
    """
    if all(node.span.name == phase.IMPORT.name for node in member.nodes()):
        return False
    return len(member.roots) > 1 or bool(member.roots[0].children) or bool(answers(member))


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


def _telling(found: Sequence[Trace], limit: int) -> list[Trace]:
    """Those that failed or did not end first, then compilations, then the longest; in the order of their start."""

    def rank(trace: Trace) -> tuple[bool, bool, int]:
        spans = [node.span for node in trace.nodes()]
        is_kept = any(span.attributes.get(semconv.KEEP) is True for span in spans)
        is_notable = any(span.is_error or isinstance(span, UnfinishedSpan) for span in spans)
        return is_notable, is_kept, trace.end_ns - trace.start_ns

    chosen = {id(trace) for trace in sorted(found, key=rank, reverse=True)[:limit]}
    return [trace for trace in found if id(trace) in chosen]


def _chosen(spans: Sequence[Span], wanted: str, paths: Sequence[str]) -> list[Span]:
    chosen = [span for span in spans if span.trace_id.startswith(wanted.lower())]
    if chosen:
        return chosen
    found = list(dict.fromkeys(trace.trace_id for trace in trees(spans)))
    ids = ", ".join(found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    verb = "have" if len(paths) > 1 else "has"
    they = "they have" if len(paths) > 1 else "it has"
    raise CommandError(f"{printable(_names(paths))} {verb} no trace {printable(wanted)}; {they} {ids}{more}", 2)


def _nothing(paths: Sequence[str], file: FileContent, what: str) -> str:
    name = printable(_names(paths))
    if file.unread:
        more = f" (and {file.unread - 1} more)" if file.unread > 1 else ""
        problem = file.problems[0]
        reason = f"nothing readable in {printable(problem.source)}: {problem.place}: {problem.what}{more}"
    elif file.is_empty:
        reason = f"{name} {'are' if len(paths) > 1 else 'is'} empty"
    else:
        return f"{name} {'contain' if len(paths) > 1 else 'contains'} no {what}; name another file"
    if file.problems and file.problems[0].what.startswith("cut off"):
        return f"{reason}; try again when the program has ended"
    return f"{reason}; expected OTLP JSON, as `torchspan run` writes it"
