# SPDX-License-Identifier: Apache-2.0
"""The measures of metrics, and the class of a row in the table of metrics.

A measure defines from which events a metric is taken and what is read from them. The metric writer knows only the kinds
of measures; the rows define which phases and attributes they concern.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torchspan.phase import Phase
from torchspan.redaction.kinds_of_text import Enumeration
from torchspan.semconv._table import Attribute

if TYPE_CHECKING:
    from typing_extensions import Self

Instrument = Literal["histogram", "counter", "observable_up_down_counter", "observable_gauge"]


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds of every event of the phases, failed ones included."""

    instrument: ClassVar[Instrument] = "histogram"
    of: tuple[Phase, ...]


@dataclass(frozen=True, slots=True)
class RunDuration:
    """Seconds of every run of one rate-limited phase, whether or not the run is an event."""

    instrument: ClassVar[Instrument] = "histogram"
    of: tuple[Phase]


@dataclass(frozen=True, slots=True)
class Size:
    """The value of `key` on each event of the phases that has the key.

    If events of these phases are nested, only the outermost counts, because the inner ones describe the same thing.
    """

    instrument: ClassVar[Instrument] = "histogram"
    of: tuple[Phase, ...]
    key: Attribute


@dataclass(frozen=True, slots=True)
class Count:
    """Number of events of the phases that have `key`. Of nested events only the outermost counts, as with `Size`."""

    instrument: ClassVar[Instrument] = "counter"
    of: tuple[Phase, ...]
    key: Attribute


@dataclass(frozen=True, slots=True)
class Rows:
    """The numbers in a list, each with its class from a parallel list as the attribute `by`.

    If events of the phases are nested, only the outermost counts, as with `Size`.

    Args:
        lists: Pairs of keys, of the classes and of the numbers. The first pair that an event has is read.
    """

    instrument: ClassVar[Instrument] = "counter"
    of: tuple[Phase, ...]
    lists: tuple[tuple[Attribute, Attribute], ...]
    by: Attribute


@dataclass(frozen=True, slots=True)
class Total:
    """A number that only increases, kept by another part of torchspan and read when a metric reader collects."""

    instrument: ClassVar[Instrument] = "counter"
    of: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class Gathered:
    """Values that another part of torchspan gathers. They are read when a metric reader collects."""

    instrument: ClassVar[Instrument] = "histogram"
    of: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class RunningWork:
    """Number of outermost events of the phases that are running, read when a metric reader collects.

    Nothing is measured before the first such event of the process.
    """

    instrument: ClassVar[Instrument] = "observable_up_down_counter"
    of: tuple[Phase, ...]


@dataclass(frozen=True, slots=True)
class LongestRunning:
    """Seconds for which the longest-running event of the phases has been running, read as `RunningWork` is."""

    instrument: ClassVar[Instrument] = "observable_gauge"
    of: tuple[Phase, ...]


Measure = Duration | RunDuration | Size | Count | Rows | Total | Gathered | RunningWork | LongestRunning


class Metric(str):
    """One row: a metric's name with its unit (UCUM), its meaning and what it measures.

    Attributes:
        attributes: All attributes that its measurements carry. The number of their values is bounded.
        open_attributes: The attributes whose values the program can choose.
        bounds: The upper bounds of a histogram's buckets, in its unit. A view in the program overrides them.
        stable: The name, unit, instrument and attributes do not change, as with `Attribute`.
    """

    __slots__ = ("attributes", "bounds", "brief", "measure", "open_attributes", "stable", "unit")

    unit: str
    brief: str
    attributes: tuple[Attribute, ...]
    measure: Measure
    bounds: tuple[float, ...]
    open_attributes: tuple[Attribute, ...]
    stable: bool

    def __new__(
        cls,
        name: str,
        unit: str,
        brief: str,
        *attributes: Attribute,
        measure: Measure,
        bounds: Iterable[float] = (),
        stable: bool = False,
    ) -> Self:
        self = super().__new__(cls, name)
        self.unit, self.brief, self.attributes, self.measure = unit, brief, attributes, measure
        self.bounds, self.stable = tuple(bounds), stable
        self.open_attributes = tuple(
            attribute
            for attribute in attributes
            if attribute.kind is not None and not isinstance(attribute.kind, Enumeration)
        )
        return self

    @property
    def instrument(self) -> Instrument:
        """The instrument that its measure needs."""
        return self.measure.instrument
