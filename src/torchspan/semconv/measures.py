# SPDX-License-Identifier: Apache-2.0
"""What a metric measures, and what a row of the table of metrics is.

A measure says which events a metric is taken from and what is read there. The metric writer knows the kinds of
measures; which phases and attributes they concern is said by the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torchspan.phase import Phase
from torchspan.semconv._table import Attribute
from torchspan.semconv._values import Enumeration

if TYPE_CHECKING:
    from typing_extensions import Self

Instrument = Literal["histogram", "counter", "observable_up_down_counter", "observable_gauge", "gauge"]


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
    """The value of `key` on each event of the phases that has it.

    Of events of these phases inside each other the outermost counts: it describes the same thing.
    """

    instrument: ClassVar[Instrument] = "histogram"
    of: tuple[Phase, ...]
    key: Attribute


@dataclass(frozen=True, slots=True)
class Count:
    """Events of the phases that have `key`; of events inside each other the outermost counts, as with `Size`."""

    instrument: ClassVar[Instrument] = "counter"
    of: tuple[Phase, ...]
    key: Attribute


@dataclass(frozen=True, slots=True)
class Rows:
    """The numbers in a list, each with its class from a parallel list as the attribute `by`.

    Of events of the phases inside each other the outermost counts, as with `Size`.

    lists: pairs of keys, classes and numbers; the first pair that an event has is read.
    """

    instrument: ClassVar[Instrument] = "counter"
    of: tuple[Phase, ...]
    lists: tuple[tuple[Attribute, Attribute], ...]
    by: Attribute


@dataclass(frozen=True, slots=True)
class Total:
    """A number that only rises and that another part of torchspan keeps; it is read when a reader collects."""

    instrument: ClassVar[Instrument] = "counter"
    of: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class Gathered:
    """Values that another part of torchspan gathers; they are read when a reader collects."""

    instrument: ClassVar[Instrument] = "histogram"
    of: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """A value that another part of torchspan has at the moment; it is read when a reader collects."""

    instrument: ClassVar[Instrument] = "gauge"
    of: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """How much long work is running; it is read when a reader collects."""

    instrument: ClassVar[Instrument] = "observable_up_down_counter"
    of: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class LongestRunning:
    """Seconds for which the longest of the long work that is running has been; it is read when a reader collects."""

    instrument: ClassVar[Instrument] = "observable_gauge"
    of: tuple[Phase, ...] = ()


Measure = Duration | RunDuration | Size | Count | Rows | Total | Gathered | Level | Running | LongestRunning


class Metric(str):
    """One row: a metric's name with its unit (UCUM), its meaning and what it measures.

    attributes: all that its measurements carry. They are bounded: never a model, an engine or a shape.
    open_attributes: those of which the program can make values.
    bounds: the upper bounds of a histogram's buckets, in its unit; a view in the program replaces them.
    """

    __slots__ = ("attributes", "bounds", "brief", "measure", "open_attributes", "unit")

    unit: str
    brief: str
    attributes: tuple[Attribute, ...]
    measure: Measure
    bounds: tuple[float, ...]
    open_attributes: tuple[Attribute, ...]

    def __new__(
        cls,
        name: str,
        unit: str,
        brief: str,
        *attributes: Attribute,
        measure: Measure,
        bounds: Iterable[float] = (),
    ) -> Self:
        self = super().__new__(cls, name)
        self.unit, self.brief, self.attributes, self.measure = unit, brief, attributes, measure
        self.bounds = tuple(bounds)
        self.open_attributes = tuple(
            each for each in attributes if each.kind is not None and not isinstance(each.kind, Enumeration)
        )
        return self

    @property
    def instrument(self) -> Instrument:
        """The instrument that its measure needs."""
        return self.measure.instrument
