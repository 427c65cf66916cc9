# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""The first screen of `torchspan show`: a row for everything that was compiled, the worst first, with what to change."""

import json
import os

import pytest
from opentelemetry.trace import SpanKind

from support.run_recording import RUN, RunRecording, write_run
from torchspan.words import semconv as s
from torchspan.words.semconv import FallbackReason

SIZE = "tensor 'x' size mismatch at index 0. expected 4, actual "
LIMIT = {s.FRAME_OUTCOME: "limit", s.RECOMPILE_LIMIT: "recompile_limit", s.RECOMPILE_LIMIT_VALUE: 8}


@pytest.fixture
def run(tmp_path):
    return RunRecording(tmp_path / "run.jsonl")


@pytest.fixture
def screen(run, shown):
    """The first screen for the run's file."""
    return lambda *words: shown(run.path, *words).screen


def frame(run, function, line, start_ms, end_ms, attributes=None, **options):
    """A frame of torch.compile, of a function of model.py."""
    place = {s.CODE_FILE: "model.py", s.CODE_LINE: line, s.CODE_FUNCTION: function}
    outcome = {s.FRAME_OUTCOME: "compiled"}
    return run.span("torch.compile_frame", start_ms, end_ms, {**outcome, **place, **(attributes or {})}, **options)


def again(size):
    """Compiled again for another size, which the caller could mark."""
    marked = {s.OPEN_SIZES_ARGUMENTS: ["x"], s.OPEN_SIZES_AXES: [0]}
    return {s.RECOMPILE_CLASS: "size", s.RECOMPILE_REASON: f"{SIZE}{size}", **marked}


# --- rows -------------------------------------------------------------------------------------------------------------
def test_everything_that_was_compiled_has_a_row_by_its_own_name(run, screen):
    frame(run, "step", 12, 0, 100)
    run.span("torch_tensorrt.compile", 200, 500, {s.MODEL_CLASS: "ConvNet"})
    run.span("torch.export", 150, 200, {s.MODEL_CLASS: "ConvNet"})
    run.span("tensorrt.build_engine", 600, 800)

    assert (
        screen()
        == """\
   what was compiled     times      time
1  ConvNet                  ×1    350 ms
2  tensorrt.build_engine    ×1    200 ms
3  step  model.py:12        ×1    100 ms  compiled
"""
    )


def test_ten_rows_are_shown_and_the_others_summed(run, screen):
    for number in range(12):
        frame(run, f"step_{number}", number, 1000 * number, 1000 * number + 500 - number)

    assert (
        screen()
        == """\
   what was compiled  times      time
1  step_0  model.py:0    ×1    500 ms  compiled
2  step_1  model.py:1    ×1    499 ms  compiled
3  step_2  model.py:2    ×1    498 ms  compiled
4  step_3  model.py:3    ×1    497 ms  compiled
5  step_4  model.py:4    ×1    496 ms  compiled
6  step_5  model.py:5    ×1    495 ms  compiled
7  step_6  model.py:6    ×1    494 ms  compiled
8  step_7  model.py:7    ×1    493 ms  compiled
9  step_8  model.py:8    ×1    492 ms  compiled
10 step_9  model.py:9    ×1    491 ms  compiled
   … 2 more, 11 to 12    ×2    979 ms
"""
    )
    assert screen("--all").splitlines()[-2:] == [
        "11 step_10  model.py:10    ×1    490 ms  compiled",
        "12 step_11  model.py:11    ×1    489 ms  compiled",
    ]


def test_ten_rows_or_fewer_have_no_line_of_others(run, screen):
    for number in range(10):
        frame(run, f"step_{number}", number, 1000 * number, 1000 * number + 500 - number)
    assert screen().splitlines()[-1] == "10 step_9  model.py:9    ×1    491 ms  compiled"


def test_eight_recompilations_for_one_cause_are_one_line(run, screen):
    for number in range(9):
        frame(run, "step", 12, 10 * number, 10 * number + 5, again(number + 4) if number else {})

    assert (
        screen()
        == """\
   what was compiled times      time
1  step  model.py:12    ×9   45.0 ms  compiled
   Recompiled ×8: size of argument x, axis 0 (4, then 5, 6, 7, 8, …):
   torch._dynamo.maybe_mark_dynamic(x, 0) before each call
"""
    )


