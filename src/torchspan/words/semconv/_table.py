# SPDX-License-Identifier: Apache-2.0
"""The class of a row in the table of attributes."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from torchspan.words.phase import Phase
from torchspan.words.redaction.kinds_of_text import Kind

if TYPE_CHECKING:
    from typing_extensions import Self

RowType = Literal["int", "double", "boolean", "int[]", "double[]"] | Kind | list[Kind]
"""What a row has: numbers, or what its strings may contain; in brackets for a list of strings."""


class Attribute(str):
    """One row: a key together with its type, its meaning and the phases whose spans may carry it.

    Attributes:
        type: In the words of OpenTelemetry's registry. A row is written with the kind of its strings in place of
            `string`: `Identifier()`, and `[Identifier()]` for `string[]`.
        on: The phases. Empty means any span of torchspan, or a user's span (`brief` then mentions the user's spans).
        events: The span events that carry the key. If `on` contains phases, their spans carry it as well.
        kind: What its strings may contain; None for other types.
        at_start: A sampler sees the value if it is known when the span starts.
        metric: Only measurements carry the key, no span does.
        resource: Resources carry the key, and spans only if `on` contains their phases.
        stable: The key, its type and its meaning do not change: see docs/reference/stability.md. Otherwise the key is
            in development.
    """

    __slots__ = ("at_start", "brief", "events", "kind", "metric", "on", "resource", "stable", "type")

    type: str
    brief: str
    on: tuple[Phase, ...]
    events: tuple[str, ...]
    kind: Kind | None
    at_start: bool
    metric: bool
    resource: bool
    stable: bool

    def __new__(
        cls,
        key: str,
        type: RowType,  # noqa: A002 - the word of the OpenTelemetry registry
        brief: str,
        *on: Phase,
        event: str | tuple[str, ...] = (),
        at_start: bool = False,
        metric: bool = False,
        resource: bool = False,
        stable: bool = False,
    ) -> Self:
        self = super().__new__(cls, key)
        if isinstance(type, Kind):
            self.type, self.kind = "string", type
        elif isinstance(type, list):
            self.type, (self.kind,) = "string[]", type
        else:
            self.type, self.kind = type, None
        self.events = (event,) if isinstance(event, str) else event
        self.brief, self.on, self.at_start = brief, on, at_start
        self.metric, self.resource, self.stable = metric, resource, stable
        return self


def folded(
    of: Phase, *, count: str, total: str, longest: str, stable: bool = False
) -> tuple[Attribute, Attribute, Attribute]:
    """The rows of the keys that `of` declares for its work without a span. `count`, `total`, `longest`: their briefs.

    Raises ValueError for a phase that declares no such keys.
    """
    if of.folded is None:
        raise ValueError(f"{of.name} does not declare keys for folded work")
    return (
        Attribute(of.folded.number, "int", count, stable=stable),
        Attribute(of.folded.duration_sum, "double", total, stable=stable),
        Attribute(of.folded.duration_max, "double", longest, stable=stable),
    )


def rows(module: ModuleType) -> Iterator[Attribute]:
    """The rows that a module of the table defines, in the module's order, including those in its dictionaries."""
    for value in vars(module).values():
        if isinstance(value, Attribute):
            yield value
        elif isinstance(value, dict):
            yield from (attribute for attribute in value.values() if isinstance(attribute, Attribute))
