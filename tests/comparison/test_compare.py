# SPDX-License-Identifier: Apache-2.0
"""Two sides compared: which work is the same, what is said of its time, and what else has changed."""

import json

import pytest

from support.device_times import engine_run
from support.operator_tables import operator, table
from support.run_recording import RUN, RunRecording, write_run
from torchspan.comparison import ComparisonError, compare
from torchspan.reading.answers.lines import Style
from torchspan.reading.comparison._sentences import flowed_lines, headline
from torchspan.reading.comparison._sentences import sentences as all_sentences
from torchspan.words import semconv

MUCH = "\N{MULTIPLICATION SIGN}"


def sentences(result):
    return [change.sentence("before", "after") for change in result.changes]


def runs(write, name, totals, **options):
    """A folder with a file for each total in milliseconds."""
    for number, ms in enumerate(totals):
        folder = write(f"{name}/{number}.jsonl", ms=ms, **options).parent
    return folder


# --- the answer -------------------------------------------------------------------------------------------------------
def test_the_first_line_is_the_time_of_both_sides_and_the_likely_cause(write):
    before = runs(write, "before", [100, 101, 102, 103, 104], TORCH_VERSION="2.13")
    after = runs(write, "after", [140, 141, 142, 143, 144], TORCH_VERSION="2.14")
    assert str(compare(before, after)) == (
        "compile Net: before 102 ms → after 142 ms (+39 %, 5 and 5 runs, p=0.016): torch:\n"
        "before 2.13 → after 2.14\n"
        "   +40.0 ms outside of its stages: before 102 ms → after 142 ms (p=0.016)\n"
        "torch: before 2.13 → after 2.14"
    )


def test_a_file_against_itself_is_one_line(write):
    path = write("before.jsonl", stages={"torch_tensorrt.lower": 60, "torch_tensorrt.partition": 40})
    result = compare(path, path)
    assert result.changes == ()
    assert result.pairs[0].parts == ()
    assert str(result) == (
        "nothing has changed: compile Net: base 100 ms → new 100 ms (+0 %, 1 and 1 runs,\nnot judged)"
    )


def test_the_parts_are_those_of_the_median_runs_and_add_up_to_their_difference(write):
    for side, factor in (("before", 1), ("after", 2)):
        for number in range(4):
            stages = {
                "torch_tensorrt.lower": 10 + number,
                "torch_tensorrt.partition": factor * (20 + number),
                "torch_tensorrt.decompose": 30,
            }
            folder = write(f"{side}/{number}.jsonl", ms=0, stages=stages).parent
    (pair,) = compare(folder.parent / "before", folder).pairs
    assert (pair.whole.base_s, pair.whole.new_s) == (0.062, 0.083)  # the lower of the two in the middle
    assert [(row.path, round(row.difference_s, 6)) for row in pair.parts] == [(("partition",), 0.021), (("rest",), 0.0)]
    assert sum(row.difference_s for row in pair.parts) == pytest.approx(pair.whole.difference_s, abs=1e-3)


def test_a_stage_that_one_side_alone_has_is_one_part_with_everything_inside(write):
    def build(recording, top):
        conversion = recording.span("torch_tensorrt.convert", 10, 90, {semconv.ENGINE_OPERATORS: 2}, parent=top)
        recording.span("tensorrt.build_engine", 20, 80, parent=conversion)

    (pair,) = compare(write("before.jsonl"), write("after.jsonl", ms=180, below=build)).pairs
    assert [(row.path, round(row.difference_s, 6)) for row in pair.parts] == [
        (("convert 2 ops",), 0.08),
        (("rest",), 0.0),
    ]


def test_of_a_part_deep_inside_the_first_and_the_last_two_stages_are_named(write):
    def nested(ms):
        def below(recording, top):
            for stage in (
                "torch_tensorrt.lower",
                "torch_tensorrt.partition",
                "torch_tensorrt.decompose",
                "torch_tensorrt.export",
            ):
                top = recording.span(stage, 10, 10 + ms, parent=top)

        return below

    result = compare(write("before.jsonl", below=nested(20)), write("after.jsonl", ms=180, below=nested(100)))
    assert "+80.0 ms lower > … > decompose > export: before 20.0 ms → after 100 ms" in str(result)


