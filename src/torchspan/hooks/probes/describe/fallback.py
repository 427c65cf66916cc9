# SPDX-License-Identifier: Apache-2.0
"""Why an operator is left in PyTorch.

Torch-TensorRT adds every cause to one counter (partitioning/_adjacency_partitioner.py). So the cause is determined
here, from the node, its registry entry and the settings. Converters' validators are not run a second time, because they
may be the user's.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torchspan.base import reading
from torchspan.base.reading import attribute
from torchspan.base.scratch import Key, Scratch
from torchspan.hooks.probes._call import Call
from torchspan.hooks.probes.describe import place, refusal
from torchspan.hooks.probes.describe.common import LIST_LIMIT, UNKNOWN, dtype_of, is_node, meta, operator_name, stand_in
from torchspan.words import semconv
from torchspan.words.semconv import FallbackReason

_OF_THE_CPU = re.compile(r"_for_cpu\b|mkldnn")
"""Operators that PyTorch puts into a graph only for tensors on a CPU, below the default of their names."""

Facts = dict[str, Any]


class LeftNode(NamedTuple):
    """A node that stays in PyTorch.

    Attributes:
        operator: The name of its operator.
        reason: The class of reason.
        stack: `node.stack_trace`: where the user's model calls the operator. None if PyTorch has not recorded it.
    """

    operator: str
    reason: str
    stack: Any


Left = list[LeftNode]

KEYS = (
    semconv.FALLBACK_REASON_CLASSES,
    semconv.FALLBACK_OPERATOR_NAMES,
    semconv.FALLBACK_OPERATOR_COUNTS,
    semconv.FALLBACK_OPERATOR_REASONS,
    semconv.FALLBACK_OPERATOR_PLACES,
    semconv.FALLBACK_OPERATOR_PLACE_COUNTS,
    semconv.FALLBACK_OPERATORS_OMITTED,
    semconv.FALLBACK_OPERATORS_STAND_IN,
    semconv.FALLBACK_TOTAL_REASONS,
    semconv.FALLBACK_TOTAL_OPERATORS,
    semconv.FALLBACK_TOTAL_SUBGRAPHS,
)
"""The attributes about what is left in PyTorch."""

UNSUPPORTED_KEYS = (
    semconv.UNSUPPORTED_NAMES,
    semconv.UNSUPPORTED_COUNTS,
    semconv.UNSUPPORTED_REASONS,
    semconv.UNSUPPORTED_PLACES,
    semconv.UNSUPPORTED_PLACE_COUNTS,
    semconv.UNSUPPORTED_OMITTED,
    *refusal.KEYS,
)
"""The attributes about why a compilation with `require_full_compilation` failed."""

VERDICTS: Key[dict[str, str]] = Key("verdicts")
"""Scratch key: node name -> `SUPPORTED`, or the reason why it is not supported.

