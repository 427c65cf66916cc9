# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan.writer._redaction import redact


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("", ""),
        (
            "Conversion of function torch._ops.aten.aten::special_i1e not currently supported!",
            "Conversion of function torch._ops.aten.aten::special_i1e not currently supported!",
        ),
        ("prompt == 'my secret prompt'", "prompt == ?"),
        ('"half open', "?"),
        ("ConstantVariable(str: 'user text tok-123')", "ConstantVariable(str: ?)"),
        ("mat1 and mat2 shapes cannot be multiplied (3x5 and 16x32)", "? and ? shapes cannot be multiplied (? and ?)"),
        ("at 0x7f0011223344 of SECRET-4711 in a name", "at ? of ? in a name"),
        ("first line\nsecond line with SECRET-4711", "first line"),
        ("b'bytes' and `code` and '''three'''", "? and ? and ?"),
        ("min_block_size=17 was specified", "min_block_size=? was specified"),
        ('nested "it\'s" done', "nested ? done"),
    ],
)
def test_values_become_question_marks_and_words_stay(message, told):
    assert redact(message) == told


def test_a_long_line_is_cut():
    assert redact("word " * 1000) == ("word " * 1000)[:255] + "…"


def test_a_message_that_is_one_huge_literal_takes_no_time():
    assert redact("'" + "a" * 1_000_000) == "?"
    assert redact("(" * 100_000) == "(" * 255 + "…"
