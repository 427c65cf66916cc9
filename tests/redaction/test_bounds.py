# SPDX-License-Identifier: Apache-2.0
"""How large a value may be, to the byte."""

import pytest

from torchspan.words.redaction.bounds import cut, size


@pytest.mark.parametrize(
    ("text", "limit", "shortened"),
    [
        ("a" * 10, 10, "a" * 10),
        ("a" * 11, 10, "a" * 7 + "…"),
        ("é" * 5, 10, "é" * 5),
        ("é" * 6, 10, "ééé…"),
        ("a\ud800", 10, "a?"),
        ("a" * 9 + "\ud800", 10, "a" * 9 + "?"),
        ("", 10, ""),
    ],
)
def test_a_text_that_is_too_long_ends_with_an_ellipsis_within_its_limit(text, limit, shortened):
    assert cut(text, limit) == shortened


def test_a_text_of_two_kilobytes_is_whole_and_a_longer_one_is_not():
    assert cut("a" * 2048) == "a" * 2048
    assert cut("a" * 2049) == "a" * 2045 + "…"


@pytest.mark.parametrize(("text", "size_of_it"), [("abc", 3), ("é", 2), ("模型", 6), ("a\ud800", 2), ("", 0)])
def test_the_size_of_a_text_is_its_bytes_in_utf_8(text, size_of_it):
    assert size(text) == size_of_it
