# SPDX-License-Identifier: Apache-2.0
"""`torchspan.operators`: what its span says, and which operators are spans below it."""

import contextlib
import threading

import pytest
import torch

import torchspan
from support import models
from support.operators import BLOCK, children, names, operators, recording, table

pytestmark = pytest.mark.usefixtures("native_library")

ONES = torch.ones(4, 4)
DEPTH_1 = """\
torchspan.operators
  torch.operator aten.conv2d
  torch.operator aten.batch_norm
  torch.operator aten.relu
  torch.operator aten.max_pool2d
  torch.operator aten.flatten.using_ints
  torch.operator aten.linear"""
DEPTH_2 = """\
torchspan.operators
  torch.operator aten.conv2d
    torch.operator aten.convolution
  torch.operator aten.batch_norm
    torch.operator aten._batch_norm_impl_index
  torch.operator aten.relu
    torch.operator aten.clamp_min
  torch.operator aten.max_pool2d
    torch.operator aten.max_pool2d_with_indices
  torch.operator aten.flatten.using_ints
    torch.operator aten.view
  torch.operator aten.linear
    torch.operator aten.t
    torch.operator aten.addmm"""


def one(trace):
    return trace.one(BLOCK)


# --- a net --------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def nets(native_library):
    """A convolutional net that runs in a block, by the depth of the block."""
    model, x = models.seeded(models.ConvNet), models.image()
    traces = {}
    for depth in (1, 2):
        with recording() as traces[depth], torch.no_grad(), torchspan.operators(depth=depth, min_duration=0):
            model(x)
    return traces


@pytest.mark.parametrize(("depth", "expected"), [(1, DEPTH_1), (2, DEPTH_2)])
def test_operators_are_spans_below_the_block_down_to_its_depth(nets, depth, expected):
    assert nets[depth].outline() == expected


def test_the_table_counts_each_operator(nets):
    assert table(one(nets[1])) == {
        "aten.conv2d": 1,
        "aten.batch_norm": 1,
        "aten.relu": 1,
        "aten.max_pool2d": 1,
        "aten.flatten.using_ints": 1,
        "aten.linear": 1,
    }


@pytest.mark.parametrize(("depth", "count"), [(1, 6), (2, 13)])
def test_the_span_says_what_was_asked_for_and_how_many_there_were(nets, depth, count):
    attributes = one(nets[depth]).attributes
    keys = ("depth", "min_duration", "shapes", "count", "folded", "suppressed")
    assert [attributes.get(f"torch.operators.{key}") for key in keys] == [depth, 0.0, False, count, 0, None]


def test_an_operator_says_its_name_and_nothing_else(nets):
    (convolution,) = [span for span in operators(nets[2]) if span.name == "torch.operator aten.convolution"]
    assert convolution.attributes == {"torch.operator.name": "aten.convolution"}
    assert (convolution.kind, convolution.scope, convolution.is_error) == ("internal", "torchspan", False)
    assert (convolution.links, convolution.events) == ((), ())


def test_operators_have_the_trace_and_the_resource_of_their_block(nets):
    block = one(nets[2])
    assert {span.trace_id for span in operators(nets[2])} == {block.trace_id}
    assert all(span.resource == block.resource for span in operators(nets[2]))


def test_times_of_the_table_are_those_of_the_spans(nets):
    attributes = one(nets[2]).attributes
    for name, total, longest in zip(
        attributes["torch.operators.names"],
        attributes["torch.operators.durations"],
        attributes["torch.operators.max_durations"],
        strict=True,
    ):
        (span,) = [span for span in operators(nets[2]) if span.attributes["torch.operator.name"] == name]
        assert total == longest == pytest.approx(span.duration_ns / 1e9, abs=1e-6)


def test_own_times_add_up_to_the_outermost_operators_and_the_longest_comes_first(nets):
    attributes, block = one(nets[2]).attributes, one(nets[2])
    own = attributes["torch.operators.self_durations"]
    outermost = [span.duration_ns / 1e9 for span in operators(nets[2]) if span.parent_id == block.span_id]
    assert sum(own) == pytest.approx(sum(outermost), abs=1e-5)
    assert list(own) == sorted(own, reverse=True)


def test_each_operator_lies_inside_its_parent(nets):
    spans = {span.span_id: span for span in (one(nets[2]), *operators(nets[2]))}
    for span in operators(nets[2]):
        around = spans[span.parent_id]
        assert around.start_ns - 2_000 <= span.start_ns <= span.end_ns <= around.end_ns + 2_000


# --- what a block asks for ----------------------------------------------------------------------------------------------
def test_operators_that_are_too_short_are_in_the_table_alone():
    with recording() as trace, torchspan.operators(min_duration=3600):
        ONES.relu()
    assert operators(trace) == []
    assert table(one(trace)) == {"aten.relu": 1, "aten.clamp_min": 1}
    assert (one(trace).attributes["torch.operators.count"], one(trace).attributes["torch.operators.folded"]) == (2, 2)


