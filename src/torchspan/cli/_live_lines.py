# SPDX-License-Identifier: Apache-2.0
"""Lines that change: drawn again in place on a terminal, printed where they differ everywhere else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import TextIO

from torchspan.cli._terminal import Terminal
from torchspan.reading.answers.lines import shorten

_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"


class LiveLines:
    """Draws printable lines over those before, at the end of a terminal's output.

    No mode of the terminal is changed, and between two drawings the cursor is at the start of the row below the last
    line: whatever ends the process, SIGKILL too, the shell continues there. Colors are left out for the same reason.

    A terminal that becomes narrower breaks lines that it has drawn, or cuts them off, and does not say which. The cursor
    goes up by the number of lines, so that nothing above them is ever overwritten. Where lines were broken, their first
    rows stay above the new ones.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = Terminal(stream)
        self._rows = 0
        signal.signal(signal.SIGCONT, self._forget)  # the shell has written below the lines meanwhile

    def draw(self, lines: Sequence[tuple[str, str]]) -> None:
        """Draw figures with their texts, as many as the terminal has rows. In the background of a shell, draw nothing."""
        if _is_in_background(self._stream):
            self._forget()
            return
        columns, rows = os.get_terminal_size(self._stream.fileno())
        # A line of all columns would leave the cursor in a state in which terminals erase differently.
        width = (columns or 80) - 1
        texts = [self._terminal.plain(f"{figure:>9}  {text}") for figure, text in lines[: (rows or 24) - 1]]
        texts = [self._terminal.plain(shorten(text, width)) for text in texts]
        # Ctrl-Z waits: stopped in between, it would afterwards draw over what the shell has written.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        try:
            up = f"\x1b[{self._rows}A\r" if self._rows else ""
            self._write(up + "".join(f"{text}{_ERASE_LINE}\n" for text in texts) + _ERASE_BELOW)
            self._rows = len(texts)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})

    def leave(self) -> None:
        """Leave the lines where they are, and erase what the terminal has echoed below them, such as `^C`."""
        self._write(f"\r{_ERASE_BELOW}")

    def _forget(self, *_signal: object) -> None:
        self._rows = 0

    def _write(self, frame: str) -> None:
        self._stream.write(frame)
        self._stream.flush()


def _is_in_background(stream: TextIO) -> bool:
    try:
        return os.tcgetpgrp(stream.fileno()) != os.getpgrp()
    except OSError:  # the terminal of another session
        return False


class NewLines:
    """Prints the lines that were not among those before, with the time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = Terminal(stream)
        self._texts: set[str] = set()

    def draw(self, lines: Sequence[tuple[str, str]]) -> None:
        """Print texts that are new, with their figures."""
        for figure, text in lines:
            if text not in self._texts:
                line = f"{time.strftime('%H:%M:%S')} {figure:>9}  {text}"
                print(self._terminal.plain(line), file=self._stream, flush=True)
        self._texts = {text for _, text in lines}

    def leave(self) -> None:
        """Nothing is to be left."""
