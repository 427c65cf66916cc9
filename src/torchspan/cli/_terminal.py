# SPDX-License-Identifier: Apache-2.0
"""Styled lines on a terminal, plain ones everywhere else.

rich is optional and gives the colors alone: lines are measured and broken here, so that they are the same with it,
without it and in a pipe. Text never passes through rich's markup: `[CONV]-[/x]` is a name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TextIO

from torchspan.reading.answers.lines import ASCII, Line, Style, can_encode

DEFAULT_WIDTH = 80
_NARROWEST, _WIDEST = 40, 200

_LOOKS = {
    Style.DIM: "dim",
    Style.STRONG: "bold",
    Style.BAR: "cyan",
    Style.STAND_IN: "dim cyan",
    Style.FALLBACK: "yellow",
    Style.ERROR: "bold red",
}
"""rich's names of how the styles look; the others look plain."""


class Terminal:
    """Writes lines to a stream, in the stream's encoding, with color where a person looks at it.

    What the encoding lacks is written out here at the latest. A text that is measured is written out before, with `encoding`.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = _console(stream)
        self.encoding = stream.encoding or "utf-8"
        self._is_ascii = not can_encode("├█…", self.encoding)
        self.width = _width(stream)

    def write(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._write(self._encodable(line))
        self._stream.flush()

    def plain(self, text: str) -> str:
        """The text as it is written where there is no color."""
        return self._encodable([(text, Style.PLAIN)])[0][0]

    def _encodable(self, line: Line) -> Line:
        if self._is_ascii:
            line = [(text.translate(ASCII), style) for text, style in line]
        return [(text.encode(self.encoding, "backslashreplace").decode(self.encoding), style) for text, style in line]

    def _write(self, line: Line) -> None:
        if self._console is None:
            self._stream.write("".join(text for text, _ in line).rstrip() + "\n")
            return
        from rich.text import Text

        text = Text.assemble(*((piece, _LOOKS.get(style, "")) for piece, style in line))
        self._console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)


def _console(stream: TextIO) -> Any:
    """A console of rich, or None where lines are to be plain: a pipe, NO_COLOR (https://no-color.org), no rich."""
    if os.environ.get("NO_COLOR"):
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    console = Console(file=stream)
    return console if console.is_terminal and console.color_system is not None else None


def _width(stream: TextIO) -> int:
    try:
        width = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        width = 0
    if width <= 0:
        try:
            width = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            width = DEFAULT_WIDTH
    return min(max(width or DEFAULT_WIDTH, _NARROWEST), _WIDEST)