def test_without_arguments_two_levels_of_a_microsecond_are_recorded_without_shapes():
    with recording() as trace, torchspan.operators():
        pass
    assert one(trace).attributes == {
        "torch.operators.depth": 2,
        "torch.operators.min_duration": 1e-6,
        "torch.operators.shapes": False,
    }


def test_shapes_and_data_types_are_those_of_the_tensors():
    with recording() as trace, torchspan.operators(depth=1, min_duration=0, shapes=True):
        torch.nn.functional.linear(torch.ones(5, 4, dtype=torch.float64), torch.ones(3, 4, dtype=torch.float64))
        torch.cat([torch.ones(2), torch.ones(3)])
        torch.arange(3) + torch.tensor(True)
    found = {
        span.attributes["torch.operator.name"]: (
            span.attributes.get("torch.inputs.shapes"),
            span.attributes.get("torch.inputs.dtypes"),
        )
        for span in operators(trace)
    }
    assert found["aten.linear"] == (["[5, 4]", "[3, 4]"], ["float64", "float64"])
    assert found["aten.add.Tensor"] == (["[3]", "[]"], ["int64", "bool"])
    assert found["aten.cat"] == (None, None)  # tensors in lists are not read
    assert found["aten.ones"] == (None, None)


def test_shapes_end_at_the_tensor_for_which_there_is_no_room():
    wide = torch.ones([1] * 20)
    with recording() as trace, torchspan.operators(depth=1, min_duration=0, shapes=True):
        torch.addcmul(wide, wide, wide)
    (added,) = operators(trace)
    assert added.attributes["torch.inputs.shapes"] == [str([1] * 20)] * 2


# --- more operators than spans ------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def many(native_library):
    """1,400 operators in one block."""
    with recording() as trace, torchspan.operators(min_duration=0):
        for _ in range(700):
            ONES.relu()
    return trace


def test_500_operators_are_spans_and_all_are_in_the_table(many):
    attributes = one(many).attributes
    assert len(operators(many)) == 500
    assert table(one(many)) == {"aten.relu": 700, "aten.clamp_min": 700}
    assert (attributes["torch.operators.count"], attributes["torch.operators.folded"]) == (1400, 900)


def test_the_parent_of_each_span_is_a_span(many):
    known = {span.span_id for span in operators(many)} | {one(many).span_id}
    assert {span.parent_id for span in operators(many)} - known == set()


def test_the_spans_are_the_longest_operators(many):
    attributes, kept = one(many).attributes, [span.duration_ns / 1e9 for span in operators(many)]
    folded = attributes["torch.operators.folded"]
    left = sum(attributes["torch.operators.durations"]) - sum(kept)
    assert left / folded <= min(kept) + 1e-9
    assert max(attributes["torch.operators.max_durations"]) == pytest.approx(max(kept), abs=1e-8)


def test_the_table_has_forty_names_and_the_count_has_all():
    unary = [
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "digamma",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
    ]
    unary += [
        "frac",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "neg",
        "reciprocal",
        "relu",
        "round",
        "rsqrt",
        "sigmoid",
    ]
    unary += [
        "sign",
        "signbit",
        "sin",
        "sinc",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
        "erfinv",
        "logit",
        "i0",
    ]
    unary += ["deg2rad", "rad2deg", "sgn", "positive", "isnan"]
    with recording() as trace, torchspan.operators(depth=1, min_duration=0):
        for name in unary:
            getattr(torch, name)(ONES)
    assert len(table(one(trace))) == 40
    assert len(operators(trace)) == one(trace).attributes["torch.operators.count"] == len(unary) == 44


# --- blocks -------------------------------------------------------------------------------------------------------------
def test_operators_belong_to_the_innermost_block():
    with recording() as trace:
        with torchspan.operators(depth=1, min_duration=0):
            ONES.relu()
            with torchspan.operators(depth=1, min_duration=0):
                ONES.sin()
            ONES.cos()
    outer, inner = sorted(trace.find(BLOCK), key=lambda span: span.start_ns)
    assert inner.parent_id == outer.span_id
    assert children(trace, outer) == ["aten.relu", "aten.cos"]
    assert children(trace, inner) == ["aten.sin"]
    assert (table(outer), table(inner)) == ({"aten.relu": 1, "aten.cos": 1}, {"aten.sin": 1})


def test_one_object_may_be_entered_again_inside_itself():
    block = torchspan.operators(depth=1, min_duration=0)
    with recording() as trace:
        with block:
            with block:
                ONES.sin()
            ONES.cos()
    outer, inner = sorted(trace.find(BLOCK), key=lambda span: span.start_ns)
    assert (table(outer), table(inner)) == ({"aten.cos": 1}, {"aten.sin": 1})


