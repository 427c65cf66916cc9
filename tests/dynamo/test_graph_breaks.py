# SPDX-License-Identifier: Apache-2.0
"""Graph breaks, recompiles and the recompile limit as events on the span of their frame."""

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from support import compiled
from torchspan.hooks.probes.describe import frames as graph_breaks
from torchspan.hooks.probes.describe import recompiles
from torchspan.words.semconv.torch import RECOMPILE_REASON

ONES = torch.ones(3, 3)
BREAK = "torch.compile.graph_break"
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


@pytest.fixture
def events(spans):
    """Name and attributes of the events on the frames' spans."""
    return lambda: [
        (event.name, dict(event.attributes)) for span in spans("torch.compile_frame") for event in span.events
    ]


ASKED_FOR = {"torch.compile.declaration.api": "torch._dynamo.graph_break"}


NO_BRANCHES = "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing dynamic control flow."
COMPUTED = "\n\n  The branch condition involves a tensor computed as follows:\n?"
HINTS_FOR_BRANCHES = (
    (
        "This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through your code. "
        "Consider finding a workaround."
    ),
    "Use `torch.cond` to express dynamic control flow.",
)
SCALAR = (
    "The branch condition uses a scalar integer tensor. Consider rewriting the computation to use plain Python ints (e.g. use int "
    "attributes instead of tensor buffers) so the condition becomes a shape guard instead of data-dependent branching."
)
BRANCHLESS = (
    "For the common pattern `if tensor_cond: x = transform(x)` (e.g. clamping inf/nan values), consider making the code "
    "branchless by always applying the transform. Operations like torch.clamp, torch.nan_to_num, and torch.where are "
    "typically no-ops on well-behaved inputs and compile without graph breaks."
)


def broke(kind, line, function, *, skips=False, declared=None, **more):
    return (
        BREAK,
        {
            f"{BREAK}.class": kind,
            f"{BREAK}.skips_frame": skips,
            "code.function.name": function,
            "code.file.path": "support/compiled.py",
            "code.line.number": line,
            **{f"{BREAK}.{key}": value for key, value in more.items()},
            **(declared or {}),
        },
    )


def called(function, *args, **options):
    return torch.compile(function, backend="eager", **options)(*args)


def test_a_break_that_was_asked_for_and_one_about_data_each_with_its_line(events, spans):
    added = None if VERSION < (2, 12) else SCALAR if VERSION < (2, 13) else BRANCHLESS
    called(compiled.breaks_twice, ONES)
    assert events() == [
        broke(
            "requested",
            17,
            "breaks_twice",
            declared=ASKED_FOR,
            type="Call to `torch._dynamo.graph_break()`",
            reason="User-inserted graph break. Message: ?",
            hints=("Remove the `torch._dynamo.graph_break()` call.",),
        ),
        broke(
            "data_dependent_branch",
            18,
            "torch_dynamo_resume_in_breaks_twice_at_17",
            type="Data-dependent branching",
            reason=NO_BRANCHES if VERSION < (2, 12) else f"{NO_BRANCHES}{COMPUTED}",
            hints=HINTS_FOR_BRANCHES if added is None else (added, *HINTS_FOR_BRANCHES),
        ),
    ]
    first, second, third = spans("torch.compile_frame")
    assert first.attributes[f"{BREAK}.classes"] == ("requested",)
    assert first.attributes[f"{BREAK}.counts"] == (1,)
    assert second.attributes[f"{BREAK}.classes"] == ("data_dependent_branch",)
    assert f"{BREAK}.classes" not in third.attributes


def test_a_break_that_leaves_the_whole_frame_to_python_is_marked(events):
    called(compiled.breaks_in_a_loop, ONES)
    assert events() == [
        broke(
            "requested",
            26,
            "breaks_in_a_loop",
            skips=True,
            declared=ASKED_FOR,
            type="Call to `torch._dynamo.graph_break()`",
            reason="User-inserted graph break. Message: ?",
            hints=("Remove the `torch._dynamo.graph_break()` call.",),
        )
    ]


