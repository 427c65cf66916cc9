# SPDX-License-Identifier: Apache-2.0
"""What one of the answers under a waterfall is made of, and its lines in a given width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torchspan import phase
from torchspan.answers.lines import Line, Paragraph, Style, cells, flowed, pad
from torchspan.traces import Node

HEAD = 10
"""Columns in which an answer says what it answers."""


@dataclass(frozen=True)
class Answer:
    """What it answers, and paragraphs, each of which starts on a line of its own.

    A paragraph consists of pieces with a space between them. A line is broken between pieces, and inside one only if
    the piece alone is longer than a line.

    Args:
        note: Added where it fits in the last line.
    """

    head: str
    paragraphs: tuple[Paragraph, ...]
    note: str = ""
    style: Style = Style.PLAIN


class Why(NamedTuple):
    """A reason class in words, and what would change it."""

    reason: str
    remedy: str


def words(text: str) -> Paragraph:
    """A paragraph that may be broken between any two words."""
    return tuple(text.split())


def listed(items: Iterable[str]) -> Paragraph:
    """A paragraph of items with commas between them, which is not broken inside an item."""
    pieces = list(items)
    return tuple(f"{piece}," if index < len(pieces) - 1 else piece for index, piece in enumerate(pieces))


def lines(answer: Answer, width: int) -> Iterator[Line]:
    """The lines of an answer, none of them wider than `width` columns unless it is `Code`."""
    room = width - HEAD
    texts = [text for paragraph in answer.paragraphs for text in flowed(paragraph, room)]
    if texts and cells(texts[-1]) + cells(answer.note) <= room:
        texts[-1] += answer.note
    for index, text in enumerate(texts):
        yield [(pad(answer.head if index == 0 else "", HEAD), Style.STRONG), (text, answer.style)]


def settings_of(nodes: Iterable[Node]) -> dict[str, object]:
    """The attributes of the first compilation, its settings among them; empty without one."""
    return next((node.span.attributes for node in nodes if node.span.name == phase.COMPILE.name), {})
