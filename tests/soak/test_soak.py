# SPDX-License-Identifier: Apache-2.0
"""The short form of `make soak`: counts alone, because times and memory depend on the machine."""

import pytest

import soak

ROUNDS, ROUNDS_COMPARED = 13, 4
WORK = {"compiles": 1, "tensorrt": 0.25, "runs": 2_000, "trees": 20, "forks": 1}


@pytest.fixture(scope="module")
def sides():
    return soak.soak(ROUNDS, WORK, provider_s=2)


@pytest.mark.slow
@pytest.mark.parametrize("key", soak.EQUAL)
def test_as_many_are_there_in_the_last_rounds_as_in_the_first(sides, key):
    _, traced, _ = sides
    assert traced.most(key, slice(-ROUNDS_COMPARED, None)) == traced.most(
        key, slice(soak.WARM_UP, soak.WARM_UP + ROUNDS_COMPARED)
    )


@pytest.mark.slow
def test_every_name_is_bound_as_before_once_torchspan_is_uninstrumented(sides):
    _, _, names = sides
    assert names == []


def side(*, memory=lambda _n: 100, run_s=lambda _n: 1.0, objects=lambda _n: 7):
    """One with 105 rounds; each argument has the number of a round."""
    samples = [
        {"memory": memory(n), "run_s": run_s(n), "threads": 1, "descriptors": 5, "objects": objects(n)}
        for n in range(105)
    ]
    return type("Side", (), {"samples": samples, "most": soak.Side.most})()


def test_a_machine_that_is_slow_at_the_end_crosses_no_limit():
    slow = side(run_s=lambda n: 1.75 if n > 90 and n != 97 else 1.0)
    assert soak.compared(side(), slow, [])[1] == []


def test_a_side_that_becomes_slower_crosses_the_limit():
    slower = side(run_s=lambda n: 1 + n / 1000)
    assert soak.compared(side(), slower, [])[1] == ["run_s: 1.090 with torchspan, 1.000 without it"]


def test_a_growing_side_crosses_the_limits():
    steady, growing = side(), side(memory=lambda n: 100 + n, objects=lambda n: n)
    assert soak.compared(steady, steady, [])[1] == []
    assert soak.compared(steady, growing, ["threading.Thread.start"])[1] == [
        "a name is not as before: threading.Thread.start",
        "memory: 1.822 with torchspan, 1.000 without it",
        "objects: 14 in the first rounds, 104 in the last",
    ]