def test_what_failed_and_limits_come_first_by_name_whatever_took_longest(run, screen):
    run.span("torch_tensorrt.compile", 0, 5000, {s.MODEL_CLASS: "Slow"})
    frame(run, "limited", 30, 6000, 6010, {**again(7), **LIMIT})
    frame(run, "again", 20, 6100, 6110, again(7))
    failed = {s.MODEL_CLASS: "Broken", s.ERROR_TYPE: "RuntimeError"}
    run.span("torch_tensorrt.compile", 7000, 7001, failed)
    reasons = {
        s.FALLBACK_REASON_CLASSES: [FallbackReason.NO_CONVERTER],
        s.FALLBACK_OPERATOR_NAMES: ["torch.ops.aten.special_i1e.default"],
        s.FALLBACK_OPERATOR_COUNTS: [1],
        s.FALLBACK_OPERATOR_REASONS: [FallbackReason.NO_CONVERTER],
    }
    run.span("torch_tensorrt.compile", 8000, 8001, {s.MODEL_CLASS: "Fallen", **reasons})

    assert (
        screen()
        == """\
   what was compiled    times      time
1  Broken                  ×1   1.00 ms  failed
   RuntimeError in compile
2  limited  model.py:30    ×1   10.0 ms  runs eagerly
   Recompile limit (8 in this thread) reached: size of argument x, axis 0 (4,
   then 7); calls with others run eagerly; raise
   torch._dynamo.config.recompile_limit in the thread that compiles
3  Fallen                  ×1   1.00 ms
   in PyTorch: aten.special_i1e ×1: no converter
4  again  model.py:20      ×1   10.0 ms  compiled
   Recompiled: size of argument x, axis 0 (4, then 7):
   torch._dynamo.maybe_mark_dynamic(x, 0) before each call
5  Slow                    ×1    5.00 s
"""
    )


def test_of_more_findings_than_eight_the_number_of_the_row_leads_to_all(run, shown):
    for number in range(9):
        events = {s.CODE_FILE: "model.py", s.CODE_LINE: 40 + number, s.GRAPH_BREAK_CLASS: "other"}
        span = run.start("torch.compile_frame", 10 * number, {s.CODE_FUNCTION: "step", s.FRAME_OUTCOME: "compiled"})
        span.add_event(s.GRAPH_BREAK_EVENT, events)
        run.end(span, 10 * number + 5)

    assert (
        shown(run.path).screen
        == """\
   what was compiled times      time
1  step                 ×9   45.0 ms  compiled
   Graph break at model.py:40: other
   Graph break at model.py:41: other
   Graph break at model.py:42: other
   Graph break at model.py:43: other
   Graph break at model.py:44: other
   Graph break at model.py:45: other
   Graph break at model.py:46: other
   2 further findings; show FILE 1 has all
"""
    )
    assert shown(run.path, 1).screen.splitlines()[-1] == "   Graph break at model.py:48: other"


def test_what_failed_in_the_same_way_is_said_once_with_how_often(recording, findings):
    place = {s.CODE_FILE: "model.py", s.CODE_LINE: 12, s.FAILED_OPERATOR: "torch.ops.aten.nonzero.default"}
    for number, message in enumerate(("no luck", "no luck", "other")):
        error = ("RuntimeError", message)
        root = recording.span("torch_tensorrt.compile", number, number + 1, {s.MODEL_CLASS: "Net"}, error=error)
        recording.span("torch_tensorrt.convert", number, number + 1, place, parent=root, error=error)
    remedy = 'pass torch_executed_ops={"torch.ops.aten.nonzero.default"} to run it in'
    assert findings(recording.path) == [
        "RuntimeError in convert: no luck ×2",
        "aten.nonzero at model.py:12",
        remedy,
        "PyTorch",
        "RuntimeError in convert: other",
        "aten.nonzero at model.py:12",
        remedy,
        "PyTorch",
    ]


def test_of_many_failures_the_findings_are_counted_and_not_their_lines(recording, findings):
    for number in range(9):
        place = {s.CODE_FILE: "model.py", s.CODE_LINE: number}
        error = ("RuntimeError", f"number {number}")
        recording.span("torch_tensorrt.compile", number, number + 1, {s.MODEL_CLASS: "Net", **place}, error=error)
    assert findings(recording.path)[-3:] == [
        "RuntimeError in compile: number 6",
        "at model.py:6",
        "2 further findings; show FILE 1 has all",
    ]


