# SPDX-License-Identifier: Apache-2.0
"""Spans with the operators of PyTorch that ran inside them, as literal tables and as spans."""

from torchspan.words import semconv as s


def table(*rows):
    """The attributes of a table. rows: name, how often, milliseconds in all, of its own, of the longest run."""
    names, counts, total, own, longest = zip(*rows, strict=True)
    return {
        s.OPERATORS_NAMES: list(names),
        s.OPERATORS_COUNTS: list(counts),
        s.OPERATORS_DURATIONS: [ms / 1000 for ms in total],
        s.OPERATORS_SELF: [ms / 1000 for ms in own],
        s.OPERATORS_LONGEST: [ms / 1000 for ms in longest],
    }


def operator(recording, name, start_ms, end_ms, parent, attributes=None, **options):
    """The span of an operator below another span."""
    facts = {s.OPERATOR_NAME: name, **(attributes or {})}
    return recording.span(f"torch.operator {name}", start_ms, end_ms, facts, parent=parent, **options)
