# SPDX-License-Identifier: Apache-2.0
"""Why frames of torch.compile were compiled again, broke or run eagerly, and what to do about it."""

import pytest

from support.recording import Recording
from torchspan import answers
from torchspan.hooks.probes.describe import recompiles
from torchspan.words import semconv as s

FORWARD = {s.CODE_FUNCTION: "forward", s.COMPILE_ID: "0/0", s.FRAME_OUTCOME: "compiled"}
SIZE = "tensor 'x' size mismatch at index 0. expected 4, actual 7"


@pytest.fixture
def lines(recording, said):
    """Each sentence with its remedy, of frames given by their attributes and events."""

    def lines(*frames):
        for attributes, *events in frames:
            recording.span("torch.compile_frame", 1, 2, {**FORWARD, **attributes}, events=events)
        found = said()
        return [" ".join(finding.paragraph) for finding in (*found.errors, *found.recompiles, *found.breaks)]

    return lines


def again(kind, reason, **more):
    return {s.RECOMPILE_CLASS: kind, s.RECOMPILE_REASON: reason, **more}


def broke(kind, **more):
    facts = {s.CODE_FILE: "model.py", s.CODE_LINE: 41, s.GRAPH_BREAK_CLASS: kind}
    return s.GRAPH_BREAK_EVENT, {**facts, **more}


# --- recompilations ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "reason", "reported"),
    [
        ("size", SIZE, "size of argument x, axis 0 (4, then 7)"),
        (
            "size",
            "tensor '___stack0' size mismatch at index 1. expected 4, actual 7",
            "size of argument ___stack0, axis 1 (4, then 7)",
        ),
        (
            "size",
            "tensor 'batch[?]' size mismatch at index 2. expected 4, actual 7",
            "size of batch[?], axis 2 (4, then 7)",
        ),
        (
            "stride",
            "tensor 'x' stride mismatch at index 1. expected 1, actual 3",
            "stride of argument x, axis 1 (1, then 3)",
        ),
        (
            "rank",
            "tensor 'x' rank mismatch. expected 1, actual 2",
            "rank of argument x (1, then 2)",
        ),
        (
            "dtype",
            "tensor 'self.w' dtype mismatch. expected Float, actual Double",
            "data type of self.w (Float, then Double)",
        ),
        ("value", "number == ?", "value of argument number"),
        (
            "size",
            "tensor 'G['scale']' size mismatch at index 0. expected 4, actual 7",
            "size of global scale, axis 0 (4, then 7)",
        ),
        (
            "size",
            "tensor 'G['__import_shop_dot_tables'].prices[?]' size mismatch at index 0. expected 4, actual 7",
            "size of global shop.tables.prices[?], axis 0 (4, then 7)",
        ),
        (
            "parameter",
            "tensor 'head._parameters[?]' size mismatch at index 0. expected 4, actual 7",
            "size of head._parameters[?], axis 0 (4, then 7)",
        ),
        (
            "parameter",
            "tensor 'w' size mismatch at index 0. expected 4, actual 7",
            "size of argument w, axis 0 (4, then 7)",
        ),
        ("value", "G['scale'] == ?", "value of global scale"),
        (
            "module_int",
            "self.layers.step == ?",
            "value of self.layers.step",
        ),
        ("value", "self.gain == ?", "value of self.gain"),
        ("value", "settings[?] == ?", "value of settings[?]"),
        ("training", "fn._modules[?].training == ?", "value of fn._modules[?].training, which train() and eval() set"),
        (
            "inference_mode",
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(CPU, AutogradCPU)",
            "dispatch keys of argument x (DispatchKeySet(CPU), then DispatchKeySet(CPU, AutogradCPU))",
        ),
        (
            "dispatch_keys",
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(CPU, Conjugate)",
            "dispatch keys of argument x (DispatchKeySet(CPU), then DispatchKeySet(CPU, Conjugate))",
        ),
        (
            "type",
            "expected type of 'x' to be <class 'torch.Tensor'>, but found <class ?>",
            "type of argument x (<class 'torch.Tensor'>)",
        ),
        (
            "type",
            "___check_type_id(self._modules[?], ?), type=<class ?>",
            "type of self._modules[?]",
        ),
        ("type", "mask is None", "type of argument mask (None)"),
        ("identity", "___check_obj_id(g, ?), type=<class ?>", "identity of argument g"),
        ("identity", "k is q", "arguments k and q, which were one object before"),
        ("shape", "x.size()[0] == 3", "x.size()[0] == 3"),
        (
            "state",
            "GLOBAL_STATE changed: grad_mode",
            "GLOBAL_STATE changed: grad_mode",
        ),
        ("backend", "?", "change of backend"),
        ("backend", "BACKEND_MATCH failure", "change of backend"),
        ("dtype", "?", "change of data type"),
        ("requires_grad", "?", "change of requires_grad"),
        ("other", "?", "?"),
        ("other", "the ? of ?", "the ? of ?"),
        ("size", "of a form that is not known", "of a form that is not known"),
    ],
)
def test_a_recompilation_says_what_changed(lines, kind, reason, reported):
    assert lines((again(kind, reason),)) == [f"Recompiled in forward: {reported}"]


