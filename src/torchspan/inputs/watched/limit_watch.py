# SPDX-License-Identifier: Apache-2.0
"""The calls of one compiled module against what its engines were built for: `Follower` of its traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torchspan.inputs.watched.engine_limits import Drift, EngineLimits, Fit, Outside, Shapes, drift
from torchspan.inputs.watched.traffic import Action, CallShape


class LimitWatch:
    """Compares each shape with the limits once, reports each call outside of them, and knows how the others are distributed.

    report: called at each call outside, in its thread and before the module runs, with the dimensions that lie outside.
    """

    def __init__(self, limits: EngineLimits, report: Callable[[tuple[Outside, ...]], None]) -> None:
        self._limits = limits
        self._report = report
        self._kept: list[tuple[CallShape, Shapes, Fit]] = []
        self._beyond: dict[bool | None, int] = {True: 0, False: 0, None: 0}
        """Calls whose shapes are not kept, by whether they are at opt."""
        self._beyond_outside = 0

    def new_shape(self, shape: CallShape) -> Action | None:
        """See `Follower`."""
        shapes = {path: leaf.shape for path, leaf in shape.tensors.items()}
        fit = self._limits.fit(shapes)
        if shape.number is not None:
            self._kept.append((shape, shapes, fit))
        elif fit.outside:
            self._beyond_outside += 1
        else:
            self._beyond[fit.is_at_opt] += 1
        return (lambda _shape: self._report(fit.outside)) if fit.outside else None

    def sampled(self, shape: CallShape, *, is_new: bool) -> None:
        """See `Follower`."""

    # --- what is known of all calls ----------------------------------------------------------------------------------
    def outside(self) -> int:
        """Calls so far that do not fit."""
        return self._beyond_outside + sum(count for fit, count in self._counted() if fit.outside)

    def at_opt(self) -> int:
        """Calls so far with opt in every dimension that may vary."""
        return self._beyond[True] + sum(count for fit, count in self._counted() if fit.is_at_opt)

    def inside(self) -> int:
        """Calls so far that fit, with another size than opt in a dimension that may vary, or without such a dimension."""
        counted = sum(count for fit, count in self._counted() if not fit.outside and not fit.is_at_opt)
        return self._beyond[False] + self._beyond[None] + counted

    def _counted(self) -> Iterator[tuple[Fit, int]]:
        return ((fit, shape.count) for shape, _, fit in list(self._kept))

    def drift(self) -> Drift:
        """How the calls whose shapes are kept compare with the limits."""
        return drift(self._limits, [(shapes, fit, shape.count) for shape, shapes, fit in list(self._kept)])