@pytest.mark.parametrize(
    ("function", "kind", "line"),
    [
        (compiled.calls_a_disabled_function, "disabled", 52),
        (compiled.asks_for_a_value, "data_dependent_value", 56),
        (compiled.prints, "builtin", 60),
        (compiled.breaks_with_a_message, "requested", 65),
        (compiled.opens_a_file, "builtin", 70),
        (compiled.raises, "exception", 39),
    ],
)
def test_each_break_has_its_class_and_line_and_no_text_of_the_program(function, kind, line, spans, events, exporter):
    try:
        called(function, ONES)
    except ValueError:
        assert function is compiled.raises
    (first, *_) = events()
    assert first[1][f"{BREAK}.class"] == kind
    assert first[1]["code.line.number"] == line
    assert "ulterior" not in str([span.to_json() for span in exporter.get_finished_spans()])


def test_breaks_agree_with_dynamos_own_counters(spans):
    called(compiled.breaks_twice, ONES)
    called(compiled.asks_for_a_value, ONES)
    called(compiled.prints, ONES)
    counted = [kind for span in spans("torch.compile_frame") for kind in span.attributes.get(f"{BREAK}.classes", ())]
    assert counted == ["requested", "data_dependent_branch", "data_dependent_value", "builtin"]
    by_dynamo = torch._dynamo.utils.counters["graph_break"]  # which has no branches
    assert sum(by_dynamo.values()) == 3


def test_a_frame_compiled_again_says_which_guard_failed(events, spans):
    function = torch.compile(compiled.plain, backend="eager")
    function(ONES)
    function(torch.ones(4, 3))
    first, second = spans("torch.compile_frame")
    assert [key for key in first.attributes if "recompile" in key] == []
    why = {
        "torch.compile.recompile.class": "size",
        "torch.compile.recompile.reason": "tensor 'x' size mismatch at index 0. expected 3, actual 4",
    }
    open_sizes = {
        "torch.compile.recompile.open_sizes.arguments": ("x",),
        "torch.compile.recompile.open_sizes.axes": (0,),
    }
    assert {key: value for key, value in second.attributes.items() if "recompile" in key} == {**why, **open_sizes}
    assert events() == [("torch.compile.recompile", why)]


@pytest.mark.parametrize(
    ("function", "first", "second"),
    [
        (sum, [ONES], [ONES, ONES.clone()]),
        (compiled.plain, ONES, torch.ones(3, 3, 3)),
    ],
    ids=["one tensor more", "one axis more"],
)
def test_a_version_with_more_sizes_than_the_one_before_leaves_none_open(function, first, second, spans, caplog):
    again = torch.compile(lambda given: function(given), backend="eager", dynamic=False)
    again(first)
    again(second)
    _, recompiled = spans("torch.compile_frame")
    assert "torch.compile.recompile.class" in recompiled.attributes
    assert [key for key in recompiled.attributes if "open_sizes" in key] == []
    assert [record.getMessage() for record in caplog.records if record.name == "torchspan"] == []


def test_no_word_of_a_text_leaves_in_the_reason_of_a_recompile(spans):
    function = torch.compile(compiled.length_of_a_text, backend="eager")
    for text in ("first", "Patients: Alice Smith and Oppenheimer.", 'call "Bezos" or Musk, it\'s # of the old user'):
        function(ONES, text)
    reasons = [span.attributes.get("torch.compile.recompile.reason") for span in spans("torch.compile_frame")]
    assert reasons == [None, "t == ?", "t == ?"]


def test_a_recompile_for_a_value_does_not_say_the_value(spans, exporter):
    function = torch.compile(compiled.depends_on_a_setting, backend="eager", dynamic=False)
    function(ONES, {"ulterior": "secret of the program"})
    function(ONES, {"ulterior": "another"})
    _, second = spans("torch.compile_frame")
    assert second.attributes["torch.compile.recompile.class"] == "value"
    assert second.attributes["torch.compile.recompile.reason"] == "settings[?] == ?"
    assert "ulterior" not in str([span.to_json() for span in exporter.get_finished_spans()])