def test_with_fewer_than_4_runs_a_side_times_are_shown_and_not_judged(write):
    result = compare(runs(write, "before", [100, 101, 102]), runs(write, "after", [200, 201, 202, 203]))
    assert headline(result) == (
        "compile Net: before 101 ms → after 201 ms (+99 %, 3 and 4 runs, not judged): outside of its stages +100 ms"
    )
    assert result.pairs[0].whole.p is None
    assert result.pairs[0].whole.ratio is None


def test_what_chance_may_have_made_has_a_mark_and_is_not_reported(write):
    result = compare(runs(write, "before", [100, 120, 140, 160]), runs(write, "after", [110, 130, 150, 170]))
    assert headline(result) == "nothing has changed: compile Net: before 120 ms → after 130 ms (+8 %, 4 and 4 runs, ~)"


def test_the_other_direction_has_the_same_verdict_with_the_sides_exchanged(write):
    before, after = runs(write, "before", [100, 101, 102, 103]), runs(write, "after", [140, 141, 142, 143])
    there, back = compare(before, after).pairs[0], compare(after, before).pairs[0]
    assert there.whole.p == back.whole.p
    assert [row.difference_s for row in there.parts] == [-row.difference_s for row in back.parts]
    assert there.whole.ratio == pytest.approx(tuple(1 / bound for bound in reversed(back.whole.ratio)))


def test_waiting_is_named_where_the_processor_worked_as_long_as_before(write):
    before, after = write("before.jsonl", CPU_PROCESS_TIME=0.09), write("after.jsonl", ms=300, CPU_PROCESS_TIME=0.1)
    assert "on the processor before 90.0 ms → after 100 ms: the rest is waiting" in str(compare(before, after))


def net(recording, name, at_ms, ms):
    """Another compilation, of a model of this name."""
    facts = {semconv.MODEL_CLASS: name, semconv.ENTRY_POINT: "torch_tensorrt.compile"}
    recording.span("torch_tensorrt.compile", at_ms, at_ms + ms, facts)


def nets(count, ms):
    """Further compilations, each of a model of its own."""

    def below(recording, _top):
        for number in range(count):
            net(recording, f"Net{number}", 1_000 * (number + 1), ms + number)

    return below


def test_each_compilation_whose_time_differs_has_a_line_with_its_parts_below_it(write):
    result = compare(write("before.jsonl", below=nets(1, 100)), write("after.jsonl", ms=300, below=nets(1, 150)))
    assert list(all_sentences(result)) == [
        ("compile Net: before 100 ms → after 300 ms (+200 %, 1 and 1 runs, not judged): outside of its stages +200 ms", Style.STRONG),
        ("   +200 ms  outside of its stages: before 100 ms → after 300 ms", Style.PLAIN),
        ("compile Net0: before 100 ms → after 150 ms (+50 %, 1 and 1 runs, not judged)", Style.STRONG),
        ("   +50.0 ms  outside of its stages: before 100 ms → after 150 ms", Style.PLAIN),
        ("times are judged with 4 runs a side or more", Style.DIM),
    ]  # fmt: skip


def test_the_three_compilations_that_differ_most_have_parts(write):
    pairs = compare(write("before.jsonl", below=nets(4, 100)), write("after.jsonl", ms=900, below=nets(4, 200))).pairs
    assert [len(pair.parts) for pair in pairs] == [1, 1, 1, 0, 0]


def test_a_line_has_at_most_three_hundred_characters():
    texts = [("x" * 300, Style.PLAIN), ("   " + "y" * 301, Style.DIM)]
    assert list(flowed_lines(texts, 1_000)) == [[("x" * 300, Style.PLAIN)], [("   " + "y" * 299 + "…", Style.DIM)]]


def test_of_more_than_ten_compilations_the_number_is_said(write):
    result = compare(write("before.jsonl", below=nets(12, 100)), write("after.jsonl", below=nets(12, 200)))
    assert ("2 more pairs with other times", Style.DIM) in list(all_sentences(result))


def test_of_more_than_ten_engines_the_number_is_said(write):
    def engines(gpu_ms):
        return lambda *around: [device(gpu_ms, engine=f"_run_on_acc_{number}")(*around) for number in range(11)]

    result = compare(write("before.jsonl", below=engines(6)), write("after.jsonl", below=engines(12)))
    assert ("1 more engine with other times", Style.DIM) in list(all_sentences(result))


