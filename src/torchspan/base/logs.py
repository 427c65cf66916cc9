# SPDX-License-Identifier: Apache-2.0
"""Loggers whose handlers cannot fail the program.

torchspan logs inside calls of the program. Handlers, filters and record factories are code of the program's, and what they
raise would come out of the call that torchspan observes.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any


class Log:
    """Logs like the `logging.Logger` of that name. An `Exception` on the way to the handlers loses the record, and nothing else.

    KeyboardInterrupt and SystemExit pass: they belong to the program.

    Args:
        names_itself: Without any handler Python prints the message alone. The message then begins with `torchspan` and
            the level.
    """

    def __init__(self, name: str, *, names_itself: bool = False) -> None:
        self._logger = logging.getLogger(name)
        self._names_itself = names_itself

    def debug(self, message: str, *args: Any, exc_info: Any = None) -> None:
        """Log at DEBUG."""
        self._write(logging.DEBUG, message, args, exc_info)

    def warning(self, message: str, *args: Any) -> None:
        """Log at WARNING."""
        self._write(logging.WARNING, message, args, None)

    def error(self, message: str, *args: Any) -> None:
        """Log at ERROR."""
        self._write(logging.ERROR, message, args, None)

    def log(self, level: int, message: str, *args: Any, exc_info: Any = None) -> None:
        """Log at `level`."""
        self._write(level, message, args, exc_info)

    def _write(self, level: int, message: str, args: tuple[Any, ...], exc_info: Any) -> None:
        with contextlib.suppress(Exception):
            if self._names_itself and not self._logger.hasHandlers():
                message = f"torchspan: {logging.getLevelName(level)}: {message}"
            self._logger.log(level, message, *args, exc_info=exc_info, stacklevel=3)  # the caller of `warning`
