# SPDX-License-Identifier: Apache-2.0
"""What an engine was built for, and how the calls of a model compare with it: what lies outside, and how far from opt.

Pure data: sizes, and no tensor. An optimization profile gives each dimension of each input a smallest and a largest size, and
the size that TensorRT chose its kernels for (opt). A shape fits an engine if it lies inside one of its profiles as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from torchspan.inputs.observed.leaves import Path
from torchspan.inputs.watched.traffic import Action, CallShape

Shapes = Mapping[Path, tuple[int, ...]]
"""The shapes of the tensors of one call, by path."""


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The sizes that one dimension may have.

    Args:
        low, high: The smallest and the largest; high is None where there is no limit.
        opt: The size that the engine was optimized for; None where that is not known.
    """

    low: int
    opt: int | None
    high: int | None

    def __contains__(self, size: int) -> bool:
        return self.low <= size and (self.high is None or size <= self.high)

    @property
    def is_dynamic(self) -> bool:
        return self.low != self.high


@dataclass(frozen=True, slots=True)
class Outside:
    """A dimension whose size an engine was not built for.

    Args:
        axis: Its position; None where the tensor has another number of dimensions, which then is `size`, `low` and
            `high`.
    """

    path: Path
    axis: int | None
    size: int
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Profile:
    """One optimization profile: the range of each dimension of each tensor that it is known for."""

    ranges: Mapping[Path, tuple[SizeRange, ...]]

    def outside(self, shapes: Shapes) -> tuple[Outside, ...]:
        """The dimensions that lie outside, in the order of the tensors. Tensors that it is not known for are left out."""
        outside = []
        for path, shape in shapes.items():
            ranges = self.ranges.get(path)
            if ranges is None:
                continue
            if len(ranges) != len(shape):
                outside.append(Outside(path, None, len(shape), len(ranges), len(ranges)))
                continue
            for axis, (size, range_of_axis) in enumerate(zip(shape, ranges, strict=True)):
                if size not in range_of_axis:
                    outside.append(Outside(path, axis, size, range_of_axis.low, range_of_axis.high))
        return tuple(outside)

    def dynamic(self, shapes: Shapes) -> dict[tuple[Path, int], tuple[int, int]]:
        """Path and axis of the dimensions that may vary -> the size there and opt, where opt is known."""
        return {
            (path, axis): (size, range_of_axis.opt)
            for path, shape in shapes.items()
            if len(self.ranges.get(path, ())) == len(shape)
            for axis, (size, range_of_axis) in enumerate(zip(shape, self.ranges[path], strict=True))
            if range_of_axis.is_dynamic and range_of_axis.opt is not None
        }


@dataclass(frozen=True, slots=True)
class Fit:
    """How one shape compares with an engine.

    Args:
        profile: The number of the profile that it fits, or of the nearest one, with fewest dimensions outside.
        outside: Empty where it fits.
        is_at_opt: Every dimension that may vary has the size that the engine was optimized for; None where no such
            dimension is known.
    """

    profile: int
    outside: tuple[Outside, ...]
    is_at_opt: bool | None


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What an engine was built for.

    Args:
        profiles: At least one.
    """

    profiles: tuple[Profile, ...]

    def fit(self, shapes: Shapes) -> Fit:
        """How a shape compares with it: with the first profile that it is at the opt of, or fits, or nearly fits."""
        fits = []
        for number, profile in enumerate(self.profiles):
            outside, sizes = profile.outside(shapes), profile.dynamic(shapes)
            is_at_opt = all(size == opt for size, opt in sizes.values()) if sizes else None
            fits.append(Fit(number, outside, is_at_opt and not outside))
        return min(fits, key=lambda fit: (len(fit.outside), not fit.is_at_opt, fit.profile))


# --- drift -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class UsualSize:
    """The most frequent size of one dimension that may vary.

    Args:
        calls: How many calls have it.
        of: How many calls have this dimension and fit the profile.
        opt: The size that the engine was optimized for.
    """

    path: Path
    axis: int
    size: int
    calls: int
    of: int
    opt: int

    @property
    def distance(self) -> float:
        """How far the usual size is from opt, as a share of opt: 0.5 for 4 or 12 where opt is 8."""
        return abs(self.size - self.opt) / max(self.opt, 1)


@dataclass(frozen=True, slots=True)
class Drift:
    """How the calls until now compare with what an engine was built for.

    Args:
        calls: Those whose shape is known.
        at_opt, outside: How many of them have opt in every dimension that may vary, and how many do not fit.
        usual: Of each dimension that may vary.
    """

    calls: int
    at_opt: int
    outside: int
    usual: tuple[UsualSize, ...]

    @property
    def distance(self) -> float | None:
        """Of the usual sizes the farthest from opt, as a share of opt; None where no dimension may vary."""
        return max((dimension.distance for dimension in self.usual), default=None)

    @property
    def most_usual_elsewhere(self) -> UsualSize | None:
        """The usual size that is not opt and that most calls have; of those the farthest. None where all are opt."""
        away = [dimension for dimension in self.usual if dimension.size != dimension.opt]
        return max(away, key=lambda dimension: (dimension.calls, dimension.distance), default=None)


def drift(limits: EngineLimits, counted: Iterable[tuple[Shapes, Fit, int]]) -> Drift:
    """Sum up calls.

    Args:
        counted: Shapes, how they fit the limits, and in how many calls they were.
    """
    calls = at_opt = outside = 0
    sizes: dict[tuple[int, Path, int], Counter[int]] = {}
    opts: dict[tuple[int, Path, int], int] = {}
    for shapes, fit, count in counted:
        calls += count
        at_opt += count if fit.is_at_opt else 0
        outside += count if fit.outside else 0
        for (path, axis), (size, opt) in limits.profiles[fit.profile].dynamic(shapes).items():
            place = fit.profile, path, axis
            sizes.setdefault(place, Counter())[size] += count
            opts[place] = opt
    usual = []
    for place, counter in sizes.items():
        _, path, axis = place
        size, count = max(counter.items(), key=lambda item: (item[1], item[0]))
        usual.append(UsualSize(path, axis, size, count, counter.total(), opts[place]))
    return Drift(calls, at_opt, outside, tuple(usual))


class LimitWatch:
    """Compares each shape with the limits once, reports each call outside of them, and knows how the others are distributed.

    Args:
        report: Called at each call outside, in its thread and before the module runs, with the dimensions that lie
            outside.
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