def test_in_the_rest_of_a_function_nothing_is_called_an_argument(lines):
    resumed = {s.CODE_FUNCTION: "torch_dynamo_resume_in_forward_at_19"}
    on_stack = "tensor '___stack0' size mismatch at index 0. expected 4, actual 7"
    assert lines(({**resumed, **again("size", SIZE)},), ({**resumed, **again("size", on_stack)},)) == [
        "Recompiled in forward from line 19: size of x, axis 0 (4, then 7)",
        "Recompiled in forward from line 19: size of a result from before the break, axis 0 (4, then 7)",
    ]


def test_recompilations_for_one_thing_share_a_line_with_all_sizes(lines):
    reasons = [f"tensor 'x' size mismatch at index 0. expected {number}, actual {number + 1}" for number in range(8)]
    assert lines(*((again("size", reason),) for reason in reasons)) == [
        "Recompiled in forward \N{MULTIPLICATION SIGN}8: size of argument x, axis 0 (0, then 1, 2, 3, 4, …)"
    ]


# --- several compiled versions ----------------------------------------------------------------------------------------
BEFORE = "tensor 'x' size mismatch at index 0. expected 4, actual 6"
GRAD_MODE = "GLOBAL_STATE changed: grad_mode"


def several(kind, *reasons, **more):
    first = reasons[0].partition(": ")[2]
    return again(kind, first, **{s.RECOMPILE_REASONS: reasons, **more})


def test_different_guards_of_several_versions_are_listed_without_a_remedy(lines):
    frame = several("several", f"0/1: {GRAD_MODE}", f"0/0: {BEFORE}")
    assert lines((frame,)) == [
        "Recompiled in forward: several causes: 0/0: size of argument x, axis 0 (4, then 6); 0/1: GLOBAL_STATE changed: grad_mode"
    ]


def test_sizes_of_two_arguments_are_several_causes_of_one_class(lines):
    frame = several("size", f"0/1: {BEFORE}", "0/0: " + BEFORE.replace("'x'", "'y'"))
    assert lines((frame,)) == [
        "Recompiled in forward: several causes: 0/0: size of argument y, axis 0 (4, then 6); 0/1: size of argument x, axis 0 (4, then 6)"
    ]


def test_versions_that_agree_are_one_cause_with_the_sizes_of_the_oldest_first(lines):
    frame = several("size", f"0/1: {BEFORE.replace('4', '5')}", f"0/0: {BEFORE}")
    assert lines((frame,)) == ["Recompiled in forward: size of argument x, axis 0 (4, then 5, 6)"]


