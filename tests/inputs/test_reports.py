# SPDX-License-Identifier: Apache-2.0
"""The table of observed calls."""

import torch

from support.observed_calls import Add, Anything, Nested, Optional, Variadic, observed, ones
from torchspan.inputs import InputObserver
from torchspan.inputs.observed.observations import SHAPES_LIMIT

SIZES = [(2, 5), (4, 7), (4, 7), (4, 7), (4, 9), (2, 30)]


def table(observer):
    """The rows below the headings, up to the empty line."""
    return observer.report().split("\n\n")[1].splitlines()[1:]


def test_a_report_has_a_row_for_each_dimension():
    observer = observed(Add(), *[(ones(*size), ones(1, 1)) for size in SIZES])
    assert (
        observer.report()
        == """\
Add.forward: 6 calls, 4 shapes

argument  type     calls  rank  axis  min  usual  max  distinct  sizes
x         float32  6         2     0    2      4    4         2  ▄·█
                                   1    5      7   30         4  █▂·····▂
y         float32  6         2     0    1      1    1         1
                                   1    1      1    1         1"""
    )


def test_findings_stand_below_the_table_in_lines_of_the_width():
    lines = observed(Add(), (ones(1), ones(1)), (ones(3), ones(3))).report(width=60).splitlines()
    start = lines.index("findings")
    assert lines[start + 1 : start + 3] == [
        "  size_0_or_1, x, y: Dimension 0 has sizes from 1 to 3.",
        "    torch.export treats 0 and 1 as constants: the example",
    ]
    assert max(map(len, lines[start:])) <= 60


def test_one_finding_about_several_dimensions_and_tensors_stands_once():
    observer = observed(Nested(), ([ones(1, 1)] * 6,), ([ones(3, 2)] * 6,))
    text = " ".join(observer.report().partition("findings\n")[2].split())
    assert text == (
        "size_0_or_1, items[0], items[1], items[2], items[3], and 2 more: Dimension 0 has sizes from 1 to 3, dimension 1 has "
        "sizes from 1 to 2. torch.export treats 0 and 1 as constants: the example needs a size of at least 2 there, and the "
        "small size may need a program of its own."
    )


class LongNames(torch.nn.Module):
    def forward(self, encoder_attention_mask, past_key_values=None):
        return encoder_attention_mask


CALLS = [(ones(count, 7), Add()) for count in (2, 3, 5)]


def test_a_table_that_fits_the_terminal_is_not_changed():
    lines = observed(LongNames(), *CALLS).report(width=104).splitlines()
    assert lines[2:6] == [
        "argument                type                        calls  rank  axis  min  usual  max  distinct  sizes",
        "encoder_attention_mask  float32                     3         2     0    2      2    5         3  ██·█",
        "                                                                    1    7      7    7         1",
        "past_key_values         support.observed_calls.Add  3      not recorded",
    ]


def test_a_table_in_a_narrow_terminal_has_shorter_names_and_classes():
    lines = observed(LongNames(), *CALLS).report(width=70).splitlines()
    assert lines[2:6] == [
        "argument          type    calls rank axis min usual max distinct sizes",
        "encoder_…ion_mask float32 3        2    0   2     2   5        3 ██·█",
        "                                        1   7     7   7        1",
        "past_key_values   Add     3     not recorded",
    ]


def test_a_table_in_a_narrower_terminal_says_which_columns_it_lacks():
    lines = observed(LongNames(), *CALLS).report(width=50).splitlines()
    assert lines[2:8] == [
        "argument     type    calls rank axis min usual max",
        "encode…_mask float32 3        2    0   2     2   5",
        "                                   1   7     7   7",
        "past_k…alues Add     3     not recorded",
        "",
        "Left out in 50 columns: distinct and sizes.",
    ]
    assert max(map(len, lines)) <= 50


def test_what_some_calls_lack_says_in_how_many_it_was():
    observer = observed(Optional(), (ones(2),), (ones(2), ones(2)), {"x": ones(2), "scale": 2.0})
    assert table(observer) == [
        "x         float32  3          1     0    2      2    2         1",
        "y         float32  1 of 3     1     0    2      2    2         1",
        "scale     float    1 of 3  constant in 1 call",
    ]


def test_values_of_constants_are_not_in_the_table():
    observer = observed(Anything(), (ones(2), "secret"), (ones(2), "secret"), (ones(2), "other"))
    assert table(observer)[1] == "other     str      3      2 values in 3 calls"
    assert "secret" not in observer.report()


def test_an_object_is_named_by_its_class():
    assert table(observed(Anything(), (ones(2), Add())))[1] == (
        "other     support.observed_calls.Add  1      not recorded"
    )


def test_a_tensor_without_dimensions_has_a_row():
    assert table(observed(Anything(), (torch.tensor(1.0),))) == ["x         float32  1         0"]


def test_each_rank_has_its_rows():
    assert table(observed(Anything(), (ones(2),), (ones(3, 4),))) == [
        "x         float32  2         1     0    2      2    2         1",
        "          float32            2     0    3      3    3         1",
        "                                   1    4      4    4         1",
    ]


def test_data_types_that_change_are_all_named():
    assert table(observed(Anything(), (ones(2),), (ones(2, dtype=torch.int64),)))[0].split()[1:3] == [
        "float32,",
        "int64",
    ]


def test_tensors_of_which_the_same_is_to_be_said_are_one_row():
    cache = [(ones(2, 3), ones(2, 3)) for _ in range(16)]
    assert table(observed(Nested(), ([*cache, (ones(2, 4), ones(2, 3))],))) == [
        "items[0][0] and 32 more  float32  1         2     0    2      2    2         1",
        "                                                  1    3      3    3         1",
        "items[16][0]             float32  1         2     0    2      2    2         1",
        "                                                  1    4      4    4         1",
    ]


def test_distinct_sizes_of_calls_beyond_the_limit_are_not_counted():
    report = observed(Anything(), *[(ones(size),) for size in range(2, SHAPES_LIMIT + 4)]).report()
    assert report.startswith("Anything.forward: 1,026 calls, more than 1,024 shapes\n")
    assert "x         float32  1,026     1     0    2      2  1,027    1,024+  ████████" in report


def test_a_large_number_has_commas():
    assert "1,048,576" in observed(Anything(), (torch.empty(1_048_576, device="meta"),)).report()


def test_what_is_not_printable_in_a_keyword_is_written_out():
    report = observed(Variadic(), {"x": ones(2), "a\x1b[31m\nb": ones(2)}).report()
    assert r"named.a\x1b[31m\nb" in report
    assert report.replace("\n", "").isprintable()


def test_a_key_that_was_not_written_has_a_digest_and_a_line_reports_it():
    observer = observed(Anything(), {"x": ones(2), "other": {"key": ones(3)}})
    report = InputObserver.from_json(observer.to_json(values=False)).report()
    assert "other[#" in report
    assert "`#` stands for a key or a keyword that was not written." in report
    assert "`#`" not in observer.report()


def test_an_observer_without_calls_says_why():
    assert InputObserver().report(width=200) == (
        "No method: 0 calls, 0 shapes\n\nfindings\n"
        "  no_call: No call was seen. Call the object that the observer is attached to. A call inside a region that "
        "torch.compile compiles is not seen: attach the observer to what torch.compile returned."
    )