def test_of_more_than_forty_changes_the_number_is_said(write):
    settings = {f"torch_tensorrt.settings.s{number}": number for number in range(42)}
    result = compare(write("before.jsonl"), write("after.jsonl", settings=settings))
    said = list(all_sentences(result))
    assert sum(": before none → after " in text for text, _ in said[1:]) == 40
    assert said[-1] == ("2 more changes; --json has all", Style.DIM)


def test_the_first_line_names_up_to_three_likely_causes(write):
    before = write("before.jsonl", TORCH_VERSION="1", TORCH_TENSORRT_VERSION="1", TENSORRT_VERSION="1")
    after = write("after.jsonl", TORCH_VERSION="2", TORCH_TENSORRT_VERSION="2", TENSORRT_VERSION="2", OPERATORS_TOTAL=5)
    assert headline(compare(before, after)) == (
        "compile Net: before 100 ms → after 100 ms (+0 %, 1 and 1 runs, not judged): torch: before 1 → after 2; "
        "torch_tensorrt: before 1 → after 2; tensorrt: before 1 → after 2"
    )


def test_the_first_line_names_no_fourth_cause(write):
    names = ("min_block_size", "num_avg_timing_iters", "optimization_level", "workspace_size")
    before, after = (
        write(f"{side}.jsonl", settings={semconv.SETTINGS[name]: number for name in names})
        for side, number in (("before", 7), ("after", 8))
    )
    assert headline(compare(before, after)).endswith(
        ": min_block_size: before 7 → after 8; num_avg_timing_iters: before 7 → after 8; "
        "optimization_level: before 7 → after 8"
    )


def test_a_time_that_was_nothing_has_no_rate(write):
    result = compare(write("before.jsonl", ms=0), write("after.jsonl", ms=50))
    assert headline(result).startswith(
        "compile Net: before 0 ns → after 50.0 ms (from nothing, 1 and 1 runs, not judged)"
    )


def test_a_part_that_differs_by_exactly_a_millisecond_is_shown(write):
    after = write("after.jsonl", ms=0, stages={"torch_tensorrt.lower": 1})
    (pair,) = compare(write("before.jsonl", ms=0), after).pairs
    assert [(row.path, row.difference_s) for row in pair.parts] == [((), 0.001)]


def test_with_4_runs_a_side_one_row_is_judged_and_of_the_others_that_is_said(write):
    for side, ms in (("before", 100), ("after", 200)):
        for number in range(4):
            folder = write(f"{side}/{number}.jsonl", ms=ms + number, below=nets(1, ms + number)).parent
    first, second = compare(folder.parent / "before", folder).pairs
    assert first.whole.p == pytest.approx(2 / 70)
    assert (second.whole.p, second.whole.ratio is None) == (None, False)


def test_the_times_of_a_pair_are_not_in_its_text(write):
    path = write("before.jsonl")
    assert "PairTimes" not in repr(compare(path, path).pairs[0])


# --- pairs ------------------------------------------------------------------------------------------------------------
def test_the_same_model_with_other_inputs_is_other_work(write, tmp_path):
    before = write("before.jsonl")
    other = write("after.jsonl", inputs={semconv.INPUT_SHAPES: ["[8, 3]"]})
    with pytest.raises(ComparisonError) as raised:
        compare(before, other)
    assert str(raised.value) == (
        "no common compilation: before compiled Net torch_tensorrt.compile [1, 3]; after compiled Net "
        "torch_tensorrt.compile [8, 3]; a pair has the same model or function, entry and inputs"
    )


def test_a_function_that_moved_to_another_line_is_the_same_one(frame):
    result = compare(frame("before.jsonl", line=10), frame("after.jsonl", line=14, ms=150, file="lib/model.py"))
    assert headline(result).startswith("compile forward model.py:10: before 100 ms → after 150 ms")
    assert result.changes == ()


def test_a_model_that_is_compiled_with_several_inputs_has_a_pair_for_each(write):
    def second(ms):
        def below(recording, _top):
            facts = {semconv.MODEL_CLASS: "Net", semconv.ENTRY_POINT: "torch_tensorrt.compile"}
            other = recording.span("torch_tensorrt.compile", 1_000, 1_000 + ms, facts)
            recording.span("torch_tensorrt.trace", 1_000, 1_000, {semconv.INPUT_SHAPES: ["[8, 3]"]}, parent=other)

        return below

    pairs = compare(write("before.jsonl", below=second(50)), write("after.jsonl", below=second(80))).pairs
    assert [(pair.name, pair.whole.base_s, pair.whole.new_s) for pair in pairs] == [
        ("compile Net torch_tensorrt.compile [8, 3]", 0.05, 0.08),
        ("compile Net torch_tensorrt.compile [1, 3]", 0.1, 0.1),
    ]


