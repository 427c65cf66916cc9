# SPDX-License-Identifier: Apache-2.0
"""What a command is, and how it fails."""

from __future__ import annotations

import argparse
from typing import Protocol


class CommandError(Exception):
    """Ends the command line with a message on stderr. `main` catches it.

    The message says what went wrong, where, and how to fix it.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Command(Protocol):
    """One word after `torchspan`: the module's name is the word, the class's docstring the help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare options and arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it and return the exit status. Raises CommandError.

        `arguments.rest` holds what stood behind the first `--` of `torchspan run`. It is None where there is none, and for the
        other commands.
        """