def test_the_name_of_the_row_is_left_out_of_its_findings_and_not_of_messages(recording, findings):
    facts = {s.CODE_FUNCTION: "step", s.FRAME_OUTCOME: "fallen_back", s.COMPILE_FAILURE_TYPE: "TypeError"}
    error = ("RuntimeError", "no luck in step")
    root = recording.span("torch.compile_frame", 0, 10, facts)
    recording.span("torch_tensorrt.convert", 0, 10, parent=root, error=error)
    assert findings(recording.path) == ["RuntimeError in convert: no luck in step", "Fell back to eager: TypeError"]


# --- functions --------------------------------------------------------------------------------------------------------
def test_the_rest_of_a_function_belongs_to_the_function_in_which_its_graph_broke(run, screen):
    frame(run, "forward", 10, 0, 100)
    frame(run, "forward", 30, 100, 300)
    frame(run, "torch_dynamo_resume_in_forward_at_35", 35, 300, 310)
    frame(run, "torch_dynamo_resume_in_forward_at_14", 14, 310, 311)
    frame(run, "torch_dynamo_resume_in_torch_dynamo_resume_in_forward_at_14_at_16", 16, 311, 312)

    assert (
        screen()
        == """\
   what was compiled    times      time
1  forward  model.py:30    ×1    210 ms  compiled, 1 more after breaks
2  forward  model.py:10    ×1    102 ms  compiled, 2 more after breaks
"""
    )


def test_the_rest_of_a_function_that_is_not_in_the_file_has_a_row_of_its_own(run, screen):
    frame(run, "torch_dynamo_resume_in_forward_at_14", 14, 0, 1)
    assert screen().splitlines()[1] == "1  forward  model.py:14    ×1   1.00 ms  compiled"


def test_functions_of_one_name_in_two_files_have_a_row_each(run, screen):
    frame(run, "forward", 10, 0, 100)
    frame(run, "forward", 10, 100, 300, {s.CODE_FILE: "other.py"})
    assert [line.split()[1:3] for line in screen().splitlines()[1:]] == [
        ["forward", "other.py:10"],
        ["forward", "model.py:10"],
    ]


def test_a_backward_graph_belongs_to_the_row_of_its_frame(run, screen):
    first = frame(run, "loss", 10, 0, 100)
    frame(run, "other", 50, 100, 150)
    run.span("torch.compile_backward", 200, 230, links=[first.get_span_context()])

    assert (
        screen()
        == """\
   what was compiled  times      time
1  loss  model.py:10     ×1    130 ms  compiled
2  other  model.py:50    ×1   50.0 ms  compiled
"""
    )


def test_a_backward_graph_without_its_frame_has_a_row_of_its_own(run, screen):
    run.span("torch.compile_backward", 0, 30, links=[RUN.get_span_context()])
    assert screen().splitlines()[1] == "1  compile_backward     ×1   30.0 ms"


def test_a_backward_graph_that_did_not_end_is_in_the_row_of_its_function(run, screen):
    frame(run, "step", 12, 0, 100)
    run.start("torch.compile_backward", 200, {s.CODE_FILE: "model.py", s.CODE_LINE: 12, s.CODE_FUNCTION: "step"})
    write_run(run.path, 0, 400, process_pid=os.getpid())
    assert screen().splitlines()[2] == "1  step  model.py:12    ×1  ≥ 300 ms  compiled, did not end"


# --- what a row says --------------------------------------------------------------------------------------------------
def test_compilations_for_which_a_request_waited_are_counted(run, screen):
    request = run.start("GET /predict", 0, kind=SpanKind.SERVER)
    for number in range(3):
        waited = {s.WHILE_SERVING: True} if number else {}
        frame(run, "step", 12, 10 * number, 10 * number + 5, {**again(number), **waited}, parent=request)
    frame(run, "alone", 40, 50, 51, {s.WHILE_SERVING: True}, parent=request)
    run.end(request, 100)

    rows = [line for line in screen().splitlines() if line[0].isdigit()]
    assert rows == [
        "1  step  model.py:12     ×3   15.0 ms  compiled, 2 while serving",
        "2  alone  model.py:40    ×1   1.00 ms  compiled, while serving",
    ]


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        ("compiled", "compiled"),
        ("skipped", "runs eagerly"),
        ("limit", "runs eagerly"),
        ("fallen_back", "runs eagerly"),
        ("failed", "failed"),
    ],
)
def test_how_a_frame_ended_is_one_or_two_words(run, screen, outcome, word):
    frame(run, "step", 12, 0, 5, {s.FRAME_OUTCOME: outcome})
    assert screen().splitlines()[1] == f"1  step  model.py:12    ×1   5.00 ms  {word}"