def test_what_is_compiled_more_often_is_a_change_and_its_time_a_sum(frame):
    result = compare(frame("before.jsonl"), frame("after.jsonl", count=3))
    assert (result.pairs[0].whole.base_s, result.pairs[0].whole.new_s) == (0.1, 0.3)
    assert sentences(result) == [f"compile forward model.py:10: before {MUCH}1 → after {MUCH}3"]


def test_what_one_side_alone_compiles_is_a_change(write):
    before, after = write("before.jsonl"), write("after.jsonl", below=nets(1, 50))
    assert sentences(compare(before, after)) == [f"compile Net0: before {MUCH}0 → after {MUCH}1"]
    assert sentences(compare(after, before)) == [f"compile Net0: before {MUCH}1 → after {MUCH}0"]


def test_files_of_different_programs_are_refused_with_what_each_compiled(write):
    write("side/0.jsonl", below=nets(1, 50))
    with pytest.raises(ComparisonError) as refused:
        compare(write("side/1.jsonl", inputs={}, MODEL_CLASS="Other").parent, write("after.jsonl"))
    assert str(refused.value).endswith(
        "0.jsonl compiled Net torch_tensorrt.compile [1, 3], Net0 torch_tensorrt.compile and "
        "1.jsonl compiled Other torch_tensorrt.compile"
    )


def test_traces_outside_of_the_run_of_a_file_are_left_out_and_named(write, tmp_path):
    path = write("before.jsonl", ms=500)
    recording = RunRecording(path, first_id=100)
    facts = {semconv.MODEL_CLASS: "Net", semconv.ENTRY_POINT: "torch_tensorrt.compile"}
    top = recording.span("torch_tensorrt.compile", 0, 80, facts, parent=RUN)
    recording.span("torch_tensorrt.trace", 0, 1, {semconv.INPUT_SHAPES: ["[1, 3]"]}, parent=top)
    write_run(path, 0, 1_000)
    result = compare(path, write("after.jsonl"))
    assert result.pairs[0].whole.base_s == 0.08
    assert result.base.left_out == ["1 older run or other trace of before.jsonl"]


# --- what else has changed --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ({"TORCH_VERSION": "2.13"}, {"TORCH_VERSION": "2.14"}, "torch: before 2.13 → after 2.14"),
        (
            {"OPERATORS_TOTAL": 5, "OPERATORS_TENSORRT": 5},
            {"OPERATORS_TOTAL": 5, "OPERATORS_TENSORRT": 3},
            "operators in TensorRT: before 5 of 5 → after 3 of 5",
        ),
    ],
)
def test_a_change_names_both_sides(write, before, after, sentence):
    assert sentences(compare(write("before.jsonl", **before), write("after.jsonl", **after))) == [sentence]


def test_a_setting_that_one_side_lacks_is_compared_with_its_default(write):
    key = semconv.SETTINGS["min_block_size"]
    before, same, other = (write(f"{name}.jsonl", settings=settings) for name, settings in (
        ("before", {}), ("same", {key: 5}), ("other", {key: 7})
    ))  # fmt: skip
    assert sentences(compare(before, same)) == []
    assert sentences(compare(before, other)) == ["min_block_size: before 5 → after 7"]


def engine(operators, engine_id="a" * 16, **attributes):
    """Below a compilation, the conversion of one engine."""

    def below(recording, top):
        facts = {
            semconv.ENGINE_OPERATORS: operators,
            semconv.INPUT_SHAPES: ["[1, 3]"],
            semconv.ENGINE_ID: engine_id,
            semconv.ENGINE_SIZE: 1_000,
            **{getattr(semconv, key): value for key, value in attributes.items()},
        }
        recording.span("torch_tensorrt.convert", 10, 20, facts, parent=top)

    return below


