# SPDX-License-Identifier: Apache-2.0
"""Time on the device: of runs, next to that of the host, and of the layers of an engine."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torchspan.reading.answers._attributes import number, numbers, strings
from torchspan.reading.answers._built_engines import engine_name
from torchspan.reading.answers._frame_answer import function
from torchspan.reading.answers._kinds_of_answer import GpuTime, LayerTime
from torchspan.reading.answers._wording import words
from torchspan.reading.answers.lines import shorten
from torchspan.reading.answers.units import duration, plural, share
from torchspan.reading.traces import Node, Span
from torchspan.words import semconv
from torchspan.words.semconv.torchspan import MissingGpuTime

STILL_RUNNING = "launched, still running"
"""What is said of a run whose span ends before the device does."""
_GPU_DURATIONS = (semconv.EXECUTE_GPU_DURATION, semconv.RUN_GRAPH_GPU_DURATION)
_MOST_LAYERS = 8
"""Layers of one table that have lines."""


def gpu_ns(span: Span) -> float | None:
    """Nanoseconds of a run on the device; None where they are not known."""
    seconds = next((s for key in _GPU_DURATIONS if (s := number(span.attributes, key)) is not None), None)
    return None if seconds is None else seconds * 1e9


def is_still_running(span: Span) -> bool:
    """Whether the device was still running when the span of the run ended, as far as that is known."""
    ns = gpu_ns(span)
    if ns is None:
        return span.attributes.get(semconv.GPU_TIME_MISSING) == MissingGpuTime.RUNNING
    return ns > span.duration_ns


def device_text(span: Span) -> str:
    """`device 12.0 ms, launched, still running`; empty where nothing is known of the device."""
    ns, missing = gpu_ns(span), span.attributes.get(semconv.GPU_TIME_MISSING)
    still_running = [STILL_RUNNING] if is_still_running(span) else []
    if ns is not None:
        return ", ".join([f"device {duration(ns)}", *still_running])
    return "".join(still_running) or (f"no time on the device: {str(missing).replace('_', ' ')}" if missing else "")


def gpu_times(nodes: Iterable[Node]) -> list[GpuTime]:
    """The runs of each engine and graph that have times on the device, that which took longest in all first."""
    runs: defaultdict[tuple[str, str], list[tuple[float, Span]]] = defaultdict(list)
    for span in (node.span for node in nodes):
        ns = gpu_ns(span)
        if ns is not None:
            runs[span.name, _name(span)].append((ns, span))
    ranked = sorted(runs.items(), key=lambda row: -sum(ns for ns, _ in row[1]))
    return [_gpu_time(root, name, own) for (root, name), own in ranked]


def _gpu_time(root: str, name: str, runs: list[tuple[float, Span]]) -> GpuTime:
    gpu, host = (statistics.median(ns) for ns in ([ns for ns, _ in runs], [span.duration_ns for _, span in runs]))
    unfinished = sum(is_still_running(span) for _, span in runs)
    often = f"median of {plural(len(runs), 'run')}" if len(runs) > 1 else "1 run"
    text = f"{name}: device {duration(gpu)}, host {duration(host)}, {often}"
    return GpuTime(
        sentence_pieces=words(f"{text}; {unfinished} ended before the device did" if unfinished else text),
        root=root,
        name=name,
        runs=len(runs),
        gpu_s=gpu / 1e9,
        host_s=host / 1e9,
        still_running=unfinished,
    )


def _name(span: Span) -> str:
    """The engine or graph that ran; the name of the span where that is not known."""
    graph = " ".join(filter(None, (function(span.attributes), str(span.attributes.get(semconv.COMPILE_ID) or ""))))
    return engine_name(span.attributes) or graph or span.name


# --- layers -----------------------------------------------------------------------------------------------------------
class LayerTable(NamedTuple):
    """The layers of an engine, slowest first: name, median seconds, share; and the layers that have no row."""

    rows: list[tuple[str, float, float]]
    runs: int
    omitted: int
    omitted_s: float


def layer_table(span: Span) -> LayerTable | None:
    """The table of a span; None if it has none, or if its lists do not fit together."""
    a = span.attributes
    names = strings(a, semconv.LAYER_NAMES)
    times, shares = numbers(a, semconv.LAYER_DURATIONS), numbers(a, semconv.LAYER_SHARES)
    if not names or not len(names) == len(times) == len(shares):
        return None
    runs, omitted, omitted_s = (
        number(a, key) or 0 for key in (semconv.LAYER_RUNS, semconv.LAYERS_OMITTED, semconv.LAYERS_OMITTED_DURATION)
    )
    return LayerTable(list(zip(names, times, shares, strict=True)), int(runs), int(omitted), omitted_s)


def layer_lines(spans: Iterable[Span], room: int) -> Iterator[str]:
    """The last table of the spans in lines of at most `room` columns: the slowest layers, and the rest as one line."""
    table = next(filter(None, map(layer_table, reversed(list(spans)))), None)
    if table is None:
        return
    yield shorten(f"median and share of {plural(table.runs, 'run')}, in which the host waited for the device", room)
    for name, s, part in table.rows[:_MOST_LAYERS]:
        begin = f"{duration(s * 1e9):>9} {share(part, 1):>5}  "
        yield shorten(begin + shorten(name, room - len(begin)), room)
    rest = table.rows[_MOST_LAYERS:]
    count = len(rest) + table.omitted
    if count:
        whole_s = sum(s for _, s, _ in table.rows) + table.omitted_s
        rest_s = sum(s for _, s, _ in rest) + table.omitted_s
        yield shorten(f"{duration(rest_s * 1e9):>9} {share(rest_s, whole_s):>5}  {plural(count, 'more layer')}", room)


def layer_times(nodes: Iterable[Node]) -> list[LayerTime]:
    """The layers of each engine, of its last table, in the order of the table."""
    tables: dict[str, LayerTable] = {}
    spans = (node.span for node in nodes if semconv.LAYER_NAMES in node.span.attributes)
    for span in sorted(spans, key=lambda span: span.start_ns):
        table = layer_table(span)
        if table is not None:
            tables[_name(span)] = table
    return [
        LayerTime(
            sentence_pieces=(*words(name), "in", *words(f"{engine}: {duration(s * 1e9)}"), share(part, 1)),
            engine=engine,
            name=name,
            s=s,
            share=part,
            runs=table.runs,
        )
        for engine, table in tables.items()
        for name, s, part in table.rows
    ]
