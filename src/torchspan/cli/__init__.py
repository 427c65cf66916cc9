# SPDX-License-Identifier: Apache-2.0
"""The command line. Importing it imports neither torch nor a library that torchspan observes."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Sequence

from torchspan._version import __version__
from torchspan.cli._command import Command, CommandError
from torchspan.cli.demo import DemoCommand
from torchspan.cli.probes import ProbesCommand
from torchspan.cli.run import RunCommand
from torchspan.cli.show import ShowCommand

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, Command] = {
    "run": RunCommand(),
    "show": ShowCommand(),
    "demo": DemoCommand(),
    "probes": ProbesCommand(),
}
"""Every command by its word, in the order of the help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status (2: it was not understood, or nothing could be read)."""
    words = list(sys.argv[1:] if argv is None else argv)
    rest: list[str] | None = None
    if "--" in words:
        # By hand: what argparse does with `--` before a remainder changed between the supported Python versions.
        position = words.index("--")
        words, rest = words[:position], words[position + 1 :]
    arguments = _parser().parse_args(words)
    arguments.rest = rest
    try:
        return COMMANDS[arguments.command].run(arguments)
    except CommandError as error:
        print(f"torchspan {arguments.command}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130  # what a shell reports for SIGINT
    except BrokenPipeError:
        # The reader (`head`) has seen enough. The interpreter would complain about the flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # what a shell reports for SIGPIPE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchspan",
        description="Traces of Torch-TensorRT: where a compilation spends its time, what fell back and why.",
    )
    parser.add_argument("--version", action="version", version=f"torchspan {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for word, command in COMMANDS.items():
        text = inspect.getdoc(command) or ""
        command.add_arguments(
            commands.add_parser(
                word,
                help=text.partition("\n")[0],
                description=text,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return parser
