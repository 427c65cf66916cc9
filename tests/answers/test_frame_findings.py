# SPDX-License-Identifier: Apache-2.0
"""Why frames of torch.compile were compiled again, broke or run eagerly, and what to do about it."""

import pytest

from torchspan import semconv as s

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
        ("size", SIZE, "size of argument x, axis 0 (4, then 7): torch._dynamo.mark_dynamic(x, 0)"),
        (
            "size",
            "tensor '___stack0' size mismatch at index 1. expected 4, actual 7",
            "size of argument ___stack0, axis 1 (4, then 7): torch._dynamo.mark_dynamic(___stack0, 1)",
        ),
        (
            "size",
            "tensor 'batch[?]' size mismatch at index 2. expected 4, actual 7",
            "size of batch[?], axis 2 (4, then 7): torch.compile(dynamic=True)",
        ),
        (
            "stride",
            "tensor 'x' stride mismatch at index 1. expected 1, actual 3",
            "stride of argument x, axis 1 (1, then 3): one memory layout in all calls",
        ),
        (
            "rank",
            "tensor 'x' rank mismatch. expected 1, actual 2",
            "rank of argument x (1, then 2): one rank in all calls",
        ),
        (
            "dtype",
            "tensor 'self.w' dtype mismatch. expected Float, actual Double",
            "data type of self.w (Float, then Double): one data type in all calls",
        ),
        ("value", "number == ?", "value of argument number: pass it as a tensor, or keep it constant"),
        (
            "size",
            "tensor 'G['scale']' size mismatch at index 0. expected 4, actual 7",
            "size of global scale, axis 0 (4, then 7): torch.compile(dynamic=True)",
        ),
        (
            "size",
            "tensor 'G['__import_shop_dot_tables'].prices[?]' size mismatch at index 0. expected 4, actual 7",
            "size of global shop.tables.prices[?], axis 0 (4, then 7): torch.compile(dynamic=True)",
        ),
        (
            "size",
            "tensor 'head._parameters[?]' size mismatch at index 0. expected 4, actual 7",
            "size of head._parameters[?], axis 0 (4, then 7): torch._dynamo.config.force_parameter_static_shapes=False",
        ),
        ("value", "G['scale'] == ?", "value of global scale: pass it as a tensor, or keep it constant"),
        (
            "value",
            "self.layers.step == ?",
            "value of self.layers.step: torch._dynamo.config.allow_unspec_int_on_nn_module=True if it is an int, or keep it constant",
        ),
        ("value", "settings[?] == ?", "settings[?] == ?: pass it as a tensor, or keep it constant"),
        ("shape", "x.size()[0] == 3", "x.size()[0] == 3"),
        (
            "state",
            "GLOBAL_STATE changed: grad_mode",
            "GLOBAL_STATE changed: grad_mode: the same settings of PyTorch in all calls",
        ),
        ("backend", "?", "change of backend: one torch.compile of the function"),
        ("dtype", "?", "change of data type: one data type in all calls"),
        ("requires_grad", "?", "change of requires_grad: one requires_grad in all calls"),
        ("other", "?", "?"),
        ("other", "the ? of ?", "the ? of ?"),
        ("size", "of a form that is not known", "of a form that is not known: torch.compile(dynamic=True)"),
    ],
)
def test_a_recompilation_says_what_changed_and_what_avoids_it(lines, kind, reason, reported):
    assert lines((again(kind, reason),)) == [f"Recompiled in forward: {reported}"]


def test_in_the_rest_of_a_function_no_argument_can_be_marked(lines):
    resumed = {s.CODE_FUNCTION: "torch_dynamo_resume_in_forward_at_19"}
    on_stack = "tensor '___stack0' size mismatch at index 0. expected 4, actual 7"
    assert lines(({**resumed, **again("size", SIZE)},), ({**resumed, **again("size", on_stack)},)) == [
        "Recompiled in forward from line 19: size of x, axis 0 (4, then 7): torch.compile(dynamic=True)",
        "Recompiled in forward from line 19: size of a result from before the break, axis 0 (4, then 7): torch.compile(dynamic=True)",
    ]


def test_recompilations_for_one_thing_share_a_line_with_all_sizes(lines):
    reasons = [f"tensor 'x' size mismatch at index 0. expected {number}, actual {number + 1}" for number in range(8)]
    assert lines(*((again("size", reason),) for reason in reasons)) == [
        "Recompiled in forward \N{MULTIPLICATION SIGN}8: size of argument x, axis 0 (0, then 1, 2, 3, 4, …): torch._dynamo.mark_dynamic(x, 0)"
    ]


def test_the_limit_is_said_with_the_setting_that_raises_it(lines):
    limit = {s.FRAME_OUTCOME: "limit", s.RECOMPILE_LIMIT: "recompile_limit"}
    (reported,) = lines(({**again("value", "number == ?"), **limit},))
    assert reported == (
        "Recompile limit reached in forward: value of argument number; calls with others run eagerly; "
        "raise torch._dynamo.config.recompile_limit, or pass it as a tensor, or keep it constant"
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
            "Data-dependent branching; torch.where or torch.cond keep one graph",
        ),
        (
            "data_dependent_value",
            {s.GRAPH_BREAK_TYPE: "Unsupported Tensor.item() call with capture_scalar_outputs=False"},
            (
                "Unsupported Tensor.item() call with capture_scalar_outputs=False; "
                "torch._dynamo.config.capture_scalar_outputs=True keeps one graph"
            ),
        ),
        (
            "data_dependent_value",
            {s.GRAPH_BREAK_TYPE: "Dynamic shape operator"},
            "Dynamic shape operator; torch._dynamo.config.capture_dynamic_output_shape_ops=True keeps one graph",
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
        ("builtin", {}, "builtin; call it outside the compiled code"),
        (
            "builtin",
            {
                s.GRAPH_BREAK_TYPE: "Failed to trace builtin operator",
                s.GRAPH_BREAK_REASON: "Dynamo does not know how to trace builtin operator `print`",
            },
            "Failed to trace builtin operator print; call it outside the compiled code",
        ),
        (
            "other",
            {s.GRAPH_BREAK_TYPE: "?", s.GRAPH_BREAK_REASON: "Failed to trace builtin operator `print`"},
            "other",
        ),
        (
            "builtin",
            {s.GRAPH_BREAK_HINTS: ["Set `torch._dynamo.config.reorderable_logging_functions`, or a `print`."]},
            "builtin; call it outside the compiled code, or see torch._dynamo.config.reorderable_logging_functions",
        ),
        (
            "other",
            {s.GRAPH_BREAK_HINTS: ["no setting", "`torch._dynamo.config.one` or `torch._dynamo.config.two`"]},
            "other; see torch._dynamo.config.one",
        ),
        (
            "data_dependent_value",
            {
                s.GRAPH_BREAK_TYPE: "Dynamic shape operator",
                s.GRAPH_BREAK_HINTS: ["Enable `torch._dynamo.config.capture_dynamic_output_shape_ops`"],
            },
            "Dynamic shape operator; torch._dynamo.config.capture_dynamic_output_shape_ops=True keeps one graph",
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
