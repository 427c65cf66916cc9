# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""PyTorch's operators: the line below the span that has their table, and their list in the summary. No answer counts their spans."""

import pytest

from support.operator_tables import operator, table
from torchspan import traces
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.answers.whole_texts import with_texts
from torchspan.traces import Span
from torchspan.words import semconv as s

CONVOLUTION = ("aten.convolution", 24, 70, 61, 9)
RELU = ("aten.relu", 24, 12, 12, 1)


@pytest.fixture
def lines(drawn):
    """The lines about operators, in a drawing of some columns."""
    return lambda width=80: [line for line in drawn(width) if "Operators" in line]


# --- the waterfall ----------------------------------------------------------------------------------------------------
def test_below_a_span_with_a_table_a_line_has_its_operators_with_their_shares(recording, lines):
    recording.span("torch_tensorrt.execute", 0, 100, table(CONVOLUTION, RELU))
    assert lines() == ["   Operators  aten.convolution ×24 61 %, aten.relu ×24 12 %"]


def test_the_operator_that_took_longest_itself_comes_first(recording, lines):
    recording.span("torch.run_graph", 0, 100, table(("aten.linear", 1, 90, 2, 90), ("aten.addmm", 1, 88, 88, 88)))
    assert lines() == ["   Operators  aten.addmm ×1 88 %, aten.linear ×1 2 %"]


def test_operators_without_room_on_the_line_are_counted(recording, lines):
    rows = [(f"aten.operator_{number}", 1, 1, 1, 1) for number in range(40)]
    recording.span("torch.run_graph", 0, 100, table(*rows))
    assert lines() == ["   Operators  aten.operator_0 ×1 1 %, aten.operator_1 ×1 1 %, 38 more"]


def test_a_name_that_is_wider_than_the_line_is_shortened(recording, lines):
    recording.span("torch.run_graph", 0, 100, table((f"aten.{'x' * 200}", 1, 20, 20, 20), RELU))
    assert lines(60) == ["   Operators  aten.xxxxxxxxxxxxxx…xxxxxxxxxx ×1 20 %, 1 more"]


def test_runs_that_share_a_row_have_the_sum_of_their_tables(recording, lines):
    work = recording.span("work", 0, 1000, scope="app")
    for number in range(10):
        share_ms = 20 if number < 9 else 0
        facts = table(("aten.relu", 2, share_ms, share_ms, share_ms))
        recording.span("torch.run_graph", 100 * number, 100 * number + (90 if number < 3 else 50), facts, parent=work)
    assert lines()[-1] == "      Operators  aten.relu ×14 34 %"


def test_a_name_that_is_not_recorded_is_a_range_of_the_program(recording, lines):
    recording.span("torch.run_graph", 0, 100, table(("?", 1, 40, 40, 40), ("?", 1, 20, 20, 20)))
    assert lines() == ["   Operators  (range of the program) ×2 60 %"]


def test_where_whole_texts_are_shown_a_range_of_the_program_has_its_name(recording):
    facts = table(("?", 1, 40, 40, 40), RELU)
    facts[f"{s.LOCAL}{s.OPERATORS_NAMES}"] = ["my range", "aten.relu"]
    recording.span("torch.run_graph", 0, 100, facts)
    drawing = Drawing.of(with_texts(traces.read(recording.path).records))
    text = "\n".join("".join(piece for piece, _ in line) for line in drawing.lines(80))
    assert "Operators  my range ×1 40 %, aten.relu ×24 12 %" in text


@pytest.mark.parametrize(
    "wrong",
    [
        {s.OPERATORS_COUNTS: [24]},
        {s.OPERATORS_COUNTS: "many"},
        {s.OPERATORS_SELF: [0.1, float("nan")]},
        {s.OPERATORS_LONGEST: [-1.0, 0.1]},
        {s.OPERATORS_NAMES: "aten.relu"},
        {s.OPERATORS_NAMES: []},
    ],
)
def test_a_table_whose_lists_do_not_fit_together_is_left_out(recording, lines, said, wrong):
    recording.span("torch.run_graph", 0, 100, {**table(CONVOLUTION, RELU), **wrong})
    assert (lines(), said().operators) == ([], ())


def test_a_run_inside_a_block_counts_once_in_the_shares_of_the_first_screen(recording, drawn):
    block = recording.span("torchspan.operators", 0, 100, table(("aten.relu", 1, 20, 20, 20)))
    recording.span("torch.run_graph", 20, 90, table(("aten.mm", 1, 50, 50, 50)), parent=block)
    assert (
        drawn(80)[2] == "   operators: aten.mm \N{MULTIPLICATION SIGN}1 50 %, aten.relu \N{MULTIPLICATION SIGN}1 20 %"
    )