def test_an_engine_is_its_operators_and_inputs_whatever_its_name(write):
    before = write("before.jsonl", below=engine(2, ENGINE_NAME="_run_on_acc_0"))
    assert sentences(compare(before, write("after.jsonl", below=engine(2, ENGINE_NAME="_run_on_acc_4")))) == []
    assert sentences(compare(before, write("after2.jsonl", below=engine(3, ENGINE_MODULES=["head"])))) == [
        f"engine of 3 ops [1, 3]: before {MUCH}0 → after {MUCH}1 (head)",
        f"engine of 2 ops [1, 3]: before {MUCH}1 → after {MUCH}0",
    ]


def test_an_engine_whose_operators_are_not_known_is_its_inputs(write):
    before, after = write("before.jsonl", below=engine(2)), write("after.jsonl", below=engine("?"))
    assert sentences(compare(before, after))[0] == f"engine of [1, 3]: before {MUCH}0 → after {MUCH}1"


def test_the_row_of_a_stage_is_called_by_its_name(write):
    path = write("before.jsonl", stages={"torch_tensorrt.lower": 60})
    assert compare(path, path).pairs[0].times.stage_row("lower").path == ("lower",)


def test_the_same_engine_with_other_bytes_is_named(write):
    paths = [write(f"{name}.jsonl", below=engine(2, name * 16)) for name in "bc"]
    assert sentences(compare(*paths)) == ["engine of 2 ops [1, 3]: before 1.00 kB → after 1.00 kB (other bytes)"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("hit", "miss", ["engine cache: before 1 hit → after 1 miss (other settings)"]),
        ("miss", "miss", []),
        ("miss", "hit", ["engine cache: before 1 miss (other settings) → after 1 hit"]),
    ],
)
def test_what_the_engine_cache_did_is_compared_with_its_reason(write, before, after, expected):
    facts = {"hit": {}, "miss": {"CACHE_REASON": "settings"}}
    paths = [
        write(f"{name}.jsonl", below=engine(2, CACHE_RESULT=result, **facts[result]))
        for name, result in (("one", before), ("two", after))
    ]
    result = compare(*paths)
    assert sentences(result) == expected
    assert [change.is_worse for change in result.changes] == [before == "hit"] * len(expected)


@pytest.mark.parametrize(
    ("attribute", "name"), [("AOTAUTOGRAD_CACHE", "AOTAutograd's cache"), ("INDUCTOR_CACHE", "Inductor's cache")]
)
def test_what_a_cache_of_torch_compile_did_is_compared(frame, attribute, name):
    result = compare(frame("before.jsonl", **{attribute: "hit"}), frame("after.jsonl", **{attribute: "bypass"}))
    assert sentences(result) == [f"{name}: before 1 hit → after 1 bypass"]
    assert [change.is_worse for change in result.changes] == [True]


def test_a_fallback_is_named_with_its_reason_and_its_line(write):
    fallen = {
        "FALLBACK_REASON_CLASSES": ["user_excluded"],
        "FALLBACK_OPERATOR_NAMES": ["torch.ops.aten.relu.default"],
        "FALLBACK_OPERATOR_REASONS": ["user_excluded"],
        "FALLBACK_OPERATOR_COUNTS": [2],
        "FALLBACK_OPERATOR_PLACES": ["model.py:9"],
        "FALLBACK_OPERATOR_PLACE_COUNTS": [1],
    }
    result = compare(write("before.jsonl"), write("after.jsonl", **fallen))
    assert sentences(result) == [
        f"aten.relu in PyTorch: before {MUCH}0 → after {MUCH}2 (excluded by you at model.py:9)"
    ]
    assert [change.is_worse for change in result.changes] == [True]


def test_another_reason_of_a_fallback_is_a_change(write):
    before, after = (
        write(
            f"{reason}.jsonl",
            FALLBACK_REASON_CLASSES=[reason],
            FALLBACK_OPERATOR_NAMES=["torch.ops.aten.relu.default"],
            FALLBACK_OPERATOR_REASONS=[reason],
            FALLBACK_OPERATOR_COUNTS=[2],
        )
        for reason in ("user_excluded", "no_converter")
    )
    (change,) = compare(before, after).changes
    assert (change.subject, change.base, change.new) == ("aten.relu in PyTorch", f"{MUCH}2", f"{MUCH}2")


def test_a_fallback_that_names_no_operator_is_counted_as_a_compilation(write):
    result = compare(write("before.jsonl"), write("after.jsonl", FALLBACK_REASON_CLASSES=["compile_failed"]))
    assert sentences(result) == [
        f"compilations in PyTorch: before {MUCH}0 → after {MUCH}1 (conversion or build failed)"
    ]
    assert [change.is_worse for change in result.changes] == [True]


