# SPDX-License-Identifier: Apache-2.0
"""Texts of lines: durations, columns, and what could act on a terminal."""

import pytest

from torchspan.reading.answers import units
from torchspan.reading.answers.lines import cells, printable, shorten


@pytest.mark.parametrize(
    ("ns", "expected"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (12_345, "12.3 µs"),
        (999_600, "1.00 ms"),
        (1_234_567, "1.23 ms"),
        (99_949_000_000, "99.9 s"),
        (99_950_000_000, "1 m 40 s"),
        (3_599_499_000_000, "59 m 59 s"),
        (3_600_000_000_000, "1 h 00 m"),
        (99 * 3_600_000_000_000, "99 h 00 m"),
        (1_800_000_000_000_000_000, "20833 d"),
        (9_999_998 * 86_400_000_000_000, "9999998 d"),
        (60_000 * 2**64, "1e+10 d"),
        (float("inf"), "inf d"),
    ],
)
def test_durations_have_three_digits_and_a_unit(ns, expected):
    assert units.duration(ns) == expected
    assert len(expected) <= 9


def test_texts_are_measured_and_shortened_in_columns():
    assert (cells("abc"), cells("推論"), cells("e\u0301")) == (3, 4, 1)
    assert shorten("abcdefghij", 7) == "abc…hij"
    assert shorten("推論推論推論", 7) == "推…論"
    assert shorten("abc", 0) == ""


def test_what_could_act_on_a_terminal_is_written_out():
    assert printable("a\x1b[2J\u202e\udc80\tä推") == "a\\x1b[2J\\u202e\\udc80\\tä推"
    assert printable("e\u0301\u3164") == "e\\u0301\\u3164"
