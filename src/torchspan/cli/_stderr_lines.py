# SPDX-License-Identifier: Apache-2.0
"""Standard output and standard error that may be closed, full or a pipe without a reader."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import TextIO, cast


class _ClosedStream(io.TextIOBase):
    """Stands for a stream that the caller has closed (`>&-`): each writing fails as on the closed descriptor."""

    def write(self, _text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def replace_closed() -> None:
    """Give the process a stream object for each of the two that the caller has closed.

    Python has None there, to which `print` writes nothing and for which it takes the other stream.
    """
    if sys.stdout is None:
        sys.stdout = cast("TextIO", _ClosedStream())
    if sys.stderr is None:
        sys.stderr = cast("TextIO", _ClosedStream())


def say(message: str) -> None:
    """Write one line to stderr, if it can be written."""
    with contextlib.suppress(OSError, ValueError):
        print(message, file=sys.stderr, flush=True)


def flush() -> None:
    """Write out what is buffered. Where that fails, throw it away: the interpreter would fail at its exit again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _silence(stream)


def _silence(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