def test_frames_of_a_function_with_several_causes_share_a_line(lines):
    frames = [several("several", f"0/{number}: {GRAD_MODE}", f"0/0: {BEFORE}") for number in (1, 2)]
    frames.append(several("value", "0/3: n == ?", "0/0: m == ?"))
    (line,) = lines(*((frame,) for frame in frames))
    assert line == (
        "Recompiled in forward \N{MULTIPLICATION SIGN}3: several causes: 0/0: size of argument x, axis 0 (4, then 6); "
        "0/1, 0/2: GLOBAL_STATE changed: grad_mode; 0/0: value of argument m; 0/3: value of argument n"
    )


# --- who reads it -----------------------------------------------------------------------------------------------------
WHOLE = (
    ("n == ?", "n == 17"),
    ("n == ?", "n == 'user one'"),
    ("d[?] == ?", "d['wanda'] == 17"),
    ("d[?] == ?", "d['krol'] == 18"),
    ("___check_type_id(d[?], ?), type=<class ?>", "___check_type_id(d['wanda'], 94123), type=<class '__main__.A'>"),
    ("___check_type_id(d[?], ?), type=<class ?>", "___check_type_id(d['wanda'], 94124), type=<class '__main__.B'>"),
    ("___check_obj_id(g, ?), type=<class ?>", "___check_obj_id(g, 94123), type=<class '__main__.A'>"),
    ("___check_obj_id(g, ?), type=<class ?>", "___check_obj_id(g, 94124), type=<class '__main__.A'>"),
    ("tensor 'd[?]' size mismatch at index 0. expected 4, actual 7", "tensor 'd['wanda']' size mismatch at index 0. expected 4, actual 7"),
    ("BACKEND_MATCH failure", "BACKEND_MATCH failure: Cached backend: eager (id=0x7f12). New backend: eager (id=0x7f13)."),
    ("BACKEND_MATCH failure", "BACKEND_MATCH failure: Cached backend: eager (id=0x7f13). New backend: eager (id=0x7f14)."),
    ("2 <= x.size()[0] <= ?", "2 <= x.size()[0] <= 4711"),
    ("2 <= x.size()[0] <= ?", "2 <= x.size()[0] <= 4712"),
    ("tensor '?' size mismatch at index 0. expected 4, actual 7", "tensor 'gr\u00f6\u00dfe' size mismatch at index 0. expected 4, actual 7"),
)  # fmt: skip


def test_who_has_the_texts_of_the_program_reads_the_same_classes_counts_and_remedies(recording):
    for reduced, whole in WHOLE:
        kind = recompiles.class_of(whole)
        for more in ({}, {s.RECOMPILE_REASONS: [f"0/1: {reduced}", "0/0: y is None"]}):
            texts = {s.LOCAL + key: [f"0/1: {whole}", "0/0: y is None"] for key in more}
            facts = {**FORWARD, **again(kind, reduced), **more, **texts, s.LOCAL + s.RECOMPILE_REASON: whole}
            recording.span("torch.compile_frame", 1, 2, facts)
    plain, with_texts = (answers.read(recording.path, texts=texts).answers.recompiles for texts in (False, True))
    assert [(each.guard, each.count, each.functions, each.remedy) for each in plain] == [
        (each.guard, each.count, each.functions, each.remedy) for each in with_texts
    ]
    assert (
        with_texts[0].sentence
        == "Recompiled in forward \N{MULTIPLICATION SIGN}2: value of argument n (17, then 'user one')"
    )
    assert plain[0].sentence == "Recompiled in forward \N{MULTIPLICATION SIGN}2: value of argument n"


# --- functions, processes and threads ---------------------------------------------------------------------------------
def size(before, now):
    return again("size", f"tensor 'x' size mismatch at index 0. expected {before}, actual {now}")


def test_sizes_of_two_functions_are_two_sequences(lines):
    assert lines((size(4, 5),), ({**size(4, 3), s.CODE_FUNCTION: "step"},)) == [
        "Recompiled in forward: size of argument x, axis 0 (4, then 5)",
        "Recompiled in step: size of argument x, axis 0 (4, then 3)",
    ]


