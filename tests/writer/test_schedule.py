# SPDX-License-Identifier: Apache-2.0
import itertools

import pytest

from torchspan.output.writer._heartbeats import next_beat_ns

MS, S = 1_000_000, 1_000_000_000


def beats(interval_ns, count):
    """When heartbeats are due after the one at the start, if each comes exactly in time; seconds."""
    times = [0]
    for _ in range(count):
        times.append(next_beat_ns(times[-1], interval_ns))
    return [time / S for time in times[1:]]


def test_a_fixed_interval_is_a_grid():
    assert beats(500 * MS, 6) == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]


def test_with_a_gap_of_more_than_two_seconds_the_first_comes_after_two():
    assert beats(60 * S, 4) == [2, 60, 120, 180]
    assert beats(3 * S, 4) == [2, 3, 6, 9]
    assert beats(2 * S, 4) == [2, 4, 6, 8]


def test_without_one_the_first_comes_after_2_seconds_and_the_gaps_are_5_10_20_40_and_then_60():
    assert beats(None, 8) == [2, 7, 17, 37, 77, 137, 197, 257]
    assert [later - earlier for earlier, later in itertools.pairwise(beats(None, 8))] == [5, 10, 20, 40, 60, 60, 60]


@pytest.mark.parametrize(
    ("elapsed_s", "due_s"), [(0.4, 0.5), (0.5, 1.0), (0.6, 1.0), (0.999999999, 1.0), (10.2, 10.5), (36_000, 36_000.5)]
)
def test_with_a_fixed_interval_what_was_missed_is_left_out(elapsed_s, due_s):
    assert next_beat_ns(round(elapsed_s * S), 500 * MS) == due_s * S


@pytest.mark.parametrize(
    ("elapsed_s", "due_s"),
    [
        (0, 2),
        (1.9, 2),
        (2, 7),
        (6, 7),
        (16.9, 17),
        (17, 37),
        (36, 37),
        (76, 77),
        (77, 137),
        (136, 137),
        (197, 257),
        (3600, 3617),
    ],
)
def test_with_growing_gaps_what_was_missed_is_left_out(elapsed_s, due_s):
    assert next_beat_ns(round(elapsed_s * S), None) == due_s * S


@pytest.mark.parametrize("interval_s", [0.1, 0.3, 0.7, 1 / 3, 86_400])
def test_the_next_one_is_always_ahead_and_no_further_than_an_interval(interval_s):
    interval_ns = round(interval_s * S)
    for elapsed_ns in (0, 1, interval_ns - 1, interval_ns, interval_ns + 1, 7 * interval_ns, 10**15):
        assert 0 < next_beat_ns(elapsed_ns, interval_ns) - elapsed_ns <= interval_ns