def test_a_setting_that_is_a_list_is_compared_by_its_entries(write):
    key = semconv.SETTINGS["torch_executed_ops"]
    before = write("before.jsonl", settings={key: ["torch.ops.aten.relu.default", "torch.ops.aten.add.Tensor"]})
    after = write("after.jsonl", settings={key: ["torch.ops.aten.relu.default"]})
    assert sentences(compare(before, after)) == [
        "torch_executed_ops: before aten.relu, aten.add.Tensor → after aten.relu"
    ]


def test_a_recompile_a_break_and_an_error_are_named(frame):
    event = {semconv.GRAPH_BREAK_CLASS: "data_dependent", semconv.CODE_FILE: "model.py", semconv.CODE_LINE: 12}
    facts = {
        "RECOMPILE_REASON": "tensor 'x' size mismatch at index 0. expected 2, actual 3",
        "RECOMPILE_CLASS": "size",
        "ERROR_TYPE": "ValueError",
    }
    after = frame("after.jsonl", events=[(semconv.GRAPH_BREAK_EVENT, event)], **facts)
    assert sentences(compare(frame("before.jsonl"), after)) == [
        f"ValueError in compile_frame: before {MUCH}0 → after {MUCH}1",
        f"graph breaks of forward, data dependent: before {MUCH}0 → after {MUCH}1 (model.py:12)",
        f"recompiles of forward: before {MUCH}0 → after {MUCH}1 (Recompiled in forward: size of argument x, axis 0 (2, then 3))",
    ]


def test_what_is_left_of_a_function_after_a_graph_break_is_that_function(frame):
    facts = {
        "CODE_FUNCTION": "torch_dynamo_resume_in_forward_at_19",
        "RECOMPILE_REASON": "tensor 'x' size mismatch at index 0. expected 2, actual 3",
        "RECOMPILE_CLASS": "size",
    }
    (change,) = compare(
        frame("before.jsonl", CODE_FUNCTION=facts["CODE_FUNCTION"]), frame("after.jsonl", **facts)
    ).changes
    assert change.subject == "recompiles of forward"


@pytest.mark.parametrize(("texts", "message"), [(False, "?"), (True, "wanda krol")])
def test_the_whole_texts_of_a_file_are_in_sentences_that_ask_for_them(write, texts, message):
    def failed(recording, top):
        whole = {f"{semconv.LOCAL}{semconv.event_text_key(0, semconv.EXCEPTION_MESSAGE)}": "wanda krol"}
        recording.span("torch_tensorrt.lower", 10, 20, whole, parent=top, error=("ValueError", "?"))

    (change,) = compare(write("before.jsonl"), write("after.jsonl", below=failed), texts=texts).changes
    assert (change.subject, change.why) == ("ValueError in lower", message)


def keys(parts, cache="INDUCTOR"):
    """The attributes of a lookup with the digests of these parts."""
    names, digests = zip(*parts.items(), strict=True)
    return {f"{cache}_CACHE_KEY_PARTS": names, f"{cache}_CACHE_KEY_DIGESTS": digests}


def test_the_part_of_a_key_that_differs_is_named_without_its_group(frame):
    before = frame("before.jsonl", **keys({"gm": "1", "config[*]": "2", "torch": "3"}))
    after = frame("after.jsonl", **keys({"gm": "1", "config[*]": "9", "torch": "3", "config[fusion]": "4"}))
    assert sentences(compare(before, after)) == ["config[fusion] in Inductor's key differs between before and after"]


def test_the_keys_of_a_cache_that_both_sides_looked_up_are_compared(frame):
    parts, others = {"gm": "1", "torch": "2"}, {"gm": "1", "torch": "3"}
    before = frame("before.jsonl", **keys(parts, "AOTAUTOGRAD"), **keys(parts))
    (change,) = compare(before, frame("inductor.jsonl", **keys(others))).changes
    assert change.sentence("before", "after") == "torch in Inductor's key differs between before and after"
    assert (change.why, change.is_worse) == ("", False)
    (change,) = compare(before, frame("autograd.jsonl", **keys(others, "AOTAUTOGRAD"))).changes
    assert change.sentence("before", "after") == "torch in AOTAutograd's key differs between before and after"


