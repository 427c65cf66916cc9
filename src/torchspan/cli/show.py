# SPDX-License-Identifier: Apache-2.0
"""`torchspan show`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from torchspan import semconv
from torchspan.cli._command import CommandError
from torchspan.cli._terminal import Style, Terminal, printable
from torchspan.cli.waterfall import Trace, TraceFile, overview, read_file, traces, waterfall

MOST_TRACES = 10
"""Traces drawn when none is asked for; the others are counted."""

_MOST_PROBLEMS = 5


class ShowCommand:
    """Show a file of traces as a waterfall.

    Reads OTLP JSON lines: what `torchspan run` and the exporter torchspan_file write, and what the Collector's
    file exporter writes. Exit status 1: part of the file could not be read; 2: none of it.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE")
        parser.add_argument("--trace", metavar="ID", help="only the trace whose id starts with this")

    def run(self, arguments: argparse.Namespace) -> int:
        path: str = arguments.file
        try:
            file = read_file(path)
        except OSError as error:
            raise CommandError(f"cannot read {printable(path)}: {error.strerror or error}", 2) from None
        if not file.spans:
            raise CommandError(_nothing(path, file), 2)
        found = traces(file.spans)
        if arguments.trace:
            found = _chosen(found, arguments.trace, path)
        write_traces(found, Terminal(sys.stdout), limit=None if arguments.trace else MOST_TRACES)
        sys.stdout.flush()
        write_problems(path, file)
        return 1 if file.problems else 0


def write_traces(found: Sequence[Trace], terminal: Terminal, *, limit: int | None) -> None:
    """Draw the traces in order of their start, an empty line between them; beyond `limit` only those that tell most."""
    drawn = found if limit is None or len(found) <= limit else _telling(found, limit)
    for index, trace in enumerate(drawn):
        if index:
            terminal.write([[("", Style.PLAIN)]])
        terminal.write(waterfall(trace, terminal.width))
    if len(drawn) < len(found):
        rest = [trace for trace in found if trace not in drawn]
        terminal.write([[("", Style.PLAIN)], *overview(rest, terminal.width)])


def write_problems(path: str, file: TraceFile) -> None:
    """Say on stderr what could not be read."""
    for problem in file.problems[:_MOST_PROBLEMS]:
        print(f"torchspan: {printable(path)}: {problem}", file=sys.stderr)
    more = len(file.problems) - _MOST_PROBLEMS
    if more > 0:
        print(f"torchspan: {printable(path)}: {more} more places that could not be read", file=sys.stderr)


def _telling(found: Sequence[Trace], limit: int) -> list[Trace]:
    """Those with an error or a compilation first, then the longest; in the order of their start."""

    def rank(trace: Trace) -> tuple[bool, bool, int]:
        spans = [node.span for node in trace.nodes()]
        is_kept = any(span.attributes.get(semconv.KEEP) is True for span in spans)
        return any(span.is_error for span in spans), is_kept, trace.end_ns - trace.start_ns

    chosen = sorted(found, key=rank, reverse=True)[:limit]
    return [trace for trace in found if trace in chosen]


def _chosen(found: Sequence[Trace], wanted: str, path: str) -> list[Trace]:
    chosen = [trace for trace in found if trace.trace_id.startswith(wanted.lower())]
    if chosen:
        return chosen
    ids = ", ".join(trace.trace_id for trace in found[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    raise CommandError(f"{printable(path)} has no trace {printable(wanted)}; it has {ids}{more}", 2)


def _nothing(path: str, file: TraceFile) -> str:
    name = printable(path)
    if file.problems:
        more = f" (and {len(file.problems) - 1} more)" if len(file.problems) > 1 else ""
        return f"nothing readable in {name}: {file.problems[0]}{more}"
    return f"{name} is empty" if Path(path).stat().st_size == 0 else f"{name} holds no spans"
