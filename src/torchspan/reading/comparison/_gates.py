# SPDX-License-Identifier: Apache-2.0
"""Conditions under which a comparison fails: rules about structure, and thresholds on time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from torchspan.reading.comparison._exact_test import FEWEST
from torchspan.reading.comparison._pairs import Comparison
from torchspan.reading.comparison._sides import ComparisonError
from torchspan.reading.comparison._times import TimeRow

GATES = ("fallback", "coverage", "engines", "cache", "recompiles", "breaks", "errors")
"""The gates on structure: kinds of changes."""
WHOLE = ""
"""The stage that stands for the whole compilation."""


def crossed_rules(comparison: Comparison, gates: Collection[str]) -> Iterator[str]:
    """The gates on structure that are crossed, in words.

    `engines` is crossed by any engine that is new or gone, the others by what is worse on the second side.

    Args:
        comparison: The two sides.
        gates: Some of `GATES`.
    """
    for change in comparison.changes:
        if change.kind in gates and (change.is_worse or change.kind == "engines"):
            yield f"{change.kind}: {change.sentence(comparison.base.name, comparison.new.name)}"


def crossed_thresholds(comparison: Comparison, limits: Mapping[str, float]) -> Iterator[str]:
    """The limits on time that are crossed, in words: those above which the whole 95 % interval of a ratio lies.

    Args:
        comparison: The two sides.
        limits: By stage, or `WHOLE`, how much longer the second side may take: 0.1 for 10 %.

    Raises:
        ComparisonError: There are too few runs, or no such stage.
    """
    for stage, limit in limits.items():
        rows = _rows(comparison, stage)
        for name, row in rows.items():
            if row.ratio is None:
                runs = (
                    f"{comparison.base.name} has {len(row.base_runs_s)} and {comparison.new.name} {len(row.new_runs_s)}"
                )
                raise ComparisonError(f"a limit on time needs {FEWEST} runs a side; of {name}, {runs}")
            if row.ratio[0] > 1 + limit:
                sides = f"{comparison.base.name} → {comparison.new.name}"
                yield f"time: {name}: {sides} at least +{100 * (row.ratio[0] - 1):.1f} %, above {100 * limit:g} %"


def _rows(comparison: Comparison, stage: str) -> dict[str, TimeRow]:
    """The rows that a limit concerns, by what the message calls them. Raises ComparisonError if there is none."""
    if stage == WHOLE:
        return {pair.name: pair.whole for pair in comparison.pairs}
    rows = {pair.name: pair.times.stage_row(stage) for pair in comparison.pairs}
    if not any(rows.values()):
        stages = ", ".join(dict.fromkeys(name for pair in comparison.pairs for name in pair.times.stages()))
        raise ComparisonError(f"no stage {stage} in either side; the outermost stages are {stages}")
    return {f"{stage} of {name}": row for name, row in rows.items() if row is not None}
