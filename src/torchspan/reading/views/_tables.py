# SPDX-License-Identifier: Apache-2.0
"""What was built and compiled, as tables: TensorRT's engines, frames of torch.compile, settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torchspan.reading.answers import BuiltEngine, Frame
from torchspan.reading.answers._frame_answer import break_type
from torchspan.reading.answers.units import duration, size, source_line
from torchspan.reading.traces import Node, Span
from torchspan.words import phase, semconv

MOST_ROWS = 1_000
"""Rows of a table; the others are counted."""


@dataclass(frozen=True)
class Table:
    """A table. The first cell of a row leads to a span.

    Attributes:
        title: What it lists.
        columns: The names of its columns.
        rows: The texts of each row, with the span.
        omitted: Rows that it leaves out.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[Span, Sequence[str]]]
    omitted: int


def engine_table(engines: Sequence[BuiltEngine]) -> Table:
    """Every engine, the one that took longest first."""
    columns = ("engine", "model", "operators", "layers", "size", "time", "build", "cache", "reason")
    return _table("TensorRT's engines", columns, len(engines), map(_engine, engines))


def _engine(engine: BuiltEngine) -> tuple[Span, Sequence[str]]:
    node = engine.node
    builds = [inside for inside in node.below() if inside.span.name == phase.BUILD_ENGINE.name]
    build = "stand-in" if any(inside.is_stand_in for inside in builds) else duration(_sum_ns(builds)) if builds else ""
    layers = _first(node, semconv.NETWORK_LAYERS)
    texts = [
        " … ".join(engine.modules) or engine.name or node.span.name,
        engine.model,
        _text(engine.operators),
        _text(layers),
        "" if engine.bytes is None else size(engine.bytes),
        duration(node.span.duration_ns),
        build,
        engine.cache,
        _text(_first(node, semconv.CACHE_REASON)),
    ]
    return node.span, texts


def frame_table(frames: Sequence[Frame]) -> Table:
    """Every frame of torch.compile, in the order of their start."""
    columns = ("function", "place", "compile id", "outcome", "time", "compiled again because", "graph breaks")
    return _table("Frames of torch.compile", columns, len(frames), map(_frame, frames))


def _frame(frame: Frame) -> tuple[Span, Sequence[str]]:
    span = frame.node.span
    breaks = [_break(event.attributes) for event in span.events if event.name == semconv.GRAPH_BREAK_EVENT]
    outcome = frame.outcome or "did not end"
    texts = [frame.function, frame.place, frame.id, outcome, duration(span.duration_ns), frame.recompiled]
    return span, [*texts, "; ".join(breaks)]


def _break(attributes: dict[str, Any]) -> str:
    return " at ".join(filter(None, (break_type(attributes), source_line(attributes))))


def settings_table(nodes: Iterable[Node]) -> Table:
    """The settings of Torch-TensorRT's compilations that are not the default."""
    rows = [
        (node.span, [name, _text(value), _text(semconv.SETTING_DEFAULTS.get(name)), _model(node.span)])
        for node in nodes
        if node.span.name in _COMPILATIONS
        for name, value in _settings(node.span)
    ]
    return _table("Settings that are not the default", ("setting", "value", "default", "model"), len(rows), rows)


_COMPILATIONS = frozenset(row.name for row in phase.LOWERING)


def _settings(span: Span) -> Iterator[tuple[str, Any]]:
    for name, key in semconv.SETTINGS.items():
        value = span.attributes.get(key)
        if value is not None and value != semconv.SETTING_DEFAULTS.get(name):
            yield name, value


def _model(span: Span) -> str:
    return str(span.attributes.get(semconv.MODEL_CLASS) or span.name)


def _table(title: str, columns: Sequence[str], count: int, rows: Iterable[tuple[Span, Sequence[str]]]) -> Table:
    shown = [row for row, _ in zip(rows, range(MOST_ROWS), strict=False)]
    return Table(title, columns, shown, count - len(shown))


def _first(node: Node, key: str) -> object:
    """The value of the attribute in the first span at or below the node that has it."""
    return next((inside.span.attributes[key] for inside in node.below() if key in inside.span.attributes), None)


def _sum_ns(nodes: Iterable[Node]) -> int:
    return sum(node.span.duration_ns for node in nodes)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