def test_a_key_of_a_dictionary_called_like_a_scope_of_dynamos_is_not_said(spans):
    function = torch.compile(compiled.depends_on_two_dictionaries, backend="eager", dynamic=False)
    function(ONES, {"ulterior": 1}, {"ulterior": 1})
    function(ONES, {"ulterior": 2}, {"ulterior": 1})
    function(ONES, {"ulterior": 2}, {"ulterior": 2})
    _, *again = spans("torch.compile_frame")
    assert [each.attributes["torch.compile.recompile.reason"] for each in again] == ["G [?] == ?", "L [?] == ?"]


def test_a_recompile_says_what_is_global_and_what_a_parameter(spans, monkeypatch):
    function = torch.compile(compiled.scales, backend="eager", dynamic=False)
    function(ONES)
    monkeypatch.setattr(compiled, "SCALE", torch.ones(1, 3))
    function(ONES)
    module = compiled.Scaling()
    again = torch.compile(module, backend="eager", dynamic=False)
    again(ONES)
    module.scale = torch.nn.Parameter(torch.ones(1))
    again(ONES)
    reasons = [each.attributes.get("torch.compile.recompile.reason") for each in spans("torch.compile_frame")]
    assert reasons == [
        None,
        "tensor 'G['SCALE']' size mismatch at index 0. expected 3, actual 1",
        None,
        "tensor 'self._parameters[?]' size mismatch at index 0. expected 3, actual 1",
    ]


def test_with_capture_text_a_reason_is_whole(instrument, spans):
    instrument(capture="text")
    function = torch.compile(compiled.adds, backend="eager", dynamic=False)
    function(ONES, 17)
    function(ONES, 18)
    _, second = spans("torch.compile_frame")
    assert second.attributes["torch.compile.recompile.reason"] == "n == 17".replace("n", "number")


def test_the_recompile_limit_is_an_event_of_its_own(dynamo, spans):
    function = torch.compile(compiled.adds, backend="eager", dynamic=False)
    with dynamo.config.patch(recompile_limit=1):
        for number in range(3):
            function(ONES, number)
    _, second = spans("torch.compile_frame")
    assert [(event.name, dict(event.attributes)) for event in second.events] == [
        (
            "torch.compile.recompile_limit",
            {
                "torch.compile.recompile.class": "value",
                "torch.compile.recompile.reason": "number == ?",
                "torch.compile.recompile.limit": "recompile_limit",
            },
        )
    ]


# --- metrics ----------------------------------------------------------------------------------------------------------
def test_frames_breaks_recompiles_and_limits_are_counted(no_long_phase, dynamo, metrics):
    function = torch.compile(compiled.adds, backend="eager", dynamic=False)
    with dynamo.config.patch(recompile_limit=2):
        for number in range(4):
            function(ONES, number)
    called(compiled.breaks_twice, ONES)
    read = metrics.read()
    assert {
        point.attributes["torch.compile.outcome"]: point.count for point in read["torch.compile.frame.duration"]
    } == {
        "compiled": 5,
        "limit": 1,
    }
    assert counts(read, "torch.compile.graph_breaks") == {("requested",): 1, ("data_dependent_branch",): 1}
    assert counts(read, "torch.compile.recompiles") == {("value",): 2}
    assert counts(read, "torch.compile.limits_reached") == {("recompile_limit",): 1}
    phases = {
        point.attributes["torch.compile.phase.name"]: point.count for point in read["torch.compile.phase.duration"]
    }
    assert phases == {"backend_compile": 5}


def counts(read, name):
    return {tuple(point.attributes.values()): point.value for point in read[name]}