def test_the_rest_of_a_function_with_nothing_left_to_compile_has_no_word(run, screen):
    frame(run, "step", 12, 0, 5)
    frame(run, "torch_dynamo_resume_in_step_at_14", 14, 5, 6, {s.FRAME_OUTCOME: "skipped"})
    assert screen().splitlines()[1] == "1  step  model.py:12    ×1   6.00 ms  compiled"


def test_how_much_runs_in_tensorrt_is_the_outcome_also_below_a_frame(run, screen):
    counts = {s.OPERATORS_TOTAL: 61, s.OPERATORS_TENSORRT: 58}
    run.span("torch_tensorrt.compile", 0, 5, {s.MODEL_CLASS: "ConvNet", **counts})
    outer = run.start("torch.compile_frame", 10, {s.CODE_FUNCTION: "forward", s.FRAME_OUTCOME: "compiled"})
    run.span("torch_tensorrt.compile", 10, 12, counts, parent=outer)
    run.end(outer, 13)
    assert [line for line in screen().splitlines() if line[0].isdigit()] == [
        "1  ConvNet              ×1   5.00 ms  58 of 61 ops in TensorRT",
        "2  forward              ×1   3.00 ms  58 of 61 ops in TensorRT",
    ]


def test_a_compilation_that_raised_failed(recording, shown):
    recording.span("torch_tensorrt.compile", 0, 5, {s.MODEL_CLASS: "Net"}, error=("RuntimeError", "no luck"))
    recording.span(
        "torch_tensorrt.compile", 10, 15, {s.MODEL_CLASS: "Net", s.OPERATORS_TOTAL: 3, s.OPERATORS_TENSORRT: 3}
    )
    assert shown(recording.path).screen.splitlines()[1] == (
        "1  Net                  ×2   10.0 ms  failed, 3 of 3 ops in TensorRT"
    )


def test_what_did_not_end_took_at_least_so_long(run, screen):
    build = run.start("tensorrt.build_engine", 0)
    run.heartbeat(build, 7000, "tensorrt.build_engine", 6780)
    assert screen().splitlines()[1] == "1  tensorrt.build_engine    ×1  ≥ 7.00 s  did not end"


def test_the_longest_lower_bounds_keep_their_column(run, screen):
    compiled = run.start("torch_tensorrt.compile", 0, {s.MODEL_CLASS: "Net"})
    run.heartbeat(compiled, 3_599_000, "tensorrt.build_engine", 1)
    run.span("torch.export", 0, 3_599_000, {s.MODEL_CLASS: "Other"})
    assert screen().splitlines()[1:4] == [
        "1  Net                 ×1 ≥59 m 59 s  did not end",
        "2  Other                ×1 59 m 59 s",
    ]


def test_work_of_the_stand_in_for_a_gpu_has_no_time(run, screen):
    stand_in = {s.STAND_IN: True, s.ENGINE_NAME: "_run_on_acc_0"}
    run.span("tensorrt.deserialize_engine", 0, 80, stand_in)
    assert screen().splitlines()[1:] == ["1  tensorrt.deserialize_engine · _run_on_acc_0    ×1  stand-in"]


def test_the_slowest_of_several_engines_is_named_by_its_modules(run, screen):
    compiled = run.start("torch_tensorrt.compile", 0, {s.MODEL_CLASS: "Net"})
    for number, modules in enumerate((["stem", "layer1"], ["layer2", "head"])):
        engine = {s.ENGINE_NAME: f"_run_on_acc_{number}", s.ENGINE_MODULES: modules, s.MODEL_CLASS: "Net"}
        size = {s.ENGINE_SIZE: 2_000_000}
        run.span(
            "torch_tensorrt.convert", 100 * number, 100 * number + 50 + number, {**engine, **size}, parent=compiled
        )
    run.end(compiled, 200)

    assert (
        screen()
        == """\
   what was compiled times      time
1  Net                  ×1    200 ms
   slowest of 2 engines: layer2 … head: 51.0 ms, 2.00 MB
   time: convert 101 ms, compile 99.0 ms
"""
    )


def test_different_outcomes_are_named_up_to_five(run, screen):
    for number in range(7):
        counts = {s.OPERATORS_TOTAL: 9, s.OPERATORS_TENSORRT: number}
        run.span("torch_tensorrt.compile", number, number + 1, {s.MODEL_CLASS: "Net", **counts})
    assert screen().splitlines()[1:] == [
        "1  Net                  ×7   7.00 ms",
        "   0 of 9 ops in TensorRT, 1 of 9 ops in TensorRT, 2 of 9 ops in TensorRT, 3 of",
        "   9 ops in TensorRT, 4 of 9 ops in TensorRT, …",
    ]


