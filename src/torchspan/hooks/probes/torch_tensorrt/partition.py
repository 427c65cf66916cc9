# SPDX-License-Identifier: Apache-2.0
"""Which operators go where."""

from __future__ import annotations

from torchspan.hooks.probes._actions import Annotate, Record, Shares, Step, Tally
from torchspan.hooks.probes._probe import Function, Method, Probe, torch_tensorrt_probe
from torchspan.hooks.probes.describe import compilation, fallback, partition
from torchspan.words import phase

_PLANNED = Shares((phase.COMPILE, phase.REFIT), keys=fallback.UNSUPPORTED_KEYS, scratch=(fallback.PLAN,))

PROBES: tuple[Probe, ...] = (
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo._compiler:compile_module"),
        action=Annotate(
            (phase.COMPILE,), start=compilation.compile_module_settings, end=compilation.compile_module_result
        ),
        why="partition and conversion of every route; knows the engines, and returns its argument when it skips",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.partitioning.common:get_graph_converter_support"),
        action=Annotate((phase.COMPILE, phase.REFIT), end=compilation.converter_support),
        why="counts supported operators before anything is decided",
    ),
    torch_tensorrt_probe(
        target=Method(
            "torch_tensorrt.dynamo.partitioning._global_partitioner:TorchTensorRTOperatorSupport.is_node_supported"
        ),
        action=Tally((phase.PARTITION, phase.COMPILE, phase.REFIT), fallback.count_verdict),
        why="the verdict on each node; the library adds up all causes in one counter",
    ),
    torch_tensorrt_probe(
        target=Method("torch_tensorrt.dynamo.partitioning._adjacency_partitioner:OpSupportTester.is_node_supported"),
        action=Tally((phase.PARTITION, phase.COMPILE, phase.REFIT), fallback.count_verdict),
        why="the verdict on each node in the fast partitioner",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.partitioning._adjacency_partitioner:partition"),
        action=Record(
            phase.PARTITION,
            start=partition.partitioner("fast"),
            end=partition.split,
            failed=partition.refused,
            shares=_PLANNED,
        ),
        why="the fast partitioner, the default",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.partitioning._global_partitioner:partition"),
        action=Record(
            phase.PARTITION,
            start=partition.partitioner("global"),
            end=partition.split,
            failed=partition.refused,
            shares=_PLANNED,
        ),
        why="the global partitioner, if it is chosen or the fast one has failed",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.partitioning._resource_partitioner:resource_partition"),
        action=Record(phase.PARTITION, start=partition.partitioner("resource"), end=partition.subgraphs),
        why="splits subgraphs further so that building fits into memory",
    ),
    torch_tensorrt_probe(
        target=Function("torch_tensorrt.dynamo.partitioning.common:construct_submodule_inputs"),
        action=Step(),
        why="computes the shapes of each engine's inputs",
    ),
)
