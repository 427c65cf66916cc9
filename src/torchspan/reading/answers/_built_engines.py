# SPDX-License-Identifier: Apache-2.0
"""The engines that were built or taken from the engine cache, by the model and the modules that are in them."""

from __future__ import annotations

from torchspan.reading.answers._attributes import number, strings
from torchspan.reading.answers._kinds_of_answer import BuiltEngine
from torchspan.reading.answers._wording import words
from torchspan.reading.answers.units import duration, size
from torchspan.reading.traces import Attributes, Node, UnfinishedSpan
from torchspan.words import phase, semconv

_CONVERSIONS = frozenset(row.name for row in phase.CONVERSIONS)


def engines(nodes: list[Node]) -> list[BuiltEngine]:
    """Every engine, the one that took longest first."""
    converted: set[int] = set()
    result = []
    for node in nodes:
        is_conversion = node.span.name in _CONVERSIONS
        if is_conversion or id(node.parent) in converted:
            converted.add(id(node))
        is_build = is_conversion or (node.span.name == phase.BUILD_ENGINE.name and id(node) not in converted)
        if is_build and not (node.span.is_error or isinstance(node.span, UnfinishedSpan)):
            result.append(_engine(node))
    return sorted(result, key=lambda engine: -engine.s)


def engine_name(attributes: Attributes) -> str:
    """`ResNet · layer2.0 … layer4.1`; the name of the subgraph where the modules are not known, and empty without one."""
    modules = strings(attributes, semconv.ENGINE_MODULES)
    own = " … ".join(modules) or str(attributes.get(semconv.ENGINE_NAME) or "")
    return " · ".join(filter(None, [str(attributes.get(semconv.MODEL_CLASS) or ""), own]))


def _engine(node: Node) -> BuiltEngine:
    attributes = node.span.attributes
    bytes_, operators = number(attributes, semconv.ENGINE_SIZE), number(attributes, semconv.ENGINE_OPERATORS)
    name = engine_name(attributes) or node.span.name
    facts = [duration(node.span.duration_ns), *([] if bytes_ is None else [size(bytes_)])]
    return BuiltEngine(
        sentence_pieces=words(f"{name}: {', '.join(facts)}"),
        name=str(attributes.get(semconv.ENGINE_NAME) or ""),
        model=str(attributes.get(semconv.MODEL_CLASS) or ""),
        modules=tuple(strings(attributes, semconv.ENGINE_MODULES)),
        s=node.span.duration_ns / 1e9,
        bytes=None if bytes_ is None else int(bytes_),
        operators=None if operators is None else int(operators),
        cache=str(attributes.get(semconv.CACHE_RESULT) or ""),
        node=node,
    )
