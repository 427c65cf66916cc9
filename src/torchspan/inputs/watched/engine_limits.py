# SPDX-License-Identifier: Apache-2.0
"""What an engine was built for, and how the calls of a model compare with it: what lies outside, and how far from opt.

Pure data: sizes, and no tensor. The optimization profile of an engine gives each dimension of each input a smallest and a
largest size, and the size that TensorRT chose its kernels for (opt). Torch-TensorRT builds an engine with one profile.
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
class Fit:
    """How one shape compares with an engine.

    Args:
        outside: Empty where it fits.
        is_at_opt: Every dimension that may vary has the size that the engine was optimized for. False where no such
            dimension is known.
    """

    outside: tuple[Outside, ...]
    is_at_opt: bool

    @property
    def name(self) -> str:
        """`opt`, `inside` or `outside`."""
        if self.outside:
            return "outside"
        return "opt" if self.is_at_opt else "inside"


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What an engine was built for: the range of each dimension of each tensor that it is known for."""

    ranges: Mapping[Path, tuple[SizeRange, ...]]

    def fit(self, shapes: Shapes) -> Fit:
        """How a shape compares with it."""
        outside, sizes = tuple(self._outside(shapes)), self.dynamic(shapes)
        return Fit(outside, not outside and bool(sizes) and all(size == opt for size, opt in sizes.values()))

    def _outside(self, shapes: Shapes) -> Iterator[Outside]:
        """The dimensions that lie outside, in the order of the tensors. Tensors that it is not known for are left out."""
        for path, shape in shapes.items():
            ranges = self.ranges.get(path)
            if ranges is None:
                continue
            if len(ranges) != len(shape):
                yield Outside(path, None, len(shape), len(ranges), len(ranges))
                continue
            for axis, (size, range_of_axis) in enumerate(zip(shape, ranges, strict=True)):
                if size not in range_of_axis:
                    yield Outside(path, axis, size, range_of_axis.low, range_of_axis.high)

    def dynamic(self, shapes: Shapes) -> dict[tuple[Path, int], tuple[int, int]]:
        """Path and axis of the dimensions that may vary -> the size there and opt, where opt is known."""
        return {
            (path, axis): (size, range_of_axis.opt)
            for path, shape in shapes.items()
            if len(self.ranges.get(path, ())) == len(shape)
            for axis, (size, range_of_axis) in enumerate(zip(shape, self.ranges[path], strict=True))
            if range_of_axis.is_dynamic and range_of_axis.opt is not None
        }


# --- drift -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class UsualSize:
    """The most frequent size of one dimension that may vary.

    Args:
        calls: How many calls have it.
        opt: The size that the engine was optimized for.
    """

    path: Path
    axis: int
    size: int
    calls: int
    opt: int


@dataclass(frozen=True, slots=True)
class Drift:
    """How the calls until now compare with what an engine was built for.

    Args:
        calls: Those whose shape is known.
        at_opt: How many of them have opt in every dimension that may vary.
        usual: Of each dimension that may vary.
    """

    calls: int
    at_opt: int
    usual: tuple[UsualSize, ...]

    @property
    def most_usual_elsewhere(self) -> UsualSize | None:
        """The usual size that is not opt and that most calls have. None where all are opt."""
        away = [dimension for dimension in self.usual if dimension.size != dimension.opt]
        return max(away, key=lambda dimension: dimension.calls, default=None)


def drift(limits: EngineLimits, counted: Iterable[tuple[Shapes, Fit, int]]) -> Drift:
    """Sum up calls.

    Args:
        counted: Shapes, how they fit the limits, and in how many calls they were.
    """
    calls = at_opt = 0
    sizes: dict[tuple[Path, int], Counter[int]] = {}
    opts: dict[tuple[Path, int], int] = {}
    for shapes, fit, count in counted:
        calls += count
        at_opt += count if fit.is_at_opt else 0
        for place, (size, opt) in limits.dynamic(shapes).items():
            sizes.setdefault(place, Counter())[size] += count
            opts[place] = opt
    usual = []
    for (path, axis), counter in sizes.items():
        size, count = max(counter.items(), key=lambda item: (item[1], item[0]))
        usual.append(UsualSize(path, axis, size, count, opts[path, axis]))
    return Drift(calls, at_opt, tuple(usual))


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
        self._beyond: Counter[str] = Counter()
        """Calls whose shapes are not kept, by how they fit."""

    def new_shape(self, shape: CallShape) -> Action | None:
        """See `Follower`."""
        shapes = {path: leaf.shape for path, leaf in shape.tensors.items()}
        fit = self._limits.fit(shapes)
        if shape.number is not None:
            self._kept.append((shape, shapes, fit))
        else:
            self._beyond[fit.name] += 1
        return (lambda _shape: self._report(fit.outside)) if fit.outside else None

    def sampled(self, shape: CallShape, *, is_new: bool) -> None:
        """See `Follower`."""

    # --- what is known of all calls ----------------------------------------------------------------------------------
    def counts(self) -> Counter[str]:
        """Calls so far, by how they fit."""
        counts = self._beyond.copy()
        for shape, _, fit in list(self._kept):
            counts[fit.name] += shape.count
        return counts

    def drift(self) -> Drift:
        """How the calls whose shapes are kept compare with the limits."""
        return drift(self._limits, [(shapes, fit, shape.count) for shape, shapes, fit in list(self._kept)])
