# SPDX-License-Identifier: Apache-2.0
"""The lines about calls and what their engines were built for: sizes outside of that, and usual sizes that are not opt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchspan.reading.answers._attributes import strings
from torchspan.reading.answers._kinds_of_answer import Sizes
from torchspan.reading.answers._wording import words
from torchspan.reading.answers.units import share
from torchspan.reading.traces import Attributes, Node
from torchspan.words import phase, semconv


def sizes(nodes: list[Node]) -> list[Sizes]:
    """Calls outside what an engine was built for, and usual sizes that are not opt; the most frequent first."""
    return [*_outside(nodes), *_drift(nodes)]


# --- outside ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Place:
    """A dimension and the range of it that the engine was built for."""

    where: str
    built_for: str
    recompiled: bool


def _outside(nodes: list[Node]) -> list[Sizes]:
    calls: Counter[_Place] = Counter()
    sizes: dict[_Place, set[int]] = {}
    for attributes, recompiled in _calls_outside(nodes):
        for place, size in _dimensions(attributes, recompiled=recompiled):
            calls[place] += 1
            sizes.setdefault(place, set()).add(size)
    return [_line(place, number, sizes[place]) for place, number in calls.most_common()]


def _calls_outside(nodes: Iterable[Node]) -> Iterator[tuple[Attributes, bool]]:
    for node in nodes:
        if node.span.name == phase.COMPILE.name and semconv.OUTSIDE_PATHS in node.span.attributes:
            yield node.span.attributes, True
        for event in node.span.events:
            if event.name == semconv.OUTSIDE_EVENT:
                yield event.attributes, False


def _dimensions(attributes: Attributes, *, recompiled: bool) -> Iterator[tuple[_Place, int]]:
    paths = strings(attributes, semconv.OUTSIDE_PATHS)
    numbers = (semconv.OUTSIDE_AXES, semconv.OUTSIDE_SIZES, semconv.OUTSIDE_MINIMUMS, semconv.OUTSIDE_MAXIMUMS)
    axes, sizes, low, high = (_integers(attributes, key) for key in numbers)
    if len({len(column) for column in (paths, axes, sizes, low, high)}) == 1:
        for path, axis, size, smallest, largest in zip(paths, axes, sizes, low, high, strict=True):
            where = f"the number of dimensions of {path}" if axis < 0 else _where(path, axis)
            yield _Place(where, _range(smallest, largest), recompiled), size


def _integers(attributes: Attributes, key: str) -> list[int]:
    """The attribute as a list of integers, -1 among them; empty where it is something else."""
    value = attributes.get(key)
    return value if isinstance(value, list) and all(type(number) is int for number in value) else []


def _where(path: str, axis: int) -> str:
    return f"dimension {axis} of {path}"


def _range(low: int, high: int) -> str:
    if low == high:
        return f"{low} only"
    return f"{low} and more" if high < 0 else f"{low} to {high}"


def _line(place: _Place, calls: int, sizes: set[int]) -> Sizes:
    low, high = min(sizes), max(sizes)
    had = f"{low}" if low == high else f"{low} to {high}"
    if place.recompiled:
        said = f"compiled again: {place.where} is {had}, but the engine was built for {place.built_for}"
        return _outside_of(said)
    number = "1 call has" if calls == 1 else f"{calls:,} calls have"
    said = f"{number} {had} in {place.where}, but the engine was built for {place.built_for}"
    return _outside_of(said)


def _outside_of(sentence: str) -> Sizes:
    return Sizes(sentence_pieces=words(sentence), is_outside=True)


# --- drift -----------------------------------------------------------------------------------------------------------
def _drift(nodes: list[Node]) -> list[Sizes]:
    last: dict[tuple[object, ...], Attributes] = {}
    for node in nodes:
        process = node.span.resource.get(semconv.PROCESS_PID)
        for event in node.span.events:
            if event.name == semconv.DRIFT_EVENT and _is_whole(event.attributes):
                module = event.attributes.get(semconv.CALL_MODULE)
                key = process, module, *(event.attributes[key] for key in _PLACE)
                if key not in last or last[key][semconv.DRIFT_CALLS] <= event.attributes[semconv.DRIFT_CALLS]:
                    last[key] = event.attributes
    drifts = sorted(last.values(), key=lambda drift: -drift[semconv.DRIFT_SIZE_CALLS])
    return [_drifted(drift) for drift in drifts]


_PLACE = (semconv.DRIFT_PATH, semconv.DRIFT_AXIS, semconv.DRIFT_OPT)
_NUMBERS = (
    semconv.DRIFT_CALLS,
    semconv.DRIFT_AXIS,
    semconv.DRIFT_SIZE,
    semconv.DRIFT_SIZE_CALLS,
    semconv.DRIFT_OPT,
)


def _is_whole(attributes: Attributes) -> bool:
    return type(attributes.get(semconv.DRIFT_PATH)) is str and all(type(attributes.get(key)) is int for key in _NUMBERS)


def _drifted(attributes: Attributes) -> Sizes:
    calls, axis, size, size_calls, opt = (attributes[key] for key in _NUMBERS)
    module = attributes.get(semconv.CALL_MODULE)
    of_module = f" of {module}" if module else ""
    said = (
        f"{share(size_calls, calls)} of {calls:,} calls{of_module} have {size} in "
        f"{_where(str(attributes[semconv.DRIFT_PATH]), axis)}, but the engine was built for {opt}"
    )
    return Sizes(sentence_pieces=words(said), is_outside=False)
