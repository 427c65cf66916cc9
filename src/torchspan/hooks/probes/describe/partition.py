# SPDX-License-Identifier: Apache-2.0
"""Which partitioner ran and how it split the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from torchspan.base import reading
from torchspan.base.scratch import Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe import fallback
from torchspan.hooks.probes.describe.common import calls, children, graph_of, nodes
from torchspan.hooks.probes.describe.compilation import ENGINE_PREFIX
from torchspan.words import semconv

Facts = dict[str, Any]


def partitioner(name: str) -> Callable[[Call], Facts]:
    """A description with the name of the partitioner."""
    return lambda _call: {semconv.PARTITIONER: name}


def split(_call: Call, result: Any, scratch: Scratch) -> Facts:
    """(partitioned graph, support tester) of the fast and the global partitioner."""
    if type(result) is not tuple or len(result) != 2:
        return {}
    graph = result[0]
    verdicts = scratch.get(fallback.VERDICTS, {})
    converted, left = _sides(graph)
    left_in_torch = fallback.facts(fallback.left_in_torch(left, scratch), _pieces(graph, scratch), scratch)
    scratch[fallback.PLAN] = left_in_torch
    if not verdicts:  # no operator was asked about: a graph that is supported as a whole may be taken as it is
        return {**subgraphs(_call, graph, scratch), **left_in_torch}
    planned, total = sum(node.name in verdicts for node in converted), len(verdicts)
    share = {semconv.OPERATORS_TENSORRT: planned, semconv.COVERAGE: planned / total}
    scratch[fallback.PLAN] = {**share, **left_in_torch}
    return {
        **subgraphs(_call, graph, scratch),
        semconv.OPERATORS_TOTAL: total,
        semconv.OPERATORS_SUPPORTED: sum(verdict == fallback.SUPPORTED for verdict in verdicts.values()),
        semconv.OPERATORS_PLANNED: planned,
        **left_in_torch,
    }


def refused(call: Call, error: BaseException, scratch: Scratch) -> Facts:
    """A partition that raised. With `require_full_compilation`, the operators that prevented it.

    The graph is unchanged: both partitioners raise before they split it.
    """
    if not reading.switch(call.get("require_full_compilation")) or not reading.is_a(error, AssertionError):
        return {}
    verdicts = scratch.get(fallback.VERDICTS, {})
    return {
        semconv.OPERATORS_TOTAL: len(verdicts),
        semconv.OPERATORS_SUPPORTED: sum(verdict == fallback.SUPPORTED for verdict in verdicts.values()),
        **fallback.unsupported(calls(call.get("gm")), scratch),
    }


def subgraphs(_call: Call, graph: Any, _scratch: Scratch) -> Facts:
    """The numbers of pieces for TensorRT and for PyTorch. The resource partitioner changes nothing else.

    The global partitioner leaves PyTorch's operators inline, so there are no pieces of PyTorch to count.
    """
    kinds = Counter(name.startswith(ENGINE_PREFIX) for name, _ in _graph_children(graph))
    return {semconv.SUBGRAPHS_TENSORRT: kinds[True], semconv.SUBGRAPHS_TORCH: kinds[False]}


def _pieces(graph: Any, scratch: Scratch) -> Counter[str]:
    """The pieces for PyTorch by their reasons. A piece without an operator of the model has none."""
    pieces = (child for name, child in _graph_children(graph) if not name.startswith(ENGINE_PREFIX))
    reasons = (fallback.piece_reason(fallback.left_in_torch(calls(piece), scratch)) for piece in pieces)
    return Counter(reason for reason in reasons if reason is not None)


def _graph_children(graph: Any) -> Iterator[tuple[str, Any]]:
    """The children that the graph calls. The global partitioner keeps modules that nothing calls any more."""
    called = {node.target for node in nodes(graph) if node.op == "call_module" and type(node.target) is str}
    return ((name, child) for name, child in children(graph) if name in called and graph_of(child) is not None)


def _sides(graph: Any) -> tuple[list[Any], list[Any]]:
    """Operators inside engines, and operators left: in PyTorch's pieces or inline.

    Splitting adds nodes at the top that unpack what a piece returns. They may have the names of nodes that moved into a piece. A
    node that is in a piece is counted there.
    """
    converted: dict[str, Any] = {}
    left: dict[str, Any] = {}
    for name, child in _graph_children(graph):
        (converted if name.startswith(ENGINE_PREFIX) else left).update((node.name, node) for node in calls(child))
    left.update((node.name, node) for node in calls(graph) if node.name not in converted and node.name not in left)
    return list(converted.values()), list(left.values())
