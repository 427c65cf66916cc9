# SPDX-License-Identifier: Apache-2.0
"""`torchspan show`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from torchspan.cli._command import CommandError
from torchspan.cli._redacted_copy import HELP, write_redacted
from torchspan.cli._terminal import Terminal
from torchspan.cli._what_leaves import Listing
from torchspan.reading.answers import Answers
from torchspan.reading.answers.drawing import Drawing, DrawingOptions, rows_of
from torchspan.reading.answers.lines import printable
from torchspan.reading.answers.units import plural
from torchspan.reading.answers.whole_texts import with_texts
from torchspan.reading.traces import FileContent, Span, TraceFile, read, strings, trees

_MOST_PROBLEMS = 5
_MOST_DIGITS = 10

_Content = TypeVar("_Content", bound=FileContent)


class ShowCommand:
    """Show what traces of torch.compile, Torch-TensorRT and TensorRT say: what was compiled, why, and what to change.

    The first screen has a part for everything that was compiled by torch.compile, Torch-TensorRT or TensorRT, the worst
    first. Waterfalls of those with news follow. `show FILE 3` draws part 3 of it.

    Reads OTLP JSON, plain or packed with gzip: files of `torchspan run`, of the exporter torchspan_file, and of the
    Collector's file exporter, log records of events among them. Several files are shown as one; `-` is the standard
    input. Exit status 1: part of a file could not be read; 2: none of it.

    With --what-leaves, every distinct string of the files is listed instead with its type, including strings in
    metrics and logs. `!` marks a string that its type does not allow, `*` one that is not torchspan's, `=` one that is
    in this file alone, which a terminal shows, or --text. Exit status 1 then also means that a string is marked with `!`.

    A file of `torchspan run` has the whole texts of messages, which no exporter gets. They are shown on a terminal, or
    with --text. To pass a file on, write a copy without them: torchspan show --redact FILE COPY.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files", metavar="FILE", nargs="+", help="a file; a number behind the files is that of a part"
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--trace", metavar="ID", help="show only the trace whose id starts with this")
        which.add_argument("--errors", action="store_true", help="show only what failed or reached a recompile limit")
        which.add_argument(
            "--slowest",
            metavar="N",
            type=_positive,
            help="list the N spans that took longest, without what is inside them",
        )
        which.add_argument(
            "--json", action="store_true", help="print the answers as one JSON document, torchspan.summary/1"
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
            help="fold nothing, and show every run that the file has; default: the newest run of `torchspan run`",
        )
        parser.add_argument(
            "--svg",
            metavar="FILE",
            help="draw to this SVG file instead, as wide as the terminal or COLUMNS; like --html, replaces "
            "no file but one that torchspan wrote with one of these options",
        )
        parser.add_argument(
            "--html",
            metavar="FILE",
            help="write a page for the browser instead, one file that refers to nothing outside of it",
        )
        parser.add_argument("--perfetto", metavar="FILE", help="write a file for Perfetto instead, see ui.perfetto.dev")
        parser.add_argument(
            "--markdown",
            action="store_true",
            help="print the answers as Markdown instead, for a comment; at most 60 lines",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        paths: list[str] = arguments.files
        if arguments.redact:
            return _redact(paths)
        paths, number = _numbered(paths)
        _check_options(arguments, number)
        if arguments.what_leaves:
            return _list(paths, shows_texts=arguments.text or sys.stdout.isatty())
        file = _read(paths, read)
        if not file.records:
            raise CommandError(_nothing(paths, file, "spans"), 2)
        spans = _chosen(file.records, arguments.trace, paths) if arguments.trace else file.records
        is_drawn = not (_written(arguments) or arguments.json)
        spans = list(with_texts(spans)) if arguments.text or (sys.stdout.isatty() and is_drawn) else spans
        newest = len(paths) == 1 and not (arguments.all or arguments.trace)
        drawing = Drawing.of(spans, newest=newest, encoding=Terminal(sys.stdout).encoding if is_drawn else "utf-8")
        if arguments.json:
            print(json.dumps(Answers.of(drawing).document(), indent=2))
        else:
            _draw(drawing, _choice(arguments, drawing, number, paths), arguments, paths)
        write_problems(file)
        return 1 if file.unread else 0


def _positive(text: str) -> int:
    number = int(text) if _is_number(text) else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of spans: 1 or more")
    return number


def _is_number(text: str) -> bool:
    """Whether it is a number that something can have; no file has a longer one as its name, and Python does not convert it."""
    return text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS


def _numbered(paths: list[str]) -> tuple[list[str], int | None]:
    """The files, and the number of a row behind them."""
    last = paths[-1]
    if len(paths) > 1 and _is_number(last) and not Path(last).exists():
        return paths[:-1], int(last)
    return paths, None


def _choice(
    arguments: argparse.Namespace, drawing: Drawing, number: int | None, paths: Sequence[str]
) -> DrawingOptions:
    shown = DrawingOptions(unfolds=arguments.all)
    parts = [row for section in drawing.sections for row, _ in rows_of(section, shown)]
    if number is not None and number not in parts:
        numbers = f"parts {parts[0]} to {parts[-1]}" if len(parts) > 1 else f"part {parts[0]} alone"
        raise CommandError(f"no part {number} in {printable(_names(paths))}; it has {numbers}", 2)
    return DrawingOptions(
        number,
        unfolds=arguments.all,
        draws_all=bool(arguments.trace),
        only_errors=arguments.errors,
        slowest=arguments.slowest,
    )


def _draw(drawing: Drawing, choice: DrawingOptions, arguments: argparse.Namespace, inputs: Sequence[str]) -> None:
    """Write the files that are asked for; without one, draw on the standard output."""
    from torchspan.cli import _view_files
    from torchspan.reading.views import (  # `torchspan run` imports this module, and needs none
        Picture,
        markdown,
        page,
        perfetto,
    )

    terminal = Terminal(sys.stdout)
    if arguments.svg:
        picture = Picture(terminal.width)
        picture.write(drawing.lines(terminal.width, choice))
        _view_files.write(arguments.svg, [picture.svg().encode()], "--svg", inputs)
    if arguments.html:
        _view_files.write(arguments.html, page(drawing), "--html", inputs)
    if arguments.perfetto:
        _view_files.write(arguments.perfetto, perfetto(drawing), "--perfetto", inputs)
    if arguments.markdown:
        print(markdown(drawing), end="")
    if not _written(arguments):
        terminal.write(drawing.lines(terminal.width, choice))
    sys.stdout.flush()


_FILES = {"svg": "draws traces", "html": "shows traces", "perfetto": "shows traces", "markdown": "prints the answers"}
_OF_EVERY_PART = ("errors", "slowest", "json", "what_leaves")
_OTHERS = {"json": "prints data", "what_leaves": "lists strings"}


def _written(arguments: argparse.Namespace) -> list[str]:
    """The options with which something is written in place of the drawing on the standard output."""
    return [name for name in _FILES if getattr(arguments, name)]


def _check_options(arguments: argparse.Namespace, number: int | None) -> None:
    """Raises CommandError for options that exclude each other, which argparse cannot tell."""
    for name in _written(arguments):
        for other, what in _OTHERS.items():
            if getattr(arguments, other):
                option = f"--{other.replace('_', '-')}"
                raise CommandError(f"--{name} {_FILES[name]} and {option} {what}; leave out one of them", 2)
        part = next((f"--{key}" for key in ("errors", "slowest") if getattr(arguments, key)), number)
        if name != "svg" and part is not None:
            raise CommandError(f"--{name} has every part; leave out {part}", 2)
    for name in _OF_EVERY_PART:
        if number is not None and getattr(arguments, name):
            raise CommandError(f"--{name.replace('_', '-')} looks at every part; leave out {number}", 2)


def _redact(paths: Sequence[str]) -> int:
    if len(paths) != 2 or paths[1] == "-":
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


def write_problems(file: FileContent) -> None:
    """Say on stderr what could not be read, and how many events have no span."""
    for problem in file.problems[:_MOST_PROBLEMS]:
        print(f"torchspan: {printable(str(problem))}", file=sys.stderr)
    more = file.unread - _MOST_PROBLEMS
    if more > 0:
        print(f"torchspan: {more} more places could not be read", file=sys.stderr)
    if isinstance(file, TraceFile) and file.spanless:
        print(f"torchspan: {plural(file.spanless, 'event')} of spans that are not in the file", file=sys.stderr)


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
