# SPDX-License-Identifier: Apache-2.0
"""Mann and Whitney's exact test, its interval of a ratio and Holm's correction, against benchstat and against counting."""

import itertools
import math
import random
import re
import subprocess

import pytest

from support.needs import program
from torchspan.reading.comparison._exact_test import MOST, after_holm, p_value, ratio_interval

SEEDED = random.Random(30)


def samples(before, after, largest):
    """Two samples of whole numbers; a small `largest` makes many of them equal."""
    return tuple([SEEDED.randint(1, largest) for _ in range(size)] for size in (before, after))


def counted(base, new):
    """The same by counting every split of the values into two samples."""
    values, size = [*base, *new], len(base)

    def pairs(chosen):
        rest = [values[index] for index in range(len(values)) if index not in chosen]
        return sum((2 if values[index] > other else int(values[index] == other)) for index in chosen for other in rest)

    seen = pairs(range(size))
    every = [pairs(chosen) for chosen in itertools.combinations(range(len(values)), size)]
    tails = sum(pairs <= seen for pairs in every), sum(pairs >= seen for pairs in every)
    return min(1, 2 * min(tails) / len(every))


@pytest.mark.parametrize("largest", [2, 6, 1_000_000], ids=["many equal", "some equal", "none equal"])
def test_the_p_is_that_of_counting_every_split(largest):
    for _ in range(60):
        base, new = samples(SEEDED.randint(1, 5), SEEDED.randint(1, 5), largest)
        assert p_value(base, new) == pytest.approx(counted(base, new), abs=1e-12)


@pytest.mark.needs("benchstat")
def test_the_p_of_300_pairs_is_what_benchstat_prints(tmp_path):
    pairs = [samples(size, size, largest) for size in range(2, 12) for largest in (3, 20, 100_000) for _ in range(10)]
    assert len(pairs) == 300
    for side, name in enumerate(("base", "new")):
        lines = [
            f"BenchmarkPair{number:03} 1 {value} ns/op" for number, pair in enumerate(pairs) for value in pair[side]
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    command = [program("benchstat"), "-format", "csv", "base", "new"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    found = {int(name): p for name, p in re.findall(r"^Pair(\d+),.*,p=([\d.]+) n=", printed, re.MULTILINE)}
    assert found == {number: f"{p_value(*pair):.3f}" for number, pair in enumerate(pairs)}


@pytest.mark.parametrize(
    ("before", "after", "p"), [(3, 3, 0.1), (4, 4, 0.02857), (5, 5, 0.00794), (6, 6, 0.00216), (4, 7, 0.00606)]
)
def test_the_smallest_p_is_that_of_samples_that_do_not_overlap(before, after, p):
    assert p_value(range(before), range(100, 100 + after)) == pytest.approx(p, rel=0.01)


def test_equal_values_are_never_different():
    assert p_value([7] * 9, [7] * 9) == 1


def test_the_test_does_not_depend_on_which_side_is_first():
    for _ in range(50):
        base, new = samples(6, 4, 8)
        assert p_value(base, new) == p_value(new, base)


def test_fifty_values_a_side_are_judged_exactly():
    assert p_value(range(MOST), range(MOST, 2 * MOST)) == pytest.approx(2 / math.comb(2 * MOST, MOST))


# --- the interval -----------------------------------------------------------------------------------------------------
def test_with_4_values_a_side_the_interval_is_between_the_extreme_ratios():
    assert ratio_interval([10, 11, 12, 13], [20, 22, 24, 26]) == pytest.approx((20 / 13, 26 / 10))


def test_with_3_values_a_side_no_ratio_is_rejected():
    assert ratio_interval([1, 2, 3], [10, 20, 30]) == (0.0, math.inf)


def test_the_interval_has_exactly_the_ratios_that_the_test_does_not_reject():
    for _ in range(40):
        base, new = ([SEEDED.uniform(1, 2) for _ in range(SEEDED.randint(4, 7))] for _ in range(2))
        low, high = ratio_interval(base, new)
        for ratio, is_inside in (
            (low * 1.0001, True),
            (high / 1.0001, True),
            (low / 1.0001, False),
            (high * 1.0001, False),
        ):
            assert (p_value(base, [value / ratio for value in new]) >= 0.05) is is_inside


# --- Holm -------------------------------------------------------------------------------------------------------------
def test_holms_correction_multiplies_the_smallest_by_the_number_and_never_decreases():
    assert after_holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert after_holm([0.5, 0.9]) == [1.0, 1.0]
    assert after_holm([]) == []
