# SPDX-License-Identifier: Apache-2.0
"""Lines as pieces of text with the names of their styles, measured in columns of a terminal. Nothing here knows a terminal."""

from __future__ import annotations

import enum
import functools
import re
import unicodedata
from collections.abc import Iterator

_UNSEEN = re.compile("[\u115f-\u11ff\u2800\u3164\ud7b0-\ud7ff\uffa0\U0001d159\U00013441\U00013442]")
"""What `str.isprintable` accepts and a terminal draws as nothing or into the character before it.

Fillers and the parts of Hangul syllables that follow the first, the empty Braille pattern, an empty note head, empty
hieroglyphs. Marks (categories Mn, Mc and Me) are looked up.
"""


ASCII = str.maketrans("├└│─█░▏·…\N{MULTIPLICATION SIGN}→≥µ▁▂▃▄▅▆▇", "|`|-#:|-~x>>u.,:;=+*")
"""What stands for the characters that lines are drawn with, where an encoding lacks one of them. Each is as wide."""


class Style(enum.Enum):
    """The role of a piece of a line."""

    PLAIN = "plain"
    DIM = "dim"
    STRONG = "strong"
    BAR = "bar"
    STAND_IN = "stand_in"
    FALLBACK = "fallback"
    ERROR = "error"


Line = list[tuple[str, Style]]
"""One line as pieces of text with their roles, without a newline."""

Paragraph = tuple[str, ...]
"""Text in pieces with a space between them. A line is broken between pieces, and inside one only if it alone is too long."""


class Code(str):
    """A piece to copy: it is never broken, and a line with it alone may be wider than the terminal."""

    __slots__ = ()


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""The text with everything written out that could act on a terminal, or that is not seen as a character.

    Control characters, escape sequences, line breaks, direction marks, lone surrogates, marks that combine with the
    character before them and characters without a glyph read `\x1b`, `\u202e`, `\u0301`; so does what the encoding lacks,
    but for the characters of `ASCII`.
    """
    if is_printable(text, encoding):
        return text
    return "".join(char if _is_seen(char, encoding) else ascii(char)[1:-1] for char in text)


def is_printable(text: str, encoding: str = "utf-8") -> bool:
    """Whether `printable` leaves the text as it is."""
    return text.isprintable() and (text.isascii() or all(_is_seen(char, encoding) for char in text))


def can_encode(text: str, encoding: str) -> bool:
    """Whether the encoding has every character of the text."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@functools.lru_cache(maxsize=4096)
def _is_seen(char: str, encoding: str) -> bool:
    if char.isascii() or not char.isprintable():
        return char.isprintable()
    is_drawn = unicodedata.category(char)[0] != "M" and _UNSEEN.match(char) is None
    return is_drawn and (ord(char) in ASCII or can_encode(char, encoding))


def cells(text: str) -> int:
    """Columns that a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_cells(char) for char in text)


def _char_cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """At most `width` columns of the text: start and end, with `…` for the middle."""
    if cells(text) <= width:
        return text
    keep = max(width - 1, 0)
    front = text[: cut(text, keep - keep // 2)]
    back = text[::-1][: cut(text[::-1], keep // 2)][::-1]
    return f"{front}…{back}" if width > 0 else ""


def cut(text: str, width: int, start: int = 0) -> int:
    """The position up to which the text from `start` on takes at most `width` columns."""
    taken = 0
    for position in range(start, len(text)):
        taken += _char_cells(text[position])
        if taken > width:
            return position
    return len(text)


def broken(text: str, width: int) -> list[str]:
    """The text in pieces of at most `width` columns, broken between words where that is possible.

    A number stays with the word after it, which may be its unit.
    """
    pieces, start = [], 0
    while (end := cut(text, width, start)) < len(text):
        space = text.rfind(" ", start + 1, end + 1)
        before = text.rfind(" ", start + 1, space) if space > 0 and text[space - 1].isdigit() else -1
        end = before if before > 0 else space if space > 0 else end
        pieces.append(text[start:end])
        start = end
        while text.startswith(" ", start):
            start += 1
    return [*pieces, text[start:]]


def pad(text: str, width: int) -> str:
    """The text with spaces up to `width` columns."""
    return text + " " * (width - cells(text))


def flowed(pieces: Paragraph, room: int) -> Iterator[str]:
    """The lines of a paragraph, at most `room` columns wide unless a line is `Code`."""
    line = ""
    for piece in pieces:
        if line and cells(line) + 1 + cells(piece) <= room:
            line += f" {piece}"
            continue
        if line:
            yield line
        *whole, line = [piece] if isinstance(piece, Code) else broken(piece, room)
        yield from whole
    if line:
        yield line