# --- their spans ------------------------------------------------------------------------------------------------------
@pytest.fixture
def with_spans(recording):
    """A request in which an engine ran: its table, and spans of operators, one of which failed in another thread."""
    request = recording.span("GET /", 0, 200, scope="app")
    run = recording.span("torch_tensorrt.execute", 50, 150, table(CONVOLUTION, RELU), parent=request)
    outer = operator(recording, "aten.convolution", 60, 120, run)
    operator(recording, "aten.relu", 70, 190, outer, {s.THREAD_ID: 9}, error=("ValueError", "no"))
    return recording


def test_spans_of_operators_have_no_lines_and_are_not_counted(with_spans, drawn):
    assert [line[:53].rstrip() for line in drawn(80)] == [
        "   what was recorded times      time",
        "1  GET /                ×1    200 ms",
        "   operators: aten.convolution ×24 61 %, aten.relu ×2",
        "   time: GET / 100 ms, aten.convolution 61.0 ms, exec",
        "",
        "trace abc00000000000000000000000000001 · 2026-11-21 1",
        "GET /",
        "└─ torch_tensorrt.execute",
        "      Operators  aten.convolution ×24 61 %, aten.relu",
        "Own time  GET / 100 ms 50 %, aten.convolution 61.0 ms",
    ]


def test_stages_and_errors_are_those_of_the_same_file_without_the_spans_of_operators(with_spans, said):
    answers = said()
    assert [(stage.name, stage.s, stage.calls) for stage in answers.stages] == [
        ("GET /", 0.1, 1),
        ("aten.convolution", 0.061, 24),
        ("execute", 0.027, 1),
        ("aten.relu", 0.012, 24),
    ]
    assert answers.errors == ()


def test_converters_are_stages_with_the_number_of_their_conversions(recording, said):
    converters = {
        s.CONVERTER_OPERATORS: ["torch.ops.aten.relu.default", "torch.ops.aten.add.Tensor"],
        s.CONVERTER_COUNTS: [3, 1],
        s.CONVERTER_DURATIONS: [0.05, 0.04],
    }
    recording.span("torch_tensorrt.construct_network", 0, 100, converters)
    assert [(stage.name, stage.s, stage.calls) for stage in said().stages] == [
        ("aten.relu", 0.05, 3),
        ("aten.add.Tensor", 0.04, 1),
        ("construct_network", 0.01, 1),
    ]


def test_an_operator_whose_span_above_is_not_in_the_file_starts_no_trace(recording):
    recording.span("mine", 0, 1, scope="app")
    lost = Span("1" * 32, "2" * 16, "3" * 16, "torch.operator ?", 0, 1, {s.OPERATOR_NAME: "?"}, scope="torchspan")
    drawing = Drawing.of([*traces.read(recording.path).records, lost])
    assert [row.name for _, row in drawing.rows] == ["mine"]


def test_a_span_of_the_program_with_the_name_of_an_operators_is_drawn(recording, drawn):
    recording.span("torch.operator aten.relu", 0, 1, scope="app")
    assert drawn(80)[-1][:24] == "torch.operator aten.relu"


# --- the summary ------------------------------------------------------------------------------------------------------
def test_the_summary_has_the_operators_of_each_kind_of_root_summed_over_its_runs(recording, said):
    recording.span("torch_tensorrt.execute", 0, 100, table(CONVOLUTION, RELU))
    recording.span("torch_tensorrt.execute", 100, 200, table(("aten.relu", 2, 20, 20, 8)))
    recording.span("torchspan.observed step", 200, 300, table(("aten.mm", 1, 30, 30, 30)))
    assert said().document()["operators"] == [
        {
            "sentence": "aten.convolution ×24 in torch_tensorrt.execute: 61.0 ms 30 %",
            "remedy": "",
            "root": "torch_tensorrt.execute",
            "name": "aten.convolution",
            "count": 24,
            "s": 0.07,
            "self_s": 0.061,
            "longest_s": 0.009,
        },
        {
            "sentence": "aten.relu ×26 in torch_tensorrt.execute: 32.0 ms 16 %",
            "remedy": "",
            "root": "torch_tensorrt.execute",
            "name": "aten.relu",
            "count": 26,
            "s": 0.032,
            "self_s": 0.032,
            "longest_s": 0.008,
        },
        {
            "sentence": "aten.mm ×1 in torchspan.observed step: 30.0 ms 30 %",
            "remedy": "",
            "root": "torchspan.observed step",
            "name": "aten.mm",
            "count": 1,
            "s": 0.03,
            "self_s": 0.03,
            "longest_s": 0.03,
        },
    ]


def test_the_summary_has_at_most_40_operators_of_a_root(recording, said):
    for run in range(2):
        rows = [(f"aten.of_run_{run}_{number}", 1, 1 + run, 1 + run, 1) for number in range(40)]
        recording.span("torch.run_graph", 100 * run, 100 * run + 90, table(*rows))
    assert [answer.name for answer in said().operators] == [f"aten.of_run_1_{number}" for number in range(40)]