def test_a_request_that_failed_around_its_compilation_has_a_row_too(run, screen):
    request = run.start("GET /predict", 0, {s.ERROR_TYPE: "ValueError"}, kind=SpanKind.SERVER)
    frame(run, "step", 12, 0, 50, parent=request)
    run.end(request, 60)
    assert [line for line in screen().splitlines() if line[0].isdigit()] == [
        "1  GET /predict         ×1   60.0 ms  failed",
        "2  step  model.py:12    ×1   50.0 ms  compiled",
    ]


def test_roots_of_one_trace_have_rows_by_their_own_names(recording, shown):
    request = recording.span("request", 0, 10, scope="app")
    missing = recording._provider.get_tracer("app").start_span("x", None)
    recording.span("consume", 0, 5, parent=missing, scope="app")
    recording.span("consume", 5, 9, parent=missing, scope="app")
    recording.span("report", 9, 10, parent=missing, scope="app")

    assert [line for line in shown(recording.path).screen.splitlines() if line[0].isdigit()] == [
        "1  request              ×1   10.0 ms",
        "2  consume              ×2   9.00 ms",
        "3  report               ×1   1.00 ms",
    ]
    assert shown(recording.path, 2).waterfalls.count("\ntrace ") == 0, "one trace is drawn once"
    assert request is not None


# --- numbers ----------------------------------------------------------------------------------------------------------
def two_parts(run):
    for number in range(12):
        frame(run, "step", 12, 100 * number, 100 * number + 50, parent=RUN)
    run.span("torch.export", 2000, 2100, {s.MODEL_CLASS: "Net"}, parent=RUN)
    write_run(run.path, 0, 3000, process_exit_code=0)


def test_the_number_of_a_row_draws_its_traces_and_nothing_else(run, shown):
    two_parts(run)
    assert (
        "\n".join(shown(run.path, 2))
        == """\
   what was compiled times      time
2  Net                  ×1    100 ms

part 2 · app.py · 2026-11-21 10:42:42Z · 1 span
torch.export · Net                                    ████████████████    100 ms
"""
    )


def test_of_many_traces_of_a_part_ten_are_drawn_and_all_with_all(run, shown):
    two_parts(run)
    waterfalls = shown(run.path, 1).waterfalls
    assert waterfalls.count("torch.compile_frame · step") == 10
    assert waterfalls.endswith("\n2 more traces of part 1; show FILE 1 --all draws all\n")
    assert shown(run.path, 1, "--all").waterfalls.count("torch.compile_frame · step") == 12


@pytest.mark.parametrize("number", ["0", "3", "999999999"])
def test_a_number_without_a_row_is_an_error_with_those_that_there_are(run, torchspan, number):
    two_parts(run)
    assert torchspan("show", run.path, number) == (
        2,
        "",
        f"torchspan show: no part {number} in {run.path}; it has parts 1 to 2\n",
    )


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_that_no_row_can_have_is_a_file_that_does_not_exist(run, torchspan, digits):
    two_parts(run)
    status, out, err = torchspan("show", run.path, "9" * digits)
    assert (status, out) == (2, "")
    assert err.endswith(": File name too long\n")