# --- texts ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("guard", "kind", "reported"),
    [
        ("tensor 'x' size mismatch at index 0. expected 3, actual 4", "size", None),
        ("tensor 'x' stride mismatch at index 1. expected 1, actual 3", "stride", None),
        ("tensor 'x' rank mismatch. expected 1, actual 2", "rank", None),
        ("tensor 'self.w' dtype mismatch. expected Float, actual Double", "dtype", None),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=0", "requires_grad", None),
        (
            "tensor 'a['secret']' size mismatch at index 0. expected 3, actual 4",
            "size",
            "tensor 'a[?]' size mismatch at index 0. expected 3, actual 4",
        ),
        ("tensor 'G['scale']' size mismatch at index 0. expected 3, actual 4", "size", None),
        (
            "tensor 'G['secret of Alice']' rank mismatch. expected 1, actual 2",
            "rank",
            "tensor 'G[?]' rank mismatch. expected 1, actual 2",
        ),
        ("G['scale'] == 3", "value", "G['scale'] == ?"),
        ("L['x'].size()[0] == 3", "shape", "x.size()[0] == 3"),
        ("L['n'] == 3 and L['x'].size()[0] == 5", "shape", "n == ? and x.size()[0] == 5"),
        ("d[12345].size()[0] == 5", "shape", "d[?].size()[0] == 5"),
        ("___stack0 == 'a secret'", "value", "___stack0 == ?"),
        ("x == 1.5e10", "value", "x == ?"),
        ("x == b'secret'", "value", "x == ?"),
        ("x == 'secret", "other", "?"),
        ("x == True", "value", "x == ?"),
        ("len(L['xs']) == 3", "contents", "len(xs) == ?"),
        ("not ___dict_contains('secret', L['d'])", "contents", "not ___dict_contains(?, d)"),
        ("___check_type_id(L['x'], 94), type=<class 'Secret'>", "type", "___check_type_id(x, ?), type=<class ?>"),
        ("___check_obj_id(L['x'], 94123)", "identity", "___check_obj_id(x, ?)"),
        ("GLOBAL_STATE changed: grad_mode ", "state", "GLOBAL_STATE changed: grad_mode"),
        ("GLOBAL_STATE changed: grad_mode secret", "state", "GLOBAL_STATE changed: grad_mode ?"),
        ("the secret of Alice", "other", "?"),
        ("t == 'password is foo and hunter2secret.'", "value", "t == ?"),
        ("t == 'call Zuckerberg or Bezos, Musk, Nadella.' and n == 3", "value", "t == ? and n == ?"),
        ("list(dict.keys(d))[0] == 'name and Oppenheimer.'", "contents", "list(dict.keys(d))[?] == ?"),
        ("'it's' 'secret", "other", "?"),
    ],
)
def test_a_guard_keeps_names_sizes_and_types_and_no_other_literal(guard, kind, reported):
    assert recompiles.class_of(guard) == kind
    reduced = RECOMPILE_REASON.kind.reduced(guard)
    assert reduced == (guard if reported is None else reported)
    assert RECOMPILE_REASON.kind.accepts(reduced)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Call to `torch._dynamo.skip_frame()`", "requested"),
        ("Skip calling `torch.compiler.disable()`d function", "disabled"),
        ("Data dependent operator", "data_dependent_value"),
        ("Dynamic shape operator", "data_dependent_value"),
        ("Unsupported context manager", "context_manager"),
        ("Attempted to call function marked as skipped", "skipped_function"),
        ("Failed to trace builtin operator", "builtin"),
        ("Unsupported nn.Module attribute type", "module"),
        ("Fake tensor propagation exception", "exception"),
        ("Unsupported Tensor.backward() call", "operator"),
        ("mapping proxy cannot be reconstructed", "other"),
        ("", "other"),
    ],
)
def test_each_type_of_graph_break_has_one_class(kind, expected):
    assert graph_breaks.class_of(kind) == expected


def test_a_backward_graph_that_fails_is_counted_with_its_error(metrics):
    def failing(_graph, _inputs):
        raise ValueError("ulterior secret of the program")

    compiler = aot_autograd(fw_compiler=lambda graph, _inputs: graph, bw_compiler=failing)
    total = torch.compile(compiled.product, backend=compiler)(torch.ones(3, 3, requires_grad=True))
    with pytest.raises(Exception, match="ulterior"):
        total.backward()
    (point,) = metrics.read()["torch.compile.backward.duration"]
    assert (point.count, dict(point.attributes)) == (1, {"error.type": "ValueError"})
