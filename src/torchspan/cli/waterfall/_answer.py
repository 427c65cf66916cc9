# SPDX-License-Identifier: Apache-2.0
"""What one of the answers under a waterfall is made of, and its lines in a given width."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchspan import phase
from torchspan.cli._terminal import Line, Style, cells, cut, pad
from torchspan.traces import Node

HEAD = 10
"""Columns in which an answer says what it answers."""

_JOINTS = ("/.,", "_")
"""After one of these a piece is broken that is longer than a line: the first group that it has."""

_WORD = re.compile(r"\d[\d.]* \S+|\S+")
"""A word, or a number with the word after it, which may be its unit."""


class Code(str):
    """A piece to copy: it is never broken, and a line with it alone may be wider than the terminal."""

    __slots__ = ()


@dataclass(frozen=True)
class Answer:
    """What it answers, and paragraphs, each of which starts on a line of its own.

    A paragraph consists of pieces with a space between them. A line is broken between pieces, and inside one only if
    the piece alone is longer than a line.

    Args:
        note: Added where it fits in the last line.
    """

    head: str
    paragraphs: tuple[tuple[str, ...], ...]
    note: str = ""
    style: Style = Style.PLAIN


class Why:
    """A reason class in words, and what would change it."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason = reason
        self.remedy = remedy


def words(text: str) -> tuple[str, ...]:
    """A paragraph that may be broken between any two words."""
    return tuple(text.split())


def listed(items: Iterable[str]) -> tuple[str, ...]:
    """A paragraph of items with commas between them, which is not broken inside an item."""
    pieces = list(items)
    return tuple(f"{piece}," if index < len(pieces) - 1 else piece for index, piece in enumerate(pieces))


def lines(answer: Answer, width: int) -> Iterator[Line]:
    """The lines of an answer, none of them wider than `width` columns unless it is `Code`."""
    room = max(width - HEAD, 1)
    texts = [text for paragraph in answer.paragraphs for text in _flowed(paragraph, room)]
    if texts and cells(texts[-1]) + cells(answer.note) <= room:
        texts[-1] += answer.note
    for index, text in enumerate(texts):
        yield [(pad(answer.head if index == 0 else "", HEAD), Style.STRONG), (text, answer.style)]


def _flowed(pieces: Iterable[str], room: int) -> Iterator[str]:
    line = ""
    for piece in pieces:
        if line and cells(line) + 1 + cells(piece) <= room:
            line += f" {piece}"
            continue
        if line:
            yield line
        *whole, line = [piece] if isinstance(piece, Code) else _pieces(piece, room)
        yield from whole
    if line:
        yield line


def _pieces(text: str, room: int) -> list[str]:
    """The text in pieces of at most `room` columns, broken between words, and inside one that is longer."""
    lines = [""]
    for word in _WORD.findall(text):
        together = f"{lines[-1]} {word}".lstrip()
        lines[-1:] = [together] if cells(together) <= room else [*filter(None, lines[-1:]), *_broken(word, room)]
    return lines


def _broken(text: str, room: int) -> list[str]:
    """The text in pieces of at most `room` columns, broken where a name has a joint if there is one."""
    pieces, start = [], 0
    while (end := cut(text, room, start)) < len(text):
        end = max(end, start + 1)
        end = next(filter(None, (_joint(text, start, end, group) for group in _JOINTS)), end)
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _joint(text: str, start: int, end: int, joints: str) -> int:
    """The position after the last of the joints between start and end; 0 without one."""
    return max(text.rfind(joint, start, end) for joint in joints) + 1


def settings_of(nodes: Iterable[Node]) -> dict[str, object]:
    """The attributes of the first compilation, its settings among them; empty without one."""
    return next((node.span.attributes for node in nodes if node.span.name == phase.COMPILE.name), {})