def test_a_key_of_which_a_file_has_fewer_digests_than_parts_is_left_out(frame):
    before = frame("before.jsonl", **keys({"gm": "1", "torch": "2"}))
    broken = keys({"gm": "1", "torch": "3"}) | {"INDUCTOR_CACHE_KEY_DIGESTS": ["3"]}
    assert compare(before, frame("after.jsonl", **broken)).changes == ()


def test_a_group_of_a_key_is_named_where_none_of_its_parts_differs(frame):
    before = frame("before.jsonl", **keys({"gm": "1", "config[*]": "2", "torch": "3"}))
    after = frame("after.jsonl", **keys({"gm": "1", "config[*]": "9", "torch": "3"}))
    assert sentences(compare(before, after)) == ["config[*] in Inductor's key differs between before and after"]


def test_keys_of_which_no_part_is_equal_are_not_compared(frame):
    before = frame("before.jsonl", **keys({"gm": "1", "config[*]": "2", "torch": "3"}))
    after = frame("after.jsonl", **keys({"gm": "4", "config[*]": "5", "torch": "6"}))
    assert sentences(compare(before, after)) == [
        (
            "every part of Inductor's key differs between before and after (digests of different machines or home folders "
            "cannot be compared)"
        )
    ]


def block(ms, *rows):
    """A block of the program after the compilation, with a table of operators."""
    return lambda recording, _top: recording.span("torchspan.operators", 200, 200 + ms, table(*rows))


def ran(*tables, root="torch_tensorrt.execute"):
    """Runs after the compilation, each with a table of operators: name and number."""

    def below(recording, _top):
        for rows in tables:
            facts = table(*((name, count, 1, 1, 1) for name, count in rows))
            recording.span(root, 200, 300, facts)

    return below


def test_an_operator_of_a_block_that_became_slower_and_a_new_one_are_parts_with_both_sides(write):
    before = write("before.jsonl", below=block(40, ("aten.mm", 4, 20, 20, 5), ("aten.relu", 4, 10, 10, 3)))
    after = write("after.jsonl", below=block(400, ("aten.mm", 4, 220, 220, 99), ("aten.gelu", 4, 150, 150, 30)))
    (pair,) = (pair for pair in compare(before, after).pairs if pair.name == "run torchspan.operators")
    assert [(row.path, round(row.base_s, 3), round(row.new_s, 3)) for row in pair.parts] == [
        (("aten.mm",), 0.02, 0.22),
        (("aten.gelu",), 0.0, 0.15),
        (("rest",), 0.02, 0.03),
    ]


def test_how_many_runs_were_recorded_changes_nothing(write):
    before = write("before.jsonl", below=ran([("aten.mm", 4)]))
    after = write("after.jsonl", below=ran([("aten.mm", 4)], [("aten.mm", 3)], [("aten.mm", 4)]))
    assert sentences(compare(before, after)) == []


def test_a_number_of_operators_that_one_run_of_the_other_side_has_too_changes_nothing(write):
    for name, count in [("before/1", 4), ("before/2", 5), ("after/1", 5), ("after/2", 6)]:
        folder = write(f"{name}.jsonl", below=ran([("aten.mm", count)])).parent
    assert sentences(compare(folder.parent / "before", folder)) == []


def test_operators_that_one_side_alone_recorded_are_not_compared(write):
    before = write("before.jsonl", below=ran([("aten.mm", 4)]))
    after = write("after.jsonl", below=ran([("aten.mm", 9)], root="torch.run_graph"))
    assert sentences(compare(before, after)) == []


def test_spans_of_operators_change_no_time_of_a_compilation(write):
    def below(recording, top):
        operator(recording, "aten.mm", 10, 90, recording.span("torchspan.observed step", 10, 90, parent=top))

    (pair,) = compare(write("before.jsonl"), write("after.jsonl", ms=180, below=below)).pairs
    assert [row.path for row in pair.parts] == [("step",), ("rest",)]


def test_what_differs_between_runs_of_one_side_is_not_reported(write):
    for side, versions in (("before", ("1", "2")), ("after", ("2", "3"))):
        for number, version in enumerate(versions):
            folder = write(f"{side}/{number}.jsonl", TORCH_VERSION=version).parent
    assert sentences(compare(folder.parent / "before", folder)) == []