def test_what_has_no_values_is_said_of_each_function_in_its_own_row(lines):
    assert lines((again("state", GRAD_MODE),), ({**again("state", GRAD_MODE), s.CODE_FUNCTION: "step"},)) == [
        "Recompiled in forward: GLOBAL_STATE changed: grad_mode",
        "Recompiled in step: GLOBAL_STATE changed: grad_mode",
    ]


def of_processes(tmp_path, *processes):
    """What is said of frames in several processes, each given by its attributes and its frames."""
    paths = []
    for number, (process, frames) in enumerate(processes):
        recording = Recording(tmp_path / f"{number}.jsonl", **process)
        for facts in frames:
            recording.span("torch.compile_frame", number + 1, number + 2, {**FORWARD, **facts})
        paths.append(recording.path)
    return answers.read(*paths).answers.recompiles


def test_each_rank_has_its_own_sequence(tmp_path):
    found = of_processes(
        tmp_path,
        ({s.RANK: 0, s.PROCESS_PID: 71}, [size(4, 6)]),
        ({s.RANK: 1, s.PROCESS_PID: 72}, [size(4, 7)]),
    )
    assert [(each.sentence, each.count, each.processes) for each in found] == [
        ("Recompiled in forward on rank 0: size of argument x, axis 0 (4, then 6)", 1, ("on rank 0",)),
        ("Recompiled in forward on rank 1: size of argument x, axis 0 (4, then 7)", 1, ("on rank 1",)),
    ]


def test_ranks_with_the_same_sequence_share_a_line_that_names_them(tmp_path):
    found = of_processes(tmp_path, *(({s.RANK: rank}, [size(4, 6), size(6, 9)]) for rank in (0, 1)))
    assert [(each.sentence, each.count, each.processes) for each in found] == [
        (
            "Recompiled in forward \N{MULTIPLICATION SIGN}4 on rank 0, on rank 1: size of argument x, axis 0 (4, then 6, 9)",
            4,
            ("on rank 0", "on rank 1"),
        )
    ]


def test_the_row_of_what_several_ranks_compiled_names_them(tmp_path):
    paths = []
    for rank in (0, 1):
        recording = Recording(tmp_path / f"{rank}.jsonl", **{s.RANK: rank})
        recording.span("torch.compile_frame", rank, rank + 1, {**FORWARD, s.FRAME_OUTCOME: "compiled"})
        paths.append(recording.path)
    (row,) = answers.read(*paths).answers.compiled
    assert (row.count, row.outcome) == (2, "compiled, on rank 0, on rank 1")
    (row,) = answers.read(paths[0]).answers.compiled
    assert row.outcome == "compiled"


def test_where_the_rank_is_not_known_the_process_is_named(tmp_path):
    found = of_processes(tmp_path, ({s.PROCESS_PID: 71}, [size(4, 6)]), ({s.PROCESS_PID: 72}, [{}]))
    assert [each.sentence for each in found] == [
        "Recompiled in forward in process 71: size of argument x, axis 0 (4, then 6)"
    ]


UNEXPECTED = (
    "Unexpected recompilation: runtime guards failed even though they passed during recompilation-reason analysis."
)


def test_of_a_function_that_another_thread_compiled_meanwhile_that_is_the_cause(lines):
    first = {s.THREAD_ID: 1}
    second = {**again("other", UNEXPECTED), s.COMPILE_ID: "0/1", s.THREAD_ID: 2}
    assert lines((first,), (second,)) == ["Recompiled in forward: another thread compiled it meanwhile"]


def test_what_pytorch_did_not_expect_in_one_thread_is_said_in_its_words(lines):
    second = {**again("other", f"{UNEXPECTED} Please open an issue"), s.COMPILE_ID: "0/1"}
    assert lines(({},), (second,)) == [f"Recompiled in forward: {UNEXPECTED}"]


