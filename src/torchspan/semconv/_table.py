# SPDX-License-Identifier: Apache-2.0
"""The class of a row in the table of attributes."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from torchspan.phase import Phase
from torchspan.redaction.kinds_of_text import Kind

if TYPE_CHECKING:
    from typing_extensions import Self

AttributeType = Literal["string", "int", "double", "boolean", "string[]", "int[]", "double[]"]


class Attribute(str):
    """One row: a key together with its type, its meaning and the phases whose spans may carry it.

    Raises ValueError for a row of strings without a kind, and for another row with one.

    Attributes:
        on: The phases. Empty means any span of torchspan, or a user's span (`brief` then mentions the user's spans).
        events: The span events that carry the key. If `on` contains phases, their spans carry it as well.
        kind: What its strings may contain. Required for rows of strings, not allowed for other rows.
        at_start: A sampler sees the value if it is known when the span starts.
        metric: Only measurements carry the key, no span does.
        resource: Resources carry the key, and spans only if `on` contains their phases.
        stable: The key, its type and its meaning do not change: see docs/reference/stability.md. Otherwise the key is
            in development.
    """

    __slots__ = ("at_start", "brief", "events", "kind", "metric", "on", "resource", "stable", "type")

    type: AttributeType
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
        type: AttributeType,  # noqa: A002 - the word of the OpenTelemetry registry
        brief: str,
        *on: Phase,
        event: str | tuple[str, ...] = (),
        kind: Kind | None = None,
        at_start: bool = False,
        metric: bool = False,
        resource: bool = False,
        stable: bool = False,
    ) -> Self:
        if (kind is not None) != type.startswith("string"):
            raise ValueError(
                f"{key} has the type {type}: {'pass the kind of its strings' if kind is None else 'it takes no kind'}"
            )
        self = super().__new__(cls, key)
        self.type, self.brief, self.on, self.at_start = type, brief, on, at_start
        self.events = (event,) if isinstance(event, str) else event
        self.kind, self.metric, self.resource, self.stable = kind, metric, resource, stable
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