# --- runs on the device -----------------------------------------------------------------------------------------------
def device(gpu_ms, host_ms=0.4, engine="_run_on_acc_0"):
    """Three runs of an engine, of which the middle one has these times."""

    def runs_of(recording, _top):
        for number, factor in enumerate((0.5, 1, 4)):
            at_ms = 200 + 100 * number
            own = {semconv.ENGINE_NAME: engine}
            engine_run(recording, at_ms, at_ms + factor * host_ms, gpu_ms=factor * gpu_ms, attributes=own)

    return runs_of


def test_the_times_of_device_and_host_are_side_by_side_each_with_its_verdict(write):
    before = [write(f"before/{number}.jsonl", below=device(12 + number)) for number in range(5)]
    after = [write(f"after/{number}.jsonl", below=device(6 + number / 10)) for number in range(5)]
    assert [text for text, _ in all_sentences(compare(before[0].parent, after[0].parent))][1:] == [
        "Net · _run_on_acc_0: device before 14.0 ms → after 6.20 ms (-56 %, p=0.008), host before 400 µs → after 400 µs (+0 %, ~)"
    ]


def test_times_on_the_device_that_chance_may_have_made_are_not_reported(write):
    before, after = (
        [write(f"{side}/{number}.jsonl", below=device(first + 2 * number)) for number in range(4)]
        for side, first in (("before", 10), ("after", 11))
    )
    assert headline(compare(before[0].parent, after[0].parent)).startswith("nothing has changed")


def test_a_device_that_alone_is_slower_is_a_change(write):
    result = compare(write("before.jsonl", below=device(6)), write("after.jsonl", below=device(12)))
    assert str(result) == (
        "compile Net: before 100 ms → after 100 ms (+0 %, 1 and 1 runs, not judged)\n"
        "Net · _run_on_acc_0: device before 6.00 ms → after 12.0 ms (+100 %), host before\n"
        "400 µs → after 400 µs (+0 %)\n"
        "times are judged with 4 runs a side or more"
    )


def test_times_on_the_device_that_are_equal_or_on_one_side_alone_are_not_reported(write):
    same, other = write("before.jsonl", below=device(6)), write("after.jsonl", below=device(6, engine="_run_on_acc_1"))
    for second in (same, other, write("without.jsonl")):
        assert str(compare(same, second)).startswith("nothing has changed")


def test_the_document_has_the_median_run_of_each_file_on_the_device_and_on_the_host(write):
    result = compare(write("before.jsonl", below=device(6)), write("after.jsonl", below=device(12)))
    rest = {"p": None, "ratio": None}
    host = {"base_s": 0.0004, "new_s": 0.0004, "base_runs_s": [0.0004], "new_runs_s": [0.0004]}
    times = {"base_s": 0.006, "new_s": 0.012, "base_runs_s": [0.006], "new_runs_s": [0.012]}
    assert json.loads(json.dumps(result.document()))["device"] == [
        {
            "name": "Net · _run_on_acc_0",
            "device": {"path": ["device"], **times, **rest},
            "host": {"path": ["host"], **host, **rest},
        }
    ]


# --- for other programs -----------------------------------------------------------------------------------------------
def test_the_document_has_the_times_in_seconds_and_the_changes(write):
    result = compare(write("before.jsonl", TORCH_VERSION="2.13"), write("after.jsonl", ms=150, TORCH_VERSION="2.14"))
    row = {"base_s": 0.1, "new_s": 0.15, "base_runs_s": [0.1], "new_runs_s": [0.15], "p": None, "ratio": None}
    assert json.loads(json.dumps(result.document())) == {
        "format": "torchspan.comparison/1",
        "base": {"name": "before", "runs": ["before.jsonl"], "left_out": []},
        "new": {"name": "after", "runs": ["after.jsonl"], "left_out": []},
        "pairs": [
            {"name": "compile Net", "processor_s": [0.0, 0.0], "rows": [{"path": [], **row}, {"path": [], **row}]}
        ],
        "device": [],
        "changes": [
            {
                "kind": "versions",
                "subject": "torch",
                "base": "2.13",
                "new": "2.14",
                "why": "",
                "is_worse": False,
                "work": "",
            }
        ],
    }


def test_of_a_folder_only_files_of_traces_are_read(write):
    folder = write("before/1.jsonl", ms=100).parent
    for name in ("1.html", "1.inputs.json", "notes.txt"):
        (folder / name).write_text("<html>\n", "utf-8")
    after = write("after/1.jsonl", ms=100).parent
    assert compare(folder, after).base.left_out == []