# --- limits -----------------------------------------------------------------------------------------------------------
def test_the_limit_is_said_with_the_setting_that_raises_it(lines):
    limit = {s.FRAME_OUTCOME: "limit", s.RECOMPILE_LIMIT: "recompile_limit", s.RECOMPILE_LIMIT_VALUE: 8}
    (reported,) = lines(({**again("value", "number == ?"), **limit},))
    assert reported == (
        "Recompile limit (8 in this thread) reached in forward: value of argument number; calls with others run eagerly; "
        "raise torch._dynamo.config.recompile_limit in the thread that compiles"
    )


def test_sizes_that_a_version_for_all_of_them_leaves_open_are_said_with_how_to_mark_them(lines):
    sizes = {s.OPEN_SIZES_ARGUMENTS: ["x", "mask"], s.OPEN_SIZES_AXES: [0, 1]}
    (line,) = lines(({**again("size", SIZE), **sizes},))
    assert line == (
        "Recompiled in forward: size of argument x, axis 0 (4, then 7): "
        "torch._dynamo.maybe_mark_dynamic(x, 0); torch._dynamo.maybe_mark_dynamic(mask, 1) before each call"
    )


def test_the_limit_of_a_thread_is_said_with_its_value(lines):
    limit = {s.FRAME_OUTCOME: "limit", s.RECOMPILE_LIMIT: "recompile_limit", s.RECOMPILE_LIMIT_VALUE: 8}
    (reported,) = lines(({**again("training", "self.training == ?"), **limit},))
    assert reported == (
        "Recompile limit (8 in this thread) reached in forward: value of self.training, which train() and eval() set; "
        "calls with others run eagerly; raise torch._dynamo.config.recompile_limit in the thread that compiles"
    )


def test_a_limit_that_was_raised_is_not_to_be_raised_again(lines):
    limit = {s.FRAME_OUTCOME: "limit", s.RECOMPILE_LIMIT: "recompile_limit", s.RECOMPILE_LIMIT_VALUE: 64}
    (reported,) = lines(({**again("value", "number == ?"), **limit},))
    assert reported == (
        "Recompile limit (64 in this thread) reached in forward: value of argument number; calls with others run eagerly"
    )


def test_a_frame_that_fell_back_is_said_with_the_failure(lines):
    assert lines(({s.FRAME_OUTCOME: "fallen_back", s.COMPILE_FAILURE_TYPE: "NotImplementedError"},)) == [
        "Fell back to eager in forward: NotImplementedError"
    ]


# --- graph breaks -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "more", "reported"),
    [
        (
            "data_dependent_branch",
            {s.GRAPH_BREAK_TYPE: "Data-dependent branching"},
            "Data-dependent branching",
        ),
        (
            "data_dependent_value",
            {s.GRAPH_BREAK_TYPE: "Unsupported Tensor.item() call with capture_scalar_outputs=False"},
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        ),
        (
            "data_dependent_value",
            {s.GRAPH_BREAK_TYPE: "Dynamic shape operator"},
            "Dynamic shape operator",
        ),
        (
            "requested",
            {s.DECLARED_API: "torch._dynamo.graph_break"},
            "requested by torch._dynamo.graph_break",
        ),
        (
            "disabled",
            {s.DECLARED_API: "torch.compiler.disable", s.DECLARED_FUNCTION: "lookup"},
            "disabled by torch.compiler.disable of lookup",
        ),
        ("builtin", {}, "builtin"),
        (
            "builtin",
            {
                s.GRAPH_BREAK_TYPE: "Failed to trace builtin operator",
                s.GRAPH_BREAK_REASON: "Dynamo does not know how to trace builtin operator `print`",
            },
            "Failed to trace builtin operator print",
        ),
        (
            "other",
            {s.GRAPH_BREAK_TYPE: "?", s.GRAPH_BREAK_REASON: "Failed to trace builtin operator `print`"},
            "other",
        ),
        (
            "builtin",
            {s.GRAPH_BREAK_HINTS: ["Set `torch._dynamo.config.reorderable_logging_functions`, or a `print`."]},
            "builtin",
        ),
        (
            "other",
            {s.GRAPH_BREAK_HINTS: ["no setting", "`torch._dynamo.config.one` or `torch._dynamo.config.two`"]},
            "other",
        ),
        (
            "data_dependent_value",
            {
                s.GRAPH_BREAK_TYPE: "Dynamic shape operator",
                s.GRAPH_BREAK_HINTS: ["Enable `torch._dynamo.config.capture_dynamic_output_shape_ops`"],
            },
            "Dynamic shape operator",
        ),
        ("other", {}, "other"),
        ("other", {s.GRAPH_BREAK_TYPE: "torch.Generator method"}, "torch.Generator method"),
        (
            "operator",
            {s.GRAPH_BREAK_TYPE: "Attempted to copy.deepcopy a tensor", s.GRAPH_BREAK_INSIDE: "copy.py:153"},
            "Attempted to copy.deepcopy a tensor",
        ),
        ("operator", {s.GRAPH_BREAK_SKIPS: True}, "operator, so all of forward runs eagerly"),
    ],
)
def test_a_graph_break_is_said_with_its_line_and_what_avoids_it(lines, kind, more, reported):
    inside = f" in {more[s.GRAPH_BREAK_INSIDE]}" if s.GRAPH_BREAK_INSIDE in more else ""
    assert lines(({}, broke(kind, **more))) == [f"Graph break at model.py:41{inside}: {reported}"]