Impure nodes (attention may drop out) are operators as well, although upstream's lists of unsupported operators omit them.
"""

PLAN: Key[Facts] = Key("plan")
"""Scratch key: the facts of a partition that apply to the compilation or refit around it once that has succeeded."""

SUPPORTED = "supported"


def count_verdict(scratch: Scratch, call: Call, supported: Any, _duration_s: float) -> None:
    """One answer of `is_node_supported(self, submodules, node)`. For the same node the answer is always the same."""
    node = call.get("node")
    verdicts = scratch.setdefault(VERDICTS, {})
    if not is_node(node) or node.op != "call_function":
        return
    if reading.switch(supported):
        verdicts[node.name] = SUPPORTED
    else:
        reason = verdicts[node.name] = reason_of(node, attribute(call.get("self"), "torch_executed_ops"))
        if reason == FallbackReason.VALIDATOR_REFUSED:
            assumes_dynamic = _has_setting("assume_dynamic_shape_support")
            refusal.note(scratch, node, _converters(node.target), assume_dynamic=assumes_dynamic)


def reason_of(node: Any, torch_executed_ops: Any) -> str:
    """The class of reason why a node is not supported, in the order in which upstream decides."""
    if any(_is_complex(candidate) for candidate in (node, *refusal.inputs_of(node))):
        return FallbackReason.COMPLEX_DTYPE
    if _is_among(attribute(node, "target"), reading.entries(torch_executed_ops) or ()):
        return FallbackReason.USER_EXCLUDED
    candidates = list(_converters(attribute(node, "target")))
    if not candidates:
        return FallbackReason.NO_CONVERTER
    if _has_setting("fallback_data_dependent_ops") and any(
        reading.switch(attribute(candidate, "requires_output_allocator")) for candidate in candidates
    ):
        return FallbackReason.DATA_DEPENDENT
    return FallbackReason.VALIDATOR_REFUSED


def _is_complex(node: Any) -> bool:
    return attribute(dtype_of(meta(node, "val")), "is_complex") is True


def _is_among(target: Any, excluded: Iterable[Any]) -> bool:
    """Whether the target, or its name, is excluded. No `__eq__` of the program is called."""
    name = operator_name(target)
    return any(exclusion is target or (type(exclusion) is str and exclusion == name) for exclusion in excluded)


def _can_be_asked(target: Any) -> bool:
    """Whether hashing a target, and reading its attributes, runs no code of the program."""
    return type(target) is str or reading.only_stores(type(target))


def _registry() -> Any:
    module = sys.modules.get("torch_tensorrt.dynamo.conversion._ConverterRegistry")
    return getattr(module, "DYNAMO_CONVERTERS", None)


def _converters(target: Any) -> Iterator[Any]:
    if not _can_be_asked(target):
        return
    for registry in reading.entries(attribute(_registry(), "registries")) or ():
        converters = registry.get(target, ()) if type(registry) is dict else ()
        yield from converters if reading.exactly(converters, list, tuple) else (converters,)


def _has_setting(name: str) -> bool:
    return reading.switch(attribute(attribute(_registry(), "compilation_settings"), name)) is True


def left_in_torch(nodes: Iterable[Any], scratch: Scratch) -> Left:
    """Each node of the graph that was partitioned and stays in PyTorch.

    A node that a converter accepts stays only because its group was smaller than `min_block_size`. Nodes that
    splitting added (they unpack what an engine returns) have no verdict and are not operators of the model.
    """
    verdicts = scratch.get(VERDICTS, {})
    judged = ((node, verdicts.get(node.name)) for node in filter(is_node, nodes))
    return [
        LeftNode(
            operator_name(node.target),
            FallbackReason.MIN_BLOCK_SIZE if verdict == SUPPORTED else verdict,
            meta(node, "stack_trace"),
        )
        for node, verdict in judged
        if verdict is not None
    ]


def unsupported(nodes: Iterable[Any], scratch: Scratch) -> Facts:
    """The operators that no converter accepts, in a graph that was to run in TensorRT as a whole."""
    left = [node for node in left_in_torch(nodes, scratch) if node.reason != FallbackReason.MIN_BLOCK_SIZE]
    if not left:
        return {}
    return {**dict(zip(UNSUPPORTED_KEYS, _listed(left), strict=False)), **_refused(left, scratch)}


def _refused(left: Left, scratch: Scratch) -> Facts:
    return refusal.facts(scratch, {node.operator for node in left})


def unsupported_totals(scratch: Scratch) -> Facts:
    """The number of operators of a graph that were not to run in TensorRT, by reason: as planned, or by the verdicts so far."""
    plan: Facts | None = scratch.get(PLAN)
    if plan is not None:
        reasons, counts = (
            plan.get(key, ()) for key in (semconv.FALLBACK_TOTAL_REASONS, semconv.FALLBACK_TOTAL_OPERATORS)
        )
    else:
        verdicts = Counter(verdict for verdict in scratch.get(VERDICTS, {}).values() if verdict != SUPPORTED)
        reasons, counts = sorted(verdicts), [verdicts[verdict] for verdict in sorted(verdicts)]
    return {semconv.UNSUPPORTED_TOTAL_REASONS: reasons, semconv.UNSUPPORTED_TOTAL_OPERATORS: counts} if reasons else {}


def piece_reason(left: Left) -> str | None:
    """The reason for which a piece of the graph runs in PyTorch: that of most of its operators."""
    reasons = Counter(node.reason for node in left)
    return min(reasons, key=lambda reason: (-reasons[reason], reason), default=None)


def totals(operators: Counter[str], pieces: Counter[str]) -> Facts:
    """The number of operators and pieces of the graph that each reason left to PyTorch. Exact even if the lists are cut."""
    reasons = sorted(operators.keys() | pieces.keys(), key=lambda reason: (-operators[reason], reason))
    return {
        semconv.FALLBACK_TOTAL_REASONS: reasons,
        semconv.FALLBACK_TOTAL_OPERATORS: [operators[reason] for reason in reasons],
        semconv.FALLBACK_TOTAL_SUBGRAPHS: [pieces[reason] for reason in reasons],
    }


def facts(left: Left, pieces: Counter[str], scratch: Scratch) -> Facts:
    """The attributes for what was left: operators, counts, reasons and places as parallel lists, most frequent first.

    Args:
        pieces: How many pieces of the graph each reason left.
    """
    if not left:
        return {}
    by_reason = Counter(node.reason for node in left)
    names, counts, reasons, places, place_counts, *omitted = _listed(left)
    result: Facts = {
        **totals(by_reason, pieces),
        semconv.FALLBACK_REASON_CLASSES: [reason for reason, _ in by_reason.most_common()],
        semconv.FALLBACK_OPERATOR_NAMES: names,
        semconv.FALLBACK_OPERATOR_COUNTS: counts,
        semconv.FALLBACK_OPERATOR_REASONS: reasons,
        semconv.FALLBACK_OPERATOR_PLACES: places,
        semconv.FALLBACK_OPERATOR_PLACE_COUNTS: place_counts,
        **_refused(left, scratch),
    }
    variants = sorted({node.operator for node in left if _OF_THE_CPU.search(node.operator)})
    if variants and stand_in(reading.loaded("torch.cuda", "current_device")):
        result[semconv.FALLBACK_OPERATORS_STAND_IN] = variants[:LIST_LIMIT]
    if omitted:
        result[semconv.FALLBACK_OPERATORS_OMITTED] = omitted[0]
    return result


def _listed(left: Left) -> list[Any]:
    """Names, counts, reasons, first places and numbers of places. Then the number of kinds that are left out, if any.

    The most frequent kind is first. The order of the places of a kind is that of the graph.
    """
    ranked = sorted(Counter((node.operator, node.reason) for node in left).items(), key=lambda row: (-row[1], row[0]))
    shown = ranked[:LIST_LIMIT]
    stacks: dict[tuple[str, str], dict[Any, None]] = {kind: {} for kind, _ in shown}
    for node in left:
        if type(node.stack) is str and (node.operator, node.reason) in stacks:
            stacks[node.operator, node.reason][node.stack] = None
    places = [list(dict.fromkeys(map(_line, stacks[kind]))) for kind, _ in shown]
    return [
        [name for (name, _), _ in shown],
        [count for _, count in shown],
        [reason for (_, reason), _ in shown],
        [next((line for line in lines if line != UNKNOWN), UNKNOWN) for lines in places],
        [sum(line != UNKNOWN for line in lines) for lines in places],
        *([len(ranked) - LIST_LIMIT] if len(ranked) > LIST_LIMIT else []),
    ]


def _line(stack: str) -> str:
    """`net.py:12`, where the program calls the operator; `?` if only libraries do."""
    where = place.of_stack(stack)
    return UNKNOWN if where is None else f"{where.file}:{where.line}"
