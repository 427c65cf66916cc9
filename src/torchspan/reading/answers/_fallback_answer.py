# SPDX-License-Identifier: Apache-2.0
"""What runs in PyTorch instead of TensorRT: which operators, from which lines of the model, why, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from torchspan.reading.answers import remedies
from torchspan.reading.answers._attributes import numbers, operator, strings
from torchspan.reading.answers._error_answer import WHY, refusals
from torchspan.reading.answers._kinds_of_answer import Fallback
from torchspan.reading.answers._wording import listed, settings_around, words
from torchspan.reading.answers.lines import Paragraph
from torchspan.reading.answers.units import plural, times
from torchspan.reading.traces import Attributes, Node, at_or_below
from torchspan.words import phase, semconv

_Value = TypeVar("_Value")

_KINDS = 5
"""Kinds of operators that an answer names; the others are counted."""

_UNKNOWN_PLACE = "?"
_BY_STAND_IN = "(of the CPU, by the stand-in)"


@dataclass
class _Operator:
    """What is known of one operator that fell back for one reason, in all compilations.

    Args:
        lines: The first line that it comes from in a compilation, and how many lines there are.
    """

    count: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    is_of_stand_in: bool = False

    @property
    def place(self) -> str:
        return next(iter(self.lines), "")

    @property
    def places(self) -> int:
        """How many lines there are, as far as they are known to be different."""
        return max(len(self.lines), *self.lines.values(), 0)


def fallbacks(nodes: list[Node]) -> list[Fallback]:
    """Each operator with each reason; reasons, and operators of a reason, with the most occurrences first."""
    by_reason: dict[tuple[str, tuple[str, Paragraph]], dict[str, _Operator]] = {}
    said = at_or_below(nodes, lambda node: semconv.FALLBACK_REASON_CLASSES in node.span.attributes)
    for node in nodes:
        if id(node) not in said or id(node.parent) in said:
            continue  # a compilation repeats what its partition found: the outermost counts
        if node.span.name == phase.CACHE_LOOKUP.name:
            continue  # what a lookup passed over is built, in TensorRT
        settings = settings_around(node)
        for reason, name, fallen in _fallen(node.span.attributes):
            of_reason = by_reason.setdefault((reason, _why(reason, settings)), {})
            total = of_reason.setdefault(name, _Operator())
            total.count += fallen.count
            for place, lines in fallen.lines.items():
                total.lines[place] = max(total.lines.get(place, 0), lines)
            total.is_of_stand_in |= fallen.is_of_stand_in
        for reason in strings(node.span.attributes, semconv.FALLBACK_REASON_CLASSES):
            by_reason.setdefault((reason, _why(reason, settings)), {})
    refused = tuple(refusals(node.span.attributes for node in nodes))
    ranked = sorted(by_reason.items(), key=lambda item: -sum(operator.count for operator in item[1].values()))
    return [fallback for reason, operators in ranked for fallback in _of_reason(*reason, operators, refused)]


def without_effect(nodes: list[Node]) -> Iterator[Paragraph]:
    """The operators in `torch_executed_ops` that no compilation found in its graph."""
    done = [node.span.attributes for node in nodes if semconv.COVERAGE in node.span.attributes]
    left = {name for attributes in done for name in strings(attributes, semconv.FALLBACK_OPERATOR_NAMES)}
    asked = [name for attributes in done for name in strings(attributes, semconv.SETTINGS["torch_executed_ops"])]
    unmatched = dict.fromkeys(name for name in asked if name not in left)
    if unmatched and not any(semconv.FALLBACK_OPERATORS_OMITTED in attributes for attributes in done):
        yield (*words("torch_executed_ops matched no operator of the lowered graph:"), *listed(unmatched))


def together(of_reason: list[Fallback]) -> Paragraph:
    """Operators that fell back for the same reason, those with the most occurrences first, with it and what would change it."""
    shown = [fallback.sentence_pieces[0].removesuffix(":") for fallback in of_reason[:_KINDS] if fallback.operator]
    if len(of_reason) > _KINDS:
        shown.append(plural(len(of_reason) - _KINDS, "more kind"))
    first = of_reason[0]
    reason = first.sentence_pieces if not first.operator else first.sentence_pieces[1:]
    why = (*reason[:-1], f"{reason[-1]};", *first.remedy_pieces) if first.remedy_pieces else reason
    if not shown:
        return why
    *before, last = listed(shown)
    return (*before, f"{last}:", *why)


def _of_reason(
    reason: str, why: tuple[str, Paragraph], operators: dict[str, _Operator], refused: tuple[Paragraph, ...]
) -> Iterator[Fallback]:
    """The operators of a reason; the first has what validators refused of them."""
    text, remedy = why
    details = refused if reason == semconv.FallbackReason.VALIDATOR_REFUSED else ()
    for name, total in sorted(operators.items(), key=lambda item: -item[1].count) or [("", _Operator())]:
        yield Fallback(
            sentence_pieces=(f"{_named(name, total)}:", *words(text)) if name else words(text),
            remedy_pieces=remedy,
            details=details,
            operator=name,
            count=total.count,
            reason=reason,
            place=total.place,
            places=total.places,
            is_of_stand_in=total.is_of_stand_in,
        )
        details = ()


def _named(name: str, fallen: _Operator) -> str:
    """The operator, how often it occurs, and the lines of the model that it comes from."""
    where = f" at {fallen.place}" if fallen.place else ""
    if where and fallen.places > 1:
        where += f" and {plural(fallen.places - 1, 'more line')}"
    stand_in = f" {_BY_STAND_IN}" if fallen.is_of_stand_in else ""
    return f"{name}{stand_in} {times(fallen.count)}{where}"


def _fallen(attributes: Attributes) -> Iterator[tuple[str, str, _Operator]]:
    """Reason and name of each operator that a span names, and how often and where it occurs."""
    names = strings(attributes, semconv.FALLBACK_OPERATOR_NAMES)
    reasons = strings(attributes, semconv.FALLBACK_OPERATOR_REASONS)
    counts = numbers(attributes, semconv.FALLBACK_OPERATOR_COUNTS)
    if not len(names) == len(reasons) == len(counts):
        return
    places = _fitting(strings(attributes, semconv.FALLBACK_OPERATOR_PLACES), len(names), "")
    place_counts = _fitting(numbers(attributes, semconv.FALLBACK_OPERATOR_PLACE_COUNTS), len(names), 0)
    of_stand_in = strings(attributes, semconv.FALLBACK_OPERATORS_STAND_IN)
    for name, reason, count, place, lines in zip(names, reasons, counts, places, place_counts, strict=True):
        known = {} if place in {"", _UNKNOWN_PLACE} else {place: int(lines)}
        yield reason, operator(name), _Operator(int(count), known, name in of_stand_in)


def _fitting(values: list[_Value], length: int, missing: _Value) -> list[_Value]:
    """The values, or as many missing ones where the names are not as many."""
    return values if len(values) == length else [missing] * length


def _why(reason: str, settings: Attributes) -> tuple[str, Paragraph]:
    """The reason in words, and what would change it."""
    text = WHY.get(reason, reason)
    size = settings.get(semconv.SETTINGS["min_block_size"])
    if reason != semconv.FallbackReason.MIN_BLOCK_SIZE or size is None:
        return text, ()
    return f"group smaller than min_block_size={size}", remedies.remedy("min_block_size")