@pytest.mark.parametrize(
    ("reason", "explanation"),
    [
        ("?", ""),
        ("Dynamo does not support this", "Dynamo does not support this"),
        (
            "Dynamo does not know how to trace the builtin `time.perf_counter.` This function is a Python builtin.",
            "Dynamo does not know how to trace the builtin `time.perf_counter.`",
        ),
        (
            "Detected a branch (e.g. `if x.sum() > 0:`). Dynamo does not.\n\n  It is:\n?",
            "Detected a branch (e.g. `if x.sum() > 0:`).",
        ),
    ],
)
def test_pytorchs_explanation_is_one_sentence_and_its_hint_the_first_that_is_known(
    recording, said, reason, explanation
):
    facts = {
        s.GRAPH_BREAK_TYPE: "A type",
        s.GRAPH_BREAK_REASON: reason,
        s.GRAPH_BREAK_HINTS: ["?", "Do this.", "Or that."],
    }
    recording.span("torch.compile_frame", 1, 2, FORWARD, events=[broke("other", **facts)])
    (found,) = said().breaks
    assert (found.type, found.explanation, found.hint) == ("A type", explanation, "Do this.")


def test_what_a_failed_frame_says_ends_with_the_line_of_the_failure(recording, said):
    reason = "RuntimeError when making fake tensor call\n  Explanation: it got RuntimeError('a and b')\n  Hint: Check it.\n\n"
    failure = {s.COMPILE_FAILURE_REASON: reason, s.COMPILE_FAILURE_FILE: "model.py", s.COMPILE_FAILURE_LINE: 27}
    recording.span(
        "torch.compile_frame", 1, 2, {**FORWARD, s.CODE_FILE: "model.py", s.CODE_LINE: 25, s.ERROR_TYPE: "E", **failure}
    )
    (found,) = said().errors
    assert [" ".join(paragraph) for paragraph in found.details][-2:] == [
        "it got RuntimeError('a and b')",
        "at model.py:27",
    ]


def test_breaks_at_one_line_share_a_line(lines):
    assert lines(({}, broke("other"), broke("other"), broke("other", **{s.CODE_LINE: 42}))) == [
        "Graph break at model.py:41: other \N{MULTIPLICATION SIGN}2",
        "Graph break at model.py:42: other",
    ]


@pytest.mark.parametrize("hostile", [["x"], 3, "", "tensor '' size mismatch at index 9. expected , actual "])
def test_attributes_of_other_types_are_shown_as_they_are(lines, hostile):
    facts = {s.CODE_FUNCTION: hostile, s.RECOMPILE_CLASS: hostile, s.RECOMPILE_REASON: hostile}
    assert len(lines((facts, broke(hostile)))) <= 3
