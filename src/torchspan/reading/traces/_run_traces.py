# SPDX-License-Identifier: Apache-2.0
"""Traces that belong to one `torchspan run`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from torchspan.reading.traces._file_spans import Span
from torchspan.reading.traces._tree import Node, Trace
from torchspan.words import phase, semconv


@dataclass
class Run:
    """A program that ran under `torchspan run`.

    Attributes:
        span: The span of `torchspan run`, from before the program's start to after its end.
        members: What the program's processes recorded, in the order of their start: each root below the span, and a trace
            with another id as a whole. A root belongs to the run by its parent, or by its run id if the program had its own
            tracer provider.
    """

    span: Span
    members: list[Trace] = field(default_factory=list)

    @staticmethod
    def is_span(span: Span) -> bool:
        """Whether `torchspan run` wrote a span for a program.

        Args:
            span: Any span.

        Returns:
            Whether it is torchspan's `torchspan.run` span.
        """
        return span.name == phase.RUN.name and span.scope == semconv.SCOPE_NAME

    @property
    def run_id(self) -> str:
        """The run's id, `torchspan.run.id` of its resource."""
        return _run_id(self.span)


def by_run(traces: Iterable[Trace]) -> list[Run | Trace]:
    """Group the traces of one `torchspan run`.

    A trace belongs to a run if there is a span `torchspan.run` with its run id. The traces are not changed.

    Args:
        traces: The traces, such as `read(path).traces`.

    Returns:
        The traces in order, with one `Run` in place of all that belong to it.
    """
    every = list(traces)
    runs = {run_id: Run(node.span) for run_id, node in _run_nodes(every).items()}
    if not runs:
        return list(every)
    result: list[Run | Trace] = []
    for trace in every:
        rest: list[Node] = []
        own: dict[str, list[Node]] = {}
        for root in trace.roots:
            run_id = _run_id(root.span)
            if run_id not in runs:
                rest.append(root)
            elif root.span is runs[run_id].span:
                runs[run_id].members += [Trace(trace.trace_id, [child]) for child in root.children]
            else:
                own.setdefault(run_id, []).append(root)
        for run_id, roots in own.items():
            is_same = trace.trace_id == runs[run_id].span.trace_id
            runs[run_id].members += [
                Trace(trace.trace_id, part) for part in ([[r] for r in roots] if is_same else [roots])
            ]
        if rest:
            result.append(Trace(trace.trace_id, rest) if len(rest) < len(trace.roots) else trace)
    for run in runs.values():
        run.members.sort(key=lambda member: member.start_ns)
    return sorted([*result, *runs.values()], key=_start_ns)


def _run_nodes(traces: Iterable[Trace]) -> dict[str, Node]:
    """The first root `torchspan.run` of each run id."""
    run_nodes: dict[str, Node] = {}
    for trace in traces:
        for root in trace.roots:
            if Run.is_span(root.span):
                run_nodes.setdefault(_run_id(root.span), root)
    run_nodes.pop("", None)
    return run_nodes


def _run_id(span: Span) -> str:
    value = span.resource.get(semconv.RUN_ID)
    return value if isinstance(value, str) else ""


def _start_ns(item: Run | Trace) -> int:
    return item.span.start_ns if isinstance(item, Run) else item.start_ns
