# SPDX-License-Identifier: Apache-2.0
"""`torchspan doctor`."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from typing import TYPE_CHECKING

from torchspan.cli._terminal import Terminal
from torchspan.cli.doctor._check import Context

if TYPE_CHECKING:
    from torchspan.cli.doctor._check import CheckFunction


def checks() -> tuple[CheckFunction, ...]:
    """Every check, in the order of their rows: what is missing comes first."""
    from torchspan.cli.doctor import _endpoints, _exporters, _packages, _switches

    return (
        _packages.sdk,
        _packages.configurator,
        _switches.instrumentation,
        _switches.disabled,
        _switches.file,
        _packages.python,
        _packages.libraries,
        _packages.torch_compile,
        _packages.operators,
        _switches.sampler,
        _switches.id_generator,
        _switches.settings,
        _switches.unknown,
        _exporters.installed,
        _endpoints.set_up,
        _endpoints.reachable,
        _exporters.writable,
        _packages.ddtrace,
        _endpoints.sent,
    )


class DoctorCommand:
    """Check whether traces of a program started here would arrive, and what to do if not.

    The program may use torch.compile, torch.export, Torch-TensorRT or TensorRT.

    Checks what is installed, the environment variables and what they name, as a program that is started here would see
    them. Prints what needs a look and what to do; with --all, every check. Changes nothing, and imports no observed
    library. Never prints credentials.
    Exit status 1: something that was requested cannot work.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="also list what is as it should be, notes and settings")
        parser.add_argument("--json", action="store_true", help="print JSON (described in docs/reference/doctor.md)")
        parser.add_argument(
            "--send",
            action="store_true",
            help="send one test trace with the configuration that a program would have",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        from torchspan.cli.doctor import _printed as report

        context = Context(os.environ, send=arguments.send)
        # A row is written once it is there: some checks wait for an answer.
        rows, again = itertools.tee(report.rows(checks(), context))
        if arguments.json:
            print(report.document(rows))
        else:
            terminal = Terminal(sys.stdout)
            terminal.write(report.lines(rows, terminal.width, terminal.encoding, lists_all=arguments.all))
        return report.exit_status(again)
