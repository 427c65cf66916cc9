# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan import semconv
from torchspan._base.bounds import bounded


def size(value):
    """Bytes: text as UTF-8, numbers eight each."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    return sum(map(size, value)) if isinstance(value, (list, tuple)) else 8


def of(value):
    return bounded({"key": value})["key"]


@pytest.mark.parametrize(
    "value", ["", "text", "x" * 2048, "é" * 1024, "𝄞" * 512, 7, 1.5, True, ["a"] * 20, [1] * 256, [], b"x" * 2048]
)
def test_what_fits_stays(value):
    assert of(value) == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("x" * 2049, "x" * 2045 + "…"),
        ("é" * 1025, "é" * 1022 + "…"),
        ("𝄞" * 513, "𝄞" * 511 + "…"),
        ("x" + "𝄞" * 512, "x" + "𝄞" * 511 + "…"),
        ("x" * 2044 + "𝄞𝄞", "x" * 2044 + "…"),
    ],
    ids=["one byte each", "two bytes each", "four bytes each", "uneven", "a character across the cut"],
)
def test_text_is_cut_at_2048_bytes_between_characters(value, told):
    assert of(value) == told
    assert size(told) <= 2048


def test_what_utf_8_cannot_hold_becomes_a_question_mark():
    assert of("a\ud800b") == "a?b"
    assert of(["a\udfff"]) == ["a?"]


def test_bytes_are_cut():
    assert of(b"x" * 5000) == b"x" * 2048


def test_a_list_that_fits_as_a_whole_keeps_its_long_entries():
    value = ["x" * 1500, *["y" * 20] * 19]
    assert of(value) == value


@pytest.mark.parametrize("entry", ["x" * 500, "é" * 250, "𝄞" * 125], ids=["ascii", "two bytes", "four bytes"])
@pytest.mark.parametrize("length", [5, 20, 256, 5000])
def test_a_list_of_texts_is_cut_as_a_whole(entry, length):
    told = of([entry] * length)
    assert size(told) <= 2048
    assert len(told) == min(length, 256)
    assert all(each.endswith("…") for each in told)


@pytest.mark.parametrize("number", [1, 0.5, True])
def test_a_list_of_numbers_is_cut(number):
    assert of([number] * 257) == [number] * 256
    assert of((number,) * 257) == [number] * 256


def test_parallel_lists_stay_parallel():
    told = bounded({"names": ["n" * 100] * 300, "counts": [1] * 300, "durations": [0.5] * 300})
    assert {key: len(value) for key, value in told.items()} == {"names": 256, "counts": 256, "durations": 256}


def test_keys_are_plain_text():
    (key,) = bounded({semconv.IR: "dynamo"})
    assert type(key) is str


def test_what_is_no_value_of_ours_is_left_to_the_sdk():
    thing = object()
    assert of(thing) is thing