def test_a_file_whose_name_is_a_number_is_a_file(run, torchspan, tmp_path, monkeypatch):
    two_parts(run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2").write_bytes((tmp_path / "run.jsonl").read_bytes())
    assert torchspan("show", "2")[1] == torchspan("show", "run.jsonl")[1]
    assert torchspan("show", "run.jsonl", "2")[1].count("\npart ") > 0, "two files, all drawn"
    assert torchspan("show", "2", "1")[1].splitlines()[1].startswith("1  step")


# --- which --------------------------------------------------------------------------------------------------------------
def test_errors_leaves_what_failed_did_not_end_or_reached_a_limit(run, screen):
    frame(run, "limited", 30, 0, 10, {**again(7), **LIMIT})
    frame(run, "again", 20, 100, 110, again(7))
    run.span("torch_tensorrt.compile", 200, 201, {s.MODEL_CLASS: "Broken", s.ERROR_TYPE: "RuntimeError"})
    build = run.start("tensorrt.build_engine", 300)
    run.heartbeat(build, 400, "tensorrt.build_engine", 90)

    assert [line.split()[1] for line in screen("--errors").splitlines() if line[0].isdigit()] == [
        "Broken",
        "tensorrt.build_engine",
        "limited",
    ]


def test_each_part_with_an_error_is_drawn_and_none_without(run, shown):
    frame(run, "again", 20, 100, 110, again(7))
    run.span("torch_tensorrt.compile", 200, 201, {s.MODEL_CLASS: "Broken", s.ERROR_TYPE: "RuntimeError"})
    build = run.start("tensorrt.build_engine", 300)
    run.heartbeat(build, 400, "tensorrt.build_engine", 90)

    drawn = shown(run.path, "--errors").waterfalls.split("\n\n")
    assert [each.splitlines()[1].split("  ")[0] for each in drawn] == [
        "torch_tensorrt.compile · Broken",
        "tensorrt.build_engine",
    ]


def test_without_an_error_errors_prints_that_nothing_failed(run, torchspan):
    frame(run, "again", 20, 100, 110, again(7))
    assert torchspan("show", run.path, "--errors") == (0, "nothing failed, and no limit was reached\n", "")


@pytest.mark.parametrize(
    ("how", "said"),
    [({"process_exit_code": 1}, "exit 1"), ({"torchspan_run_signal": "SIGABRT"}, "died of SIGABRT")],
    ids=["status", "signal"],
)
def test_where_the_program_failed_errors_does_not_print_that_nothing_did(run, torchspan, how, said):
    run.end(run.start("torch_tensorrt.compile", 0, {s.MODEL_CLASS: "Net"}, parent=RUN), 10)
    write_run(run.path, 0, 20, **how)
    expected = f"{said}: no recorded work failed, and no limit was reached\n"
    assert torchspan("show", run.path, "--errors") == (0, expected, "")


EXCLUDED = {
    s.MODEL_CLASS: "Net",
    s.COVERAGE: 0.5,
    s.SETTINGS["torch_executed_ops"]: ["torch.ops.aten.relu.default", "aten.linear.default", "?"],
}
LEFT = {
    s.FALLBACK_OPERATOR_NAMES: ["torch.ops.aten.relu.default"],
    s.FALLBACK_OPERATOR_COUNTS: [1],
    s.FALLBACK_OPERATOR_REASONS: ["user_excluded"],
    s.FALLBACK_REASON_CLASSES: ["user_excluded"],
}
NO_EFFECT = "torch_executed_ops matched no operator of the lowered graph: aten.linear.default, ?"


def test_excluded_operators_that_no_graph_has_are_named(run, shown):
    run.span("torch_tensorrt.compile", 0, 10, EXCLUDED)
    run.span("torch_tensorrt.compile", 20, 30, EXCLUDED | LEFT)
    assert NO_EFFECT in " ".join(shown(run.path).screen.split())


def test_where_not_all_operators_in_pytorch_are_listed_no_excluded_one_is_said_to_be_missing(run, shown):
    run.span("torch_tensorrt.compile", 0, 10, EXCLUDED | LEFT | {s.FALLBACK_OPERATORS_OMITTED: 3})
    assert "matched no operator" not in " ".join(shown(run.path).screen.split())


def test_a_refit_is_not_a_compilation(run, shown):
    run.span("torch_tensorrt.compile", 0, 10, {s.MODEL_CLASS: "Net"})
    for start in (20, 40):
        run.span("torch_tensorrt.refit", start, start + 5, {s.MODEL_CLASS: "Net"})
    assert "1 Net \N{MULTIPLICATION SIGN}1 20.0 ms" in " ".join(shown(run.path).screen.split())


def test_slowest_lists_spans_by_the_time_in_which_nothing_inside_them_ran(run, torchspan):
    compiled = run.start("torch_tensorrt.compile", 0, {s.MODEL_CLASS: "Net"})
    convert = run.start("torch_tensorrt.convert", 100, {s.ENGINE_NAME: "_run_on_acc_0"}, parent=compiled)
    run.span("tensorrt.build_engine", 110, 800, parent=convert)
    run.end(convert, 900)
    run.end(compiled, 1000)

    assert (
        torchspan("show", run.path, "--slowest", 2)[1]
        == """\
   690 ms  69 %  tensorrt.build_engine  in compile → convert
   200 ms  20 %  torch_tensorrt.compile · Net
"""
    )
    assert len(torchspan("show", run.path, "--slowest", 99)[1].splitlines()) == 3


@pytest.mark.parametrize("number", ["0", "-1", "many", "1.5", "", "٣", "+1", "9" * 5000])
def test_a_number_of_spans_that_is_none_is_an_error(run, torchspan, number, capsys):
    frame(run, "step", 12, 0, 10)
    with pytest.raises(SystemExit) as error:
        torchspan("show", run.path, f"--slowest={number}")
    assert error.value.code == 2
    assert f"argument --slowest: {number!r} is not a number of spans: 1 or more" in capsys.readouterr().err


def test_a_file_without_a_run_is_drawn_as_a_whole(recording, torchspan):
    recording.span("first", 0, 10, scope="app")
    recording.span("second", 0, 5, scope="app")
    assert torchspan("show", recording.path)[1].splitlines()[:3] == [
        "   what was recorded times      time",
        "1  first                ×1   10.0 ms",
        "2  second               ×1   5.00 ms",
    ]


def test_traces_of_no_run_are_counted_and_drawn_with_all(run, shown, tmp_path):
    two_parts(run)
    other = RunRecording(tmp_path / "other.jsonl", run_id="", first_id=500)
    other.span("alone", 0, 10)
    with open(run.path, "a") as file:
        file.write((tmp_path / "other.jsonl").read_text())

    assert shown(run.path).waterfalls.endswith("\n1 trace of no run in the file; show --all draws everything\n")
    assert "\n3  alone                ×1   10.0 ms\n" in "\n".join(shown(run.path, "--all"))


def test_json_has_the_rows_as_data(run, torchspan):
    two_parts(run)
    document = json.loads(torchspan("show", run.path, "--json")[1])
    assert document["format"] == "torchspan.summary/1"
    assert [(row["name"], row["place"], row["count"], row["s"]) for row in document["compiled"]] == [
        ("step", "model.py:12", 12, 0.6),
        ("Net", "", 1, 0.1),
    ]
    assert document["time"]["program_s"] == 3.0


# --- widths -----------------------------------------------------------------------------------------------------------
def a_full_screen(run):
    """Rows with wide names, long places, many numbers and every kind of line."""
    for number in range(14):
        place = {s.CODE_FILE: f"/srv/推論サービス/models/model_{number}.py", s.FRAME_OUTCOME: "compiled"}
        frame(run, f"推論ステップ_{number}", 10, 1000 * number, 1000 * number + 10, {**place, **again(7)}, parent=RUN)
    compiled = run.start("torch_tensorrt.compile", 20_000, {s.MODEL_CLASS: "模型" * 20}, parent=RUN)
    for number in range(2):
        engine = {s.ENGINE_NAME: f"_run_on_acc_{number}", s.ENGINE_SIZE: 10_000_000}
        run.span("torch_tensorrt.convert", 20_000, 22_000, engine, parent=compiled)
    run.heartbeat(compiled, 8_000_000, "tensorrt.build_engine", 1)
    write_run(run.path, 0, 9_000_000, process_exit_code=1)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_also_in_a_pipe_and_in_ascii(run, shell, width, encoding):
    a_full_screen(run)
    environ = {**os.environ, "COLUMNS": str(width), "PYTHONIOENCODING": encoding}
    for words in ([], ["1"], ["--errors"], ["--slowest", "20"]):
        out = shell("show", run.path, *words, env=environ, encoding=encoding).stdout
        wide = {line.strip() for line in out.splitlines() if columns(line) > width}
        assert wide <= {"torch._dynamo.maybe_mark_dynamic(x, 0)"}, "code to copy is left to the terminal to wrap"


def findings_of_every_kind(recording):
    """A compilation that failed in an operator of a function with a long name, with a fallback, breaks, sizes and caches."""
    function = {
        s.CODE_FILE: "/srv/app/models/transformer.py",
        s.CODE_LINE: 12,
        s.CODE_FUNCTION: "forward_of_everything",
    }
    event = {**function, s.GRAPH_BREAK_CLASS: "builtin", s.GRAPH_BREAK_SKIPS: True}
    sizes = {s.OUTSIDE_PATHS: ["past[0][1]"], s.OUTSIDE_AXES: [2], s.OUTSIDE_SIZES: [4097]}
    ranges = {s.OUTSIDE_MINIMUMS: [1], s.OUTSIDE_MAXIMUMS: [4096]}
    events = [(s.GRAPH_BREAK_EVENT, event), (s.OUTSIDE_EVENT, {**sizes, **ranges})]
    limited = {**function, **again(7), **LIMIT, s.AOTAUTOGRAD_CACHE: "miss", s.INDUCTOR_CACHE: "bypass"}
    outer = recording.span("torch.compile_frame", 0, 9000, limited, events=events)
    fallback = {
        s.FALLBACK_REASON_CLASSES: [FallbackReason.VALIDATOR_REFUSED],
        s.FALLBACK_OPERATOR_NAMES: ["torch.ops.aten.bitwise_and.Tensor", "torch.ops.aten.scaled_dot_product.default"],
        s.FALLBACK_OPERATOR_COUNTS: [2, 1],
        s.FALLBACK_OPERATOR_REASONS: [FallbackReason.VALIDATOR_REFUSED] * 2,
        s.FALLBACK_OPERATOR_PLACES: ["/srv/app/models/transformer.py:20", "/srv/app/models/transformer.py:31"],
        s.FALLBACK_OPERATOR_PLACE_COUNTS: [2, 1],
        s.REFUSED_OPERATORS: ["torch.ops.aten.bitwise_and.Tensor"],
        s.REFUSED_VALIDATORS: ["torch_tensorrt.dynamo.conversion.aten_ops_converters.bitwise_type_validator"],
        s.REFUSED_ARGUMENTS: ["self: int32, other: int32"],
    }
    compiled = recording.span("torch_tensorrt.compile", 0, 8000, fallback, parent=outer)
    error = ("NotImplementedError", "This is only available in other environments, for a long reason that is given")
    engine = {s.ENGINE_NAME: "_run_on_acc_0", s.ENGINE_MODULES: ["encoder.layers.0.attention", "encoder.layers.11"]}
    cache = {s.CACHE_RESULT: "rejected", s.CACHE_REASON: "engine_unreadable"}
    failed = {**function, s.FAILED_OPERATOR: "torch.ops.aten.nonzero.default", s.FAILED_NODE_NAME: "nonzero"}
    converted = recording.span("torch_tensorrt.convert", 0, 7000, {**engine, **cache}, parent=compiled)
    recording.span("torch_tensorrt.construct_network", 0, 6000, failed, parent=converted, error=error)
    recording.span("torch_tensorrt.convert", 7000, 8000, engine, parent=compiled)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_findings_of_every_kind_have_no_line_wider_than_the_terminal_but_code(recording, torchspan, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    findings_of_every_kind(recording)
    for words in ([], ["1"], ["--errors"], ["--all"]):
        lines = torchspan("show", recording.path, *words)[1].splitlines()
        assert {line.strip() for line in lines if columns(line) > width} <= {
            "torch._dynamo.maybe_mark_dynamic(x, 0)",
            "torch._dynamo.config.recompile_limit",
            'torch_executed_ops={"torch.ops.aten.nonzero.default"}',
        }
        text = " ".join(" ".join(lines).split())
        for begin in (
            "in PyTorch: ",
            "NotImplementedError in ",
            "Recompile limit (8 in this thread) reached: ",
            "Graph break at ",
            "1 call has 4097 ",
        ):
            assert begin in text
        for name in ("engine", "AOTAutograd's", "Inductor's"):
            assert f" {name} cache: " in text


def columns(line):
    """Columns of a line in which the characters from U+3000 on take two."""
    return sum(1 + (char >= "\u3000") for char in line)


def test_at_40_columns_names_are_shortened_and_numbers_are_not(run, screen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    a_full_screen(run)
    lines = [line for line in screen().splitlines() if line[0].isdigit() or " more, " in line]
    assert [*lines[:2], *lines[-3:-1]] == [
        "1  模型模型模…型模型模型    ×1 ≥2 h 13 m",
        "2  推論ステッ…el_0.py:10    ×1   10.0 ms",
        "10 推論ステッ…el_8.py:10    ×1   10.0 ms",
        "   … 5 more, 11 to 15       ×5   50.0 ms",
    ]


def test_more_rows_than_99_have_room_for_their_numbers(run, screen):
    for number in range(101):
        frame(run, f"step_{number}", number, 1000 * number, 1000 * number + 500 - number)
    lines = screen("--all").splitlines()
    assert (lines[0], lines[1], lines[-1]) == (
        "    what was compiled      times      time",
        "1   step_0  model.py:0        ×1    500 ms  compiled",
        "101 step_100  model.py:100    ×1    400 ms  compiled",
    )


def test_a_recompilation_of_the_rest_of_a_function_says_from_which_line(run, screen):
    frame(run, "f", 3, 0, 5)
    frame(run, "torch_dynamo_resume_in_f_at_7", 7, 5, 6, again(7))
    assert screen().splitlines()[2].strip() == "Recompiled in f from line 7: size of x, axis 0 (4, then 7):"
