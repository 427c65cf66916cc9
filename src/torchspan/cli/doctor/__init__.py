# SPDX-License-Identifier: Apache-2.0
"""`torchspan doctor`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from torchspan.cli._terminal import Terminal
from torchspan.cli.doctor._check import Check, Context

if TYPE_CHECKING:
    from torchspan.cli.doctor._check import CheckFunction


def checks() -> tuple[CheckFunction, ...]:
    """Every check, in the order of their rows: what is missing comes first."""
    from torchspan.cli.doctor._packages import configurator, sdk

    return (sdk, configurator)


class DoctorCommand:
    """Say whether traces of a program started here would arrive, and what to do if not.

    Looks at what is installed, at the environment variables and at what they name. Changes nothing, and imports none of
    the observed libraries. Never prints credentials. Exit status 1: something that was asked for cannot work.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print JSON (described in docs/doctor.md)")

    def run(self, arguments: argparse.Namespace) -> int:
        from torchspan.cli.doctor import _report as report

        context = Context(os.environ)
        found: list[Check] = []
        if arguments.json:
            found.extend(report.rows(checks(), context))
            print(report.document(found))
            return report.exit_status(found)
        terminal = Terminal(sys.stdout)
        # A row is written once it is there: some checks wait for an answer.
        terminal.write(report.lines(_kept(report.rows(checks(), context), found), terminal.width))
        return report.exit_status(found)


def _kept(rows: Iterable[Check], found: list[Check]) -> Iterator[Check]:
    for row in rows:
        found.append(row)
        yield row
