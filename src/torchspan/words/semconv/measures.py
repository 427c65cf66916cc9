# SPDX-License-Identifier: Apache-2.0
"""The measures of metrics, and the class of a row in the table of metrics.

A measure defines from which events a metric is taken and what is read from them. The metric writer knows only the kinds
of measures; the rows define which phases and attributes they concern.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torchspan.words.phase import Phase
from torchspan.words.redaction.kinds_of_text import Enumeration
from torchspan.words.semconv._table import Attribute

if TYPE_CHECKING:
    from typing_extensions import Self

Instrument = Literal["histogram", "counter", "observable_up_down_counter", "observable_gauge"]


LONG_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""5 ms to 1 h: durations of compilations and their parts."""
SHORT_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""0.1 ms to 10 s: durations of runs, most of which take less than 5 ms."""


@dataclass(frozen=True)
class Measure:
    """What is measured.

    Attributes:
        instrument: The instrument that it needs.
        bounds: The upper bounds of a histogram's buckets, unless the metric has its own.
        of: The phases whose events are measured. Empty if another part of torchspan measures.
    """

    instrument: ClassVar[Instrument]
    bounds: ClassVar[tuple[float, ...]] = ()
    of: tuple[Phase, ...] = ()


class Duration(Measure):
    """Seconds of every event of the phases, failed ones included."""

    instrument = "histogram"
    bounds = LONG_S


class RunDuration(Measure):
    """Seconds of every run of one rate-limited phase, whether or not the run is an event."""

    instrument = "histogram"
    bounds = SHORT_S


@dataclass(frozen=True, kw_only=True)
class Size(Measure):
    """The value of `key` on each event of the phases that has the key.

    If events of these phases are nested, only the outermost counts, because the inner ones describe the same thing.
    """

    instrument = "histogram"
    key: Attribute


@dataclass(frozen=True, kw_only=True)
class Count(Measure):
    """Number of events of the phases that have `key`. Of nested events only the outermost counts, as with `Size`."""

    instrument = "counter"
    key: Attribute


@dataclass(frozen=True, kw_only=True)
class Rows(Measure):
    """The numbers in a list, each with its class from a parallel list as the attribute `by`.

    If events of the phases are nested, only the outermost counts, as with `Size`.

    Args:
        lists: Pairs of keys, of the classes and of the numbers. The first pair that an event has is read.
    """

    instrument = "counter"
    lists: tuple[tuple[Attribute, Attribute], ...]
    by: Attribute


class Total(Measure):
    """A number that only increases, kept by another part of torchspan and read when a metric reader collects."""

    instrument = "counter"


class Gathered(Measure):
    """Values that another part of torchspan gathers. They are read when a metric reader collects."""

    instrument = "histogram"


class RunningWork(Measure):
    """Number of outermost events of the phases that are running, read when a metric reader collects.

    Nothing is measured before the first such event of the process.
    """

    instrument = "observable_up_down_counter"


class LongestRunning(Measure):
    """Seconds for which the longest-running event of the phases has been running, read as `RunningWork` is."""

    instrument = "observable_gauge"


class Metric(str):
    """One row: a metric's name with its unit (UCUM), its meaning and what it measures.

    Attributes:
        attributes: All attributes that its measurements carry. The number of their values is bounded.
        open_attributes: The attributes whose values the program can choose.
        bounds: The upper bounds of a histogram's buckets, in its unit; by default those of its measure. A view in the
            program overrides them.
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
        self.bounds, self.stable = tuple(bounds) or measure.bounds, stable
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
