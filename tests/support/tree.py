# SPDX-License-Identifier: Apache-2.0
"""Spans as nested literals, so that a test can show a whole tree."""

import itertools
from dataclasses import dataclass
from typing import Any


class Any_:
    """Equal to every value of a type; shows as what it stands for."""

    def __init__(self, kind, check=lambda _value: True, name=None):
        self.kind, self.check, self.name = kind, check, name or f"<{kind.__name__}>"

    def __eq__(self, other):
        return type(other) is self.kind and self.check(other)

    def __hash__(self):
        return 0

    def __repr__(self):
        return self.name


INT = Any_(int)
POSITIVE = Any_(int, lambda value: value > 0, "<int above 0>")
TEXT = Any_(str)
SECONDS = Any_(tuple, lambda values: all(type(value) is float and value >= 0 for value in values), "<seconds each>")
COUNTS = Any_(tuple, lambda values: values and all(type(value) is int and value > 0 for value in values), "<counts>")
NAMES = Any_(tuple, lambda values: values and all(type(value) is str for value in values), "<names>")


def in_any_order(*names):
    """Equal to a tuple of exactly these names, whatever their order: what is ranked by time is ranked again each time."""
    return Any_(tuple, lambda values: sorted(values) == sorted(names), f"<{names} in any order>")


def called_at(path, function):
    """The place of a call in the program, in any line of the function."""
    return {"code.file.path": path, "code.function.name": function, "code.line.number": INT}


MEMORY = {
    "tensorrt.build.memory.before": POSITIVE,
    "tensorrt.build.memory.peak": POSITIVE,
    "tensorrt.build.memory.peak_sampled": Any_(bool),
}
"""Memory of the process, which the tests are only a part of."""

BUILDER = {
    **MEMORY,
    "tensorrt.builder.flags": ("TF32",),
    "tensorrt.builder.optimization_level": 3,
    "tensorrt.builder.workspace_size": 68719476736,
}
"""A build with the default configuration."""

STEPS = {
    "torchspan.steps.names": NAMES,
    "torchspan.steps.counts": COUNTS,
    "torchspan.steps.durations": SECONDS,
}
"""The attributes of short steps; which steps there were is asked where it matters."""


@dataclass
class Tree:
    """A span with its children in the order of their starts. Unequal trees show where they differ in a diff."""

    name: str
    attributes: dict[str, Any]
    children: list["Tree"]

    def lines(self, depth=0):
        """The tree by names alone, indented."""
        yield "  " * depth + self.name
        for child in self.children:
            yield from child.lines(depth + 1)

    def find(self, name):
        """Every span of that name, depth first."""
        return [self] * (self.name == name) + [found for child in self.children for found in child.find(name)]


def S(name, attributes, *children):
    """Short for a literal Tree."""
    return Tree(name, attributes, list(children))


def without_clocks(attributes):
    """Attributes without the times on the processor, which are on spans of at least 1 ms: their own tests look at them."""
    return {key: value for key, value in attributes.items() if not key.startswith("torchspan.cpu.")}


def _steady(attributes):
    return {key: value for key, value in without_clocks(attributes).items() if key != "thread.id"}


def trees(spans):
    """Finished spans as trees, roots in the order of their starts, without times on the processor and ids of threads."""
    ordered = sorted(spans, key=lambda span: (span.start_time, -(span.end_time or 0)))
    nodes = {span.context.span_id: Tree(span.name, _steady(span.attributes), []) for span in ordered}
    roots = []
    for span in ordered:
        parent = nodes.get(span.parent.span_id) if span.parent else None
        (roots if parent is None else parent.children).append(nodes[span.context.span_id])
    return roots


def outline(spans):
    """Finished spans as indented names, one string a root."""
    return ["\n".join(tree.lines()) for tree in trees(spans)]


def named(spans, name):
    """The one span of that name."""
    (found,) = [span for span in spans if span.name == name]
    return found


def assert_times_nest(spans):
    """Each child lies inside its parent, and siblings of one thread do not overlap."""
    by_id = {span.context.span_id: span for span in spans}
    siblings = {}
    for span in spans:
        assert span.start_time <= span.end_time, span.name
        around = by_id.get(span.parent.span_id) if span.parent else None
        if around is not None:
            assert around.start_time <= span.start_time <= span.end_time <= around.end_time, (around.name, span.name)
            siblings.setdefault(span.parent.span_id, []).append((span.start_time, span.end_time, span.name))
    for group in siblings.values():
        for (_, end, first), (start, _, second) in itertools.pairwise(sorted(group)):
            assert end <= start, (first, second)


def assert_trees(spans, expected):
    """The finished spans are these trees; a failure lists every place where they are not."""
    found = differences(trees(spans), expected)
    assert not found, "\n".join(["the trees differ:", *found])


def differences(actual, expected, path=""):
    """Where two lists of trees differ, one line a place; empty when they are equal."""
    lines = []
    if [tree.name for tree in actual] != [tree.name for tree in expected]:
        return [f"{path or 'roots'}: got {[t.name for t in actual]}, expected {[t.name for t in expected]}"]
    for got, wanted in zip(actual, expected, strict=True):
        place = f"{path}/{got.name}"
        for key in sorted(got.attributes.keys() | wanted.attributes.keys()):
            if got.attributes.get(key) != wanted.attributes.get(key):
                lines.append(f"{place} {key}: got {got.attributes.get(key)!r}, expected {wanted.attributes.get(key)!r}")
        lines += differences(got.children, wanted.children, place)
    return lines
