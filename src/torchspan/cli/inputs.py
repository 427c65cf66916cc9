# SPDX-License-Identifier: Apache-2.0
"""`torchspan inputs`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchspan.cli import _stderr_lines as streams
from torchspan.cli._command import CommandError
from torchspan.cli._terminal import Terminal
from torchspan.reading.answers.lines import Style, printable

if TYPE_CHECKING:
    from torchspan.inputs.port import Document, Record


class InputsCommand:
    """Show what models were called with.

    torchspan inputs FILE...

    Reads files that `torchspan run --observe-inputs` and `InputObserver.to_json` write. Calls of one method in several files
    are merged, as if one process had observed them all. A row of the table is a dimension of a tensor: its smallest, its most
    frequent and its largest size, the number of distinct sizes, and how the calls are spread over them.

    Exit status 1: --torch-tensorrt cannot print the text for one of the methods, and stderr has the reason; 2: a file cannot
    be read.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", metavar="FILE", nargs="+")
        parser.add_argument(
            "--torch-tensorrt",
            action="store_true",
            help="print Python code instead: torch_tensorrt.Input objects with the ranges of the calls",
        )
        parser.add_argument("--output", metavar="FILE", help="also write the merged calls to FILE")

    def run(self, arguments: argparse.Namespace) -> int:
        from torchspan.inputs.port import Document, merging

        documents = [_read(file) for file in arguments.files]
        reports = merging.grouped([observation for document in documents for observation in document.observations])
        if not reports:
            raise CommandError(_nothing(arguments.files, documents), 2)
        if arguments.output:
            _write(Document(reports), arguments.output, arguments.files)
        return _print_texts(reports) if arguments.torch_tensorrt else _print_reports(reports)


def _nothing(files: Sequence[str], documents: Sequence[Document]) -> str:
    """The message about files without calls, with the reasons that they contain."""
    reasons = dict.fromkeys(f"{path}: {why}" for document in documents for path, why in document.unseen.items())
    why = "; ".join(reasons) or "the observed model was not called"
    return printable(f"no calls were observed in {', '.join(files)} ({why})")


def _print_reports(reports: Sequence[Record]) -> int:
    from torchspan.inputs.port import InputObserver

    terminal = Terminal(sys.stdout)
    for index, report in enumerate(reports):
        text = ("\n" if index else "") + InputObserver._of(report).report(terminal.width)
        terminal.write([(printable(line), Style.PLAIN)] for line in text.splitlines())
    return 0


def _print_texts(reports: Sequence[Record]) -> int:
    """The text for each method, below a comment with its name."""
    from torchspan.inputs.port import InputObserver, documents

    status = 0
    for report in reports:
        try:
            text = InputObserver._of(report).infer_profile().to_python()
        except RuntimeError as error:
            streams.say(f"torchspan inputs: {printable(documents.title(report))}: {printable(str(error))}")
            status = 1
        else:
            Terminal(sys.stdout).write(
                [(printable(line), Style.PLAIN)] for line in (f"# {documents.title(report)}", *text.splitlines())
            )
    return status


def _read(file: str) -> Document:
    from torchspan.inputs.port import documents

    try:
        return documents.read(file)
    except documents.InputFileError as error:
        raise CommandError(printable(str(error)), 2) from None
    except OSError as error:
        raise CommandError(f"cannot read {printable(file)}: {error.strerror or error}", 2) from None


def _write(document: Document, file: str, inputs: Sequence[str]) -> None:
    from torchspan.inputs.port import documents

    try:
        documents.write(document, file, inputs)
    except OSError as error:
        raise CommandError(
            f"cannot write {printable(file)}: {error.strerror or error}; name another file: --output <file>", 2
        ) from None
