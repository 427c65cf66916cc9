# SPDX-License-Identifier: Apache-2.0
"""Graphs before and after a transformation."""

from __future__ import annotations

from typing import Any

from torchspan import semconv
from torchspan._base.scratch import Scratch
from torchspan.probes._call import Call
from torchspan.probes.describe.common import node_count, without_none

Facts = dict[str, Any]


def graph_in(call: Call) -> Facts:
    """The graph, module or exported program that the first argument is."""
    first = call.args[0] if call.args else next(iter(call.kwargs.values()), None)
    return without_none({semconv.NODES_BEFORE: node_count(first)})


def graph_out(_call: Call, result: Any, _scratch: Scratch) -> Facts:
    """The graph that came back."""
    return without_none({semconv.NODES_AFTER: node_count(result)})


def lowering_pass(name: str, call: Call) -> Facts:
    """One pass of a pass manager, by its function's name."""
    return {semconv.PASS_NAME: name, **graph_in(call)}
