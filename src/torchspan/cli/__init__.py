# SPDX-License-Identifier: Apache-2.0
"""The command line. Importing it imports neither torch nor a library that torchspan observes."""

from __future__ import annotations

import argparse
import errno
import inspect
import sys
from collections.abc import Sequence

from torchspan.base.version import __version__
from torchspan.cli import _stderr_lines as streams
from torchspan.cli._command import Command, CommandError
from torchspan.cli.compare import CompareCommand
from torchspan.cli.demo import DemoCommand
from torchspan.cli.doctor import DoctorCommand
from torchspan.cli.inputs import InputsCommand
from torchspan.cli.probes import ProbesCommand
from torchspan.cli.registry import RegistryCommand
from torchspan.cli.run import RunCommand
from torchspan.cli.show import ShowCommand
from torchspan.cli.watch import WatchCommand

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, Command] = {
    "run": RunCommand(),
    "watch": WatchCommand(),
    "show": ShowCommand(),
    "compare": CompareCommand(),
    "demo": DemoCommand(),
    "doctor": DoctorCommand(),
    "probes": ProbesCommand(),
    "inputs": InputsCommand(),
    "registry": RegistryCommand(),
}
"""Every command by its word, in the order of the help."""


_CANNOT_WRITE = (errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status (2: it was not understood, or nothing could be read)."""
    streams.replace_closed()
    words = list(sys.argv[1:] if argv is None else argv)
    rest: list[str] | None = None
    if words[:1] == ["run"] and "--" in words:
        # By hand: what argparse does with `--` before a remainder changed between the supported Python versions.
        position = words.index("--")
        words, rest = words[:position], words[position + 1 :]
    arguments = _parser(words)[0].parse_args(words)
    arguments.rest = rest
    try:
        status = COMMANDS[arguments.command].run(arguments)
        sys.stdout.flush()
    except CommandError as error:
        streams.say(f"torchspan {arguments.command}: {error}")
        status = error.exit_code
    except KeyboardInterrupt:
        status = 130  # what a shell reports for SIGINT
    except BrokenPipeError:
        status = 141  # what a shell reports for SIGPIPE: the reader (`head`) has seen enough
    except OSError as error:
        if error.errno not in _CANNOT_WRITE or error.filename is not None:
            raise
        streams.say(f"torchspan {arguments.command}: cannot write to standard output: {error.strerror}")
        status = 1
    streams.flush()
    return status


def _parser(words: Sequence[str]) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the command line, and the one of each command: with its options if it is among the words."""
    parser = argparse.ArgumentParser(
        prog="torchspan",
        description="Traces of torch.compile, Torch-TensorRT and TensorRT: where a compilation spends its time, why it happened again, and "
        "what fell back to PyTorch.",
    )
    parser.add_argument("--version", action="version", version=f"torchspan {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    parsers = {}
    for word, command in COMMANDS.items():
        text = inspect.getdoc(command) or ""
        parsers[word] = commands.add_parser(
            word,
            help=text.partition("\n")[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if word in words:
            command.add_arguments(parsers[word])
    return parser, parsers
