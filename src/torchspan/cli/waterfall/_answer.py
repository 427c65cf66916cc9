# SPDX-License-Identifier: Apache-2.0
"""What one of the lines under a waterfall is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchspan import phase
from torchspan.cli._terminal import Style
from torchspan.traces import Node


@dataclass(frozen=True)
class Part:
    """A name that may be shortened and a number that may not."""

    name: str
    number: str = ""


@dataclass(frozen=True)
class Answer:
    """One line: what it answers, the parts in order of weight, and a text after them.

    omitted: noun for parts that find no room, so that they are counted instead of shown; None: all are shown.
    note: said where there is room for it.
    """

    head: str
    parts: tuple[Part, ...]
    tail: str = ""
    omitted: tuple[str, str] | None = None
    note: str = ""
    style: Style = Style.PLAIN


class Why:
    """A reason class in words, and what would change it."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason = reason
        self.remedy = remedy


def settings_of(nodes: Iterable[Node]) -> dict[str, object]:
    """The attributes of the first compilation, its settings among them; empty without one."""
    return next((node.span.attributes for node in nodes if node.span.name == phase.COMPILE.name), {})
