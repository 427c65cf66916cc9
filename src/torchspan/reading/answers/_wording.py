# SPDX-License-Identifier: Apache-2.0
"""Pieces of sentences that several answers share."""

from __future__ import annotations

from collections.abc import Iterable

from torchspan.reading.answers.lines import Paragraph
from torchspan.reading.traces import Attributes, Node
from torchspan.words import phase


def words(text: str) -> Paragraph:
    """A paragraph that may be broken between any two words."""
    return tuple(text.split())


def listed(items: Iterable[str]) -> Paragraph:
    """A paragraph of items with commas between them, which is not broken inside an item."""
    pieces = list(items)
    return tuple(f"{piece}," if index < len(pieces) - 1 else piece for index, piece in enumerate(pieces))


def settings_around(node: Node | None) -> Attributes:
    """The attributes of the compilation that the node is, or is part of, its settings among them; empty without one."""
    while node is not None and node.span.name != phase.COMPILE.name:
        node = node.parent
    return {} if node is None else node.span.attributes
