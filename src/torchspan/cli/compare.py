# SPDX-License-Identifier: Apache-2.0
"""`torchspan compare`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torchspan.cli._command import CommandError
from torchspan.cli._redacted_copy import HELP
from torchspan.cli._terminal import Terminal
from torchspan.reading.answers.lines import Style, printable

if TYPE_CHECKING:
    from torchspan.reading.comparison import Comparison

_USAGE = 2


class CompareCommand:
    """Compare two recorded programs: where the time of torch.compile and Torch-TensorRT differs, and what else has changed.

    torchspan compare BASE NEW

    A side is a file of `torchspan run`, or a folder whose files are runs of one program. Work is paired by what it is:
    compilations by model, entry and inputs, functions by name and line, engines by operators and input shapes. With
    4 runs a side or more, each time has the p of Mann and Whitney's exact test after Holm's correction; `~` marks what
    chance may have made. With fewer runs, times are shown and never judged.

    Exit status 1: a gate of --fail-on or --fail-above was crossed, which the first line names; 2: nothing could be
    compared, or there are too few runs for a limit on time.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("base", metavar="BASE", help="a file, or a folder whose files are runs of one program")
        parser.add_argument("new", metavar="NEW", help="the file or folder to compare with it")
        parser.add_argument(
            "--fail-on",
            metavar="GATES",
            default="",
            help="fail if NEW is worse in one of these, separated by commas: fallback, coverage, cache, recompiles, breaks, "
            "errors; or has another set of engines: engines",
        )
        parser.add_argument(
            "--fail-above",
            metavar="[STAGE=]RATE",
            action="append",
            default=[],
            help="fail if a compilation, or a stage of it with everything inside, takes longer by more than RATE, such as "
            "10%% or convert=10%%: if all of the 95 %% interval of the ratio lies above it; may be given several times",
        )
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print one JSON document, torchspan.comparison/1")
        form.add_argument("--markdown", action="store_true", help="print Markdown, for a comment; at most 60 lines")
        parser.add_argument("--text", action="store_true", help=HELP)

    def run(self, arguments: argparse.Namespace) -> int:
        from torchspan.reading.comparison import ComparisonError, compare
        from torchspan.reading.comparison._gates import crossed_rules, crossed_thresholds

        gates, limits = _gates(arguments.fail_on), _limits(arguments.fail_above)
        try:
            comparison = compare(arguments.base, arguments.new, texts=arguments.text)
            crossed = [*crossed_rules(comparison, gates), *crossed_thresholds(comparison, limits)]
        except ComparisonError as error:
            raise CommandError(printable(str(error)), _USAGE) from None
        except OSError as error:
            name = printable(str(error.filename or arguments.base))
            raise CommandError(f"cannot read {name}: {error.strerror or error}", _USAGE) from None
        _write(comparison, crossed, arguments)
        return 1 if crossed else 0


def _gates(text: str) -> list[str]:
    """The gates that an option names. Raises CommandError for a word that is none."""
    from torchspan.reading.comparison._gates import GATES

    gates = [gate.strip() for gate in text.split(",") if gate.strip()]
    for gate in gates:
        if gate not in GATES:
            raise CommandError(f"--fail-on: no gate {printable(gate)}; the gates are {', '.join(GATES)}", _USAGE)
    return gates


def _limits(texts: Sequence[str]) -> Mapping[str, float]:
    """The limits that options name, by stage. Raises CommandError for a rate that is none."""
    limits = {}
    for text in texts:
        stage, _, rate = text.rpartition("=")
        try:
            percent = float(rate.removesuffix("%"))
        except ValueError:
            percent = -1
        if not (rate.endswith("%") and 0 <= percent < 1e6):
            raise CommandError(
                f"--fail-above: {printable(text)} has no rate; expected 10%, or a stage and a rate: convert=10%", _USAGE
            )
        limits[stage] = percent / 100
    return limits


def _write(comparison: Comparison, crossed: Sequence[str], arguments: argparse.Namespace) -> None:
    from torchspan.reading.comparison._sentences import flowed_lines, lines

    if arguments.json:
        print(json.dumps({**comparison.document(), "crossed": list(crossed)}, indent=2))
    elif arguments.markdown:
        from torchspan.reading.views import comparison_markdown

        print(comparison_markdown(comparison, crossed), end="")
    else:
        terminal = Terminal(sys.stdout)
        failed = ((f"crossed {text}", Style.ERROR) for text in crossed)
        terminal.write(flowed_lines(failed, terminal.width, terminal.encoding))
        terminal.write(lines(comparison, terminal.width, terminal.encoding))
    sys.stdout.flush()
