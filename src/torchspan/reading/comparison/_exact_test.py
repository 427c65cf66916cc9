# SPDX-License-Identifier: Apache-2.0
"""Exact statistics of two small samples: Mann and Whitney's test, the interval of a ratio that follows from it, and Holm's correction."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

LEVEL = 0.05
"""From this probability on, chance may have made a difference."""
FEWEST = 4
"""Values a side from which on a difference can be judged: with 3 and 3 the smallest p is 0.1."""
MOST = 50
"""Values a side that the test can take: as many as benchstat's exact test takes."""


def p_value(base: Sequence[float], new: Sequence[float]) -> float:
    """The probability that chance alone separates two samples at least as much: Mann and Whitney's exact test, two-sided.

    All ways to split the values into two samples are counted, equal values included. The result is twice the smaller tail, at most 1.

    Args:
        base: The first sample, 1 to `MOST` values.
        new: The second sample, 1 to `MOST` values.

    Returns:
        The probability, from 0 to 1. 1 if all values are equal.
    """
    ranks = _doubled_ranks([*base, *new])
    ways = _ways(len(base), tuple(sorted(ranks)))
    rank_sum = sum(ranks[: len(base)])
    below, above = sum(ways[: rank_sum + 1]), sum(ways[rank_sum:])
    return min(1.0, 2 * min(below, above) / math.comb(len(ranks), len(base)))


def ratio_interval(base: Sequence[float], new: Sequence[float]) -> tuple[float, float]:
    """The ratios of new to base that the test does not reject: shifts of the logarithms, at a level of 95 % or more.

    The distribution is that of samples without equal values.

    Args:
        base: The first sample, 1 to `MOST` positive values.
        new: The second sample, 1 to `MOST` positive values.

    Returns:
        The smallest and the largest ratio; 0 and infinity where the samples are too small to reject any.
    """
    shifts = sorted(math.log(after) - math.log(before) for before in base for after in new)
    rejected = _rejected(len(base), len(new))
    if not rejected:
        return 0.0, math.inf
    return math.exp(shifts[rejected - 1]), math.exp(shifts[-rejected])


def after_holm(p_values: Sequence[float]) -> list[float]:
    """The probabilities after Holm's correction: at most 5 % of families have one below 0.05 by chance.

    Args:
        p_values: Those of one family.

    Returns:
        The corrected ones, in the same order, at most 1.
    """
    corrected, largest = list(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, which is a whole number also where equal values share their mean rank."""
    ordered = sorted(values)
    first: dict[float, int] = {}
    last: dict[float, int] = {}
    for rank, value in enumerate(ordered, 1):
        first.setdefault(value, rank)
        last[value] = rank
    return [first[value] + last[value] for value in values]


@functools.lru_cache(maxsize=64)
def _ways(size: int, ranks: tuple[int, ...]) -> list[int]:
    """In how many ways `size` of the ranks have each sum, from 0 to the sum of all.

    A polynomial is one integer with its coefficients side by side, so that adding a rank is a shift.
    """
    bits = len(ranks) + 1  # no coefficient reaches 2 ** len(ranks)
    by_size = [1] + [0] * size
    for count, rank in enumerate(ranks, 1):
        for chosen in range(min(count, size), 0, -1):
            by_size[chosen] += by_size[chosen - 1] << (rank * bits)
    width = bits * (sum(ranks) + 1)
    digits = f"{by_size[size]:0{width}b}"
    return [int(digits[end - bits : end], 2) for end in range(width, 0, -bits)]


@functools.lru_cache(maxsize=64)
def _rejected(before: int, after: int) -> int:
    """How many of the ordered shifts lie outside of the interval at each end, counted as the first that bounds it."""
    ranks = tuple(range(2, 2 * (before + after) + 1, 2))
    ways = _ways(before, ranks)
    tail, total = 0, math.comb(before + after, before)
    for rejected, count in enumerate(ways[before * (before + 1) :: 2]):
        tail += count
        if 2 * tail / total >= LEVEL:
            return rejected
    raise AssertionError  # the tails end with all ways
