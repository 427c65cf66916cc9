# SPDX-License-Identifier: Apache-2.0
"""Which operators go where."""

from __future__ import annotations

from torchspan import phase, semconv
from torchspan.probes._probe import Action, Probe
from torchspan.probes.describe import compilation, fallback, partition
from torchspan.probes.torch_tensorrt._row import row

_FALLBACK = (
    semconv.OPERATORS_TENSORRT, semconv.COVERAGE, semconv.FALLBACK_REASON, semconv.FALLBACK_OPERATORS,
    semconv.FALLBACK_COUNTS, semconv.FALLBACK_REASONS, semconv.FALLBACK_OMITTED, semconv.FALLBACK_TOTAL_REASONS,
    semconv.FALLBACK_TOTAL_OPERATORS, semconv.FALLBACK_TOTAL_SUBGRAPHS,
)  # fmt: skip

_PARTITION = (
    row(
        target="torch_tensorrt.dynamo._compiler:compile_module",
        action=Action.FACTS,
        phases=(phase.COMPILE,),
        start=compilation.compile_module_settings,
        end=compilation.compile_module_result,
        why="partition and conversion of every route; knows the engines, and returns its argument when it skips",
    ),
    row(
        target="torch_tensorrt.dynamo.partitioning.common:get_graph_converter_support",
        action=Action.FACTS,
        phases=(phase.COMPILE, phase.REFIT),
        end=compilation.converter_support,
        why="counts supported operators before anything is decided",
    ),
    row(
        target="torch_tensorrt.dynamo.partitioning._global_partitioner:TorchTensorRTOperatorSupport.is_node_supported",
        action=Action.TALLY,
        phases=(phase.PARTITION, phase.COMPILE, phase.REFIT),
        count=fallback.count_verdict,
        why="the verdict on each node; the library adds up all causes in one counter",
    ),
    row(
        target="torch_tensorrt.dynamo.partitioning._adjacency_partitioner:OpSupportTester.is_node_supported",
        action=Action.TALLY,
        phases=(phase.PARTITION, phase.COMPILE, phase.REFIT),
        count=fallback.count_verdict,
        why="the same in the fast partitioner",
    ),
    row(
        target="torch_tensorrt.dynamo.partitioning._adjacency_partitioner:partition",
        phases=(phase.PARTITION,),
        start=partition.partitioner("fast"),
        end=partition.split,
        share=_FALLBACK,
        share_with=(phase.COMPILE, phase.REFIT),
        why="the fast partitioner, the default",
    ),
    row(
        target="torch_tensorrt.dynamo.partitioning._global_partitioner:partition",
        phases=(phase.PARTITION,),
        start=partition.partitioner("global"),
        end=partition.split,
        share=_FALLBACK,
        share_with=(phase.COMPILE, phase.REFIT),
        why="the global partitioner, by choice or after the fast one failed",
    ),
    row(
        target="torch_tensorrt.dynamo.partitioning._resource_partitioner:resource_partition",
        phases=(phase.PARTITION,),
        start=partition.partitioner("resource"),
        end=partition.subgraphs,
        why="splits subgraphs further so that building fits into memory",
    ),
    row(
        target="torch_tensorrt.dynamo.partitioning.common:construct_submodule_inputs",
        action=Action.STEP,
        why="shapes for each engine's inputs",
    ),
    row(
        target="torch_tensorrt.dynamo._DryRunTracker:dryrun_stats_display",
        action=Action.STEP,
        why="the library's own report, the oracle for our counts",
    ),
)

PROBES: tuple[Probe, ...] = _PARTITION