def test_a_span_of_the_program_inside_the_block_is_next_to_the_operators(native_library):
    from opentelemetry import trace as api

    with recording() as trace, torchspan.operators(depth=1, min_duration=0):
        provider = torchspan.start.instrumentor.tracer_provider()
        with provider.get_tracer("user").start_as_current_span("step"):
            ONES.sin()
        assert api.get_current_span().is_recording()
    assert children(trace, one(trace)) == ["aten.sin"]
    assert trace.one("step").parent_id == one(trace).span_id


def test_each_call_of_a_decorated_function_is_a_block_of_its_own():
    @torchspan.operators(depth=1, min_duration=0)
    def step(x, *, times):
        """Steps."""
        for _ in range(times):
            x = x.sin()
        return x

    with recording() as trace:
        results = [step(ONES, times=1), step(ONES, times=2)]
    assert torch.equal(results[1], ONES.sin().sin())
    assert (step.__name__, step.__doc__) == ("step", "Steps.")
    assert [table(span) for span in trace.find(BLOCK)] == [{"aten.sin": 1}, {"aten.sin": 2}]


def test_a_decorated_function_runs_in_several_threads_at_once():
    barrier = threading.Barrier(8)

    @torchspan.operators(depth=1, min_duration=0)
    def step(number):
        barrier.wait(60)
        for _ in range(number):
            ONES.sin()

    with recording() as trace:
        threads = [threading.Thread(target=step, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(table(span)["aten.sin"] for span in trace.find(BLOCK)) == [1, 2, 3, 4, 5, 6, 7, 8]
    for span in trace.find(BLOCK):
        assert children(trace, span) == ["aten.sin"] * table(span)["aten.sin"]
    assert all("thread.id" not in span.attributes for span in operators(trace))


# --- errors -------------------------------------------------------------------------------------------------------------
def test_an_exception_leaves_the_block_unchanged_and_is_on_its_span():
    error = ValueError("ulterior secret of the program")
    with recording() as trace:
        with pytest.raises(ValueError, match="ulterior") as caught, torchspan.operators(depth=1, min_duration=0):
            ONES.sin()
            raise error
    assert caught.value is error
    assert (one(trace).is_error, one(trace).attributes["error.type"]) == (True, "ValueError")
    assert children(trace, one(trace)) == ["aten.sin"]
    assert not any(span.is_error for span in operators(trace))


def test_an_operator_that_raises_is_an_error_without_a_description():
    with recording() as trace, torchspan.operators(min_duration=0):
        with pytest.raises(RuntimeError, match="must match") as caught:
            torch.ones(2) + torch.ones(3)
        ONES.sin()
    assert type(caught.value) is RuntimeError
    assert {(span.name, span.is_error, span.status_message) for span in operators(trace)} >= {
        ("torch.operator aten.add.Tensor", True, ""),
        ("torch.operator aten.sin", False, ""),
    }
    assert one(trace).is_error is False


def test_an_operator_of_the_program_that_raises_is_an_error_and_the_exception_is_its_own():
    error = KeyError("ulterior secret of the program")

    @torch.library.custom_op("torchspan_tests::failing", mutates_args=())
    def _failing(x: torch.Tensor) -> torch.Tensor:
        raise error

    with recording() as trace, torchspan.operators(min_duration=0):
        with pytest.raises(KeyError) as caught:
            torch.ops.torchspan_tests.failing(ONES)
    assert caught.value is error
    assert [(span.name, span.is_error) for span in operators(trace)] == [
        ("torch.operator torchspan_tests.failing", True)
    ]


# --- not recorded -------------------------------------------------------------------------------------------------------
def test_without_instrumentation_a_block_does_nothing(caplog):
    with torchspan.operators() as block:
        assert type(block) is torchspan.operators
        assert torch.equal(ONES.relu(), ONES)
    assert caplog.messages == []


def test_a_block_that_begins_before_instrumentation_records_nothing_and_the_next_does():
    with contextlib.ExitStack() as stack:
        stack.enter_context(torchspan.operators())
        with recording() as trace:
            ONES.relu()
            with torchspan.operators(depth=1):
                ONES.sin()
    assert [table(span) for span in trace.find(BLOCK)] == [{"aten.sin": 1}]


def test_a_refused_block_has_no_library_registered_on_its_thread():
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    with recording(sampler=ALWAYS_OFF) as trace, torchspan.operators():
        assert not torch._C._autograd._profiler_enabled()
        assert torch.equal(ONES.relu(), ONES)
    assert trace.traces == []


def test_a_library_that_is_missing_is_one_line_in_the_log_and_the_result_is_the_programs(monkeypatch, caplog):
    def library():
        raise RuntimeError("there is none for this PyTorch")

    monkeypatch.setattr("torchspan.hooks.native.library", library)
    with recording() as trace:
        for _ in range(3):
            with torchspan.operators():
                assert torch.equal(ONES.relu(), ONES)
    assert caplog.messages == ["torchspan: operators are not recorded: there is none for this PyTorch"]
    assert len(trace.find(BLOCK)) == 3
    assert names(operators(trace)) == []
