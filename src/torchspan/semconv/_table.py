# SPDX-License-Identifier: Apache-2.0
"""What a row of the table of attributes is."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from torchspan.phase import Phase

if TYPE_CHECKING:
    from typing_extensions import Self

AttributeType = Literal["string", "int", "double", "boolean", "string[]", "int[]", "double[]"]


class Attribute(str):
    """One row: a key together with its type, its meaning and the phases whose spans may carry it.

    on: the phases. Empty means any span of torchspan, or a user's span (then `brief` says so).
    event: the span event that carries the key; where `on` names phases, their spans carry it as well.
    at_start: a sampler sees the value where it is known when the span starts.
    is_text: the value was written by a person or a library; it is redacted unless `TORCHSPAN_CAPTURE=text`.
    metric: measurements carry it and no span does.
    resource: resources carry it and no span does.
    """

    __slots__ = ("at_start", "brief", "event", "is_text", "metric", "on", "resource", "type")

    type: AttributeType
    brief: str
    on: tuple[Phase, ...]
    event: str | None
    at_start: bool
    is_text: bool
    metric: bool
    resource: bool

    def __new__(
        cls,
        key: str,
        type: AttributeType,  # noqa: A002 - the word of the OpenTelemetry registry
        brief: str,
        *on: Phase,
        event: str | None = None,
        at_start: bool = False,
        is_text: bool = False,
        metric: bool = False,
        resource: bool = False,
    ) -> Self:
        self = super().__new__(cls, key)
        self.type, self.brief, self.on, self.event, self.at_start = type, brief, on, event, at_start
        self.is_text, self.metric, self.resource = is_text, metric, resource
        return self


def folded(of: Phase, *, count: str, total: str, longest: str) -> tuple[Attribute, Attribute, Attribute]:
    """The rows of the keys that `of` declares for its work without a span; the briefs are given.

    Raises ValueError for a phase that declares none.
    """
    if of.folded is None:
        raise ValueError(f"{of.name} does not declare keys for folded work")
    return (
        Attribute(of.folded.number, "int", count),
        Attribute(of.folded.duration_sum, "double", total),
        Attribute(of.folded.duration_max, "double", longest),
    )


def rows(module: ModuleType) -> Iterator[Attribute]:
    """The rows that a module of the table defines, in its order, those in its dictionaries and tuples included."""
    for value in vars(module).values():
        if isinstance(value, Attribute):
            yield value
        elif isinstance(value, dict):
            yield from (each for each in value.values() if isinstance(each, Attribute))
