# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators and torch.compile: runs of graphs, what compiling dispatches, and that compilations are the same."""

import collections

import pytest
import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter

import torchspan
from support import compiled
from support.dynamo import breaks, clean_dynamo
from support.garbage import not_collected
from support.operators import BLOCK, children, operators, recording, table
from torchspan.start import instrumentor

pytestmark = pytest.mark.usefixtures("native_library")

ONES = torch.ones(3, 3)
GRAPH = "torch.run_graph"
BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def dynamo():
    """Nothing has been compiled yet."""
    with clean_dynamo(), not_collected():
        yield torch._dynamo


def request():
    return instrumentor.tracer_provider().get_tracer("user").start_as_current_span("request")


# --- runs of graphs -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["sampled", "on"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_operators_are_below_the_run_of_their_graph(mode, backend):
    with recording(operators=mode) as trace:
        function = torch.compile(compiled.plain, backend=backend)
        with request():
            function(ONES)
            function(ONES)
    runs = trace.find(GRAPH)
    assert [children(trace, run) for run in runs] == [["aten.sin", "aten.add.Tensor"]] * 2
    assert [(table(run)["aten.sin"], table(run)["aten.add.Tensor"]) for run in runs] == [(1, 1)] * 2
    assert [run.attributes["torch.operators.depth"] for run in runs] == [2, 2]


@pytest.mark.slow
def test_kernels_of_inductor_are_part_of_the_run_and_operators_that_it_calls_are_below():
    with recording(operators="on") as trace:
        function = torch.compile(compiled.square, backend="inductor")
        with request():
            function(ONES)
            function(ONES)
    assert [table(run)["aten.mm.out"] for run in trace.find(GRAPH)] == [1, 1]


def test_off_records_no_run_and_no_operator():
    with recording(operators="off") as trace:
        function = torch.compile(compiled.plain, backend="eager")
        with request():
            function(ONES)
            function(ONES)
    assert trace.find(GRAPH) == []
    assert operators(trace) == []


def test_operators_of_graphs_below_a_break_are_below_their_own_runs():
    with recording(operators="on") as trace:
        function = torch.compile(compiled.breaks_twice, backend="eager")
        with request():
            function(ONES)
            function(ONES)
    runs = sorted(trace.find(GRAPH), key=lambda span: span.start_ns)
    assert [[*table(run)] for run in runs][-3:][0] == ["aten.sin"]
    assert "torch.operators.names" not in trace.one("request").attributes
    assert all(
        span.parent_id in {run.span_id for run in runs} for span in operators(trace) if span.name.endswith(".cos")
    )


def test_below_a_block_graphs_are_regions_and_compiling_is_counted():
    with recording() as trace, torchspan.operators(min_duration=0):
        torch.compile(compiled.plain, backend="aot_eager")(ONES)
    block = trace.one(BLOCK)
    counted = table(block)
    assert (counted["torch.compile.region"], counted["aten.sin"], counted["aten.add.Tensor"]) == (1, 1, 1)
    assert block.attributes["torch.operators.suppressed"] > 10
    (region,) = [span for span in operators(trace) if span.name == "torch.operator torch.compile.region"]
    inside = children(trace, region)
    if torch.__version__ < (2, 13):
        # Dynamo looks up frames of its own in the first run of a region, as many as are new to it.
        inside = [name for name in inside if name != "torch.compile.cache_lookup"]
    assert inside == ["aten.sin", "aten.add.Tensor"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_operator_of_a_compilation_has_a_span(backend):
    with recording() as trace, torchspan.operators(depth=255, min_duration=0):
        torch.compile(compiled.square, backend=backend)(ONES)
    frames = [node.span for each in trace.traces for node in each.nodes() if node.span.name == "torch.compile_frame"]
    (frame,) = frames
    inside = [span for span in operators(trace) if frame.start_ns <= span.start_ns and span.end_ns <= frame.end_ns]
    assert [span.name for span in inside] == []
    assert trace.one(BLOCK).attributes["torch.operators.suppressed"] > 0


# --- nothing changes ----------------------------------------------------------------------------------------------------
def compilations(function, *inputs, backend):
    """What compiling and running leaves: results, graphs, breaks, and Dynamo's counters."""
    with clean_dynamo():
        torch._dynamo.utils.counters.clear()
        counting = CompileCounter() if backend == "counting" else backend
        run = torch.compile(function, backend=counting)
        results = [run(x) for x in inputs]
        counters = {
            group: dict(numbers)
            for group, numbers in torch._dynamo.utils.counters.items()
            if group in {"frames", "stats", "graph_break", "unimplemented", "recompiles", "aot_autograd"}
        }
        graphs = (counting.frame_count, counting.op_count) if backend == "counting" else None
        return results, graphs, breaks(), counters


def assert_same(one, other):
    assert all(torch.equal(first, second) for first, second in zip(one[0], other[0], strict=True))
    assert one[1:] == other[1:]


FUNCTIONS = [compiled.plain, compiled.product, compiled.breaks_twice, compiled.calls_a_disabled_function]
INPUTS = (ONES, ONES, torch.ones(4, 4), torch.ones(5, 5), torch.ones(3, 3, dtype=torch.float64))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ["counting", "aot_eager"])
def test_a_block_around_a_compiled_function_changes_no_result_graph_or_break(function, backend):
    bare = compilations(function, *INPUTS, backend=backend)
    with recording(operators="on"), torchspan.operators(min_duration=0, shapes=True):
        recorded = compilations(function, *INPUTS, backend=backend)
    assert_same(bare, recorded)


def inside(x):
    with torchspan.operators():
        return x.sin() + 1


@torchspan.operators()
def decorated(x):
    return x.sin() + 1


def calls_a_decorated_function(x):
    return decorated(x)


@pytest.mark.parametrize("function", [inside, calls_a_decorated_function])
@pytest.mark.parametrize("is_instrumented", [False, True])
def test_a_block_inside_a_compiled_function_is_part_of_its_graph(function, is_instrumented):
    bare = compilations(compiled.plain, *INPUTS, backend="counting")
    if is_instrumented:
        with recording(operators="on") as trace:
            recorded = compilations(function, *INPUTS, backend="counting")
        assert trace.find(BLOCK) == []
    else:
        recorded = compilations(function, *INPUTS, backend="counting")
    assert_same(bare, recorded)


def test_a_decorated_function_that_is_compiled_itself_is_a_block_around_each_run():
    bare = compilations(compiled.plain, *INPUTS, backend="counting")
    with recording() as trace:
        recorded = compilations(decorated, *INPUTS, backend="counting")
    assert_same(bare, recorded)
    assert len(trace.find(BLOCK)) == len(INPUTS)


def test_a_block_around_a_graph_break_has_the_result_of_the_program():
    def breaking(x):
        with torchspan.operators():
            x = x.sin()
            torch._dynamo.graph_break()
            return x.cos()

    with recording():
        assert torch.equal(torch.compile(breaking, backend="eager")(ONES), ONES.sin().cos())


def test_a_block_in_code_that_is_compiled_whole_does_not_break_the_graph():
    with recording():
        function = torch.compile(inside, backend="eager", fullgraph=True)
        assert torch.equal(function(ONES), ONES.sin() + 1)


def test_switching_the_recording_on_and_off_compiles_nothing_again():
    counting = CompileCounter()
    with recording():
        function = torch.compile(compiled.plain, backend=counting)
        function(ONES)
        for _ in range(3):
            function(ONES)
            with torchspan.operators():
                function(ONES)
    assert counting.frame_count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_of_a_compiled_function_are_the_same_and_its_backward_pass_is_recorded(backend):
    def gradient():
        torch._dynamo.reset()
        x = ONES.clone().requires_grad_()
        torch.compile(compiled.product, backend=backend)(x).backward()
        return x.grad

    bare = gradient()
    with recording() as trace, torchspan.operators(depth=6, min_duration=0):
        recorded = gradient()
    assert torch.equal(bare, recorded)
    backward = {
        "eager": {"MmBackward0", "SumBackward0"},
        "aot_eager": {"CompiledFunctionBackward"},
    }
    assert backward[backend] <= set(table(trace.one(BLOCK)))


def test_an_exception_of_a_compiled_function_is_the_same():
    def raised():
        torch._dynamo.reset()
        with pytest.raises(Exception) as caught:
            torch.compile(compiled.misfits, backend="eager")(ONES)
        return caught.type, str(caught.value)

    bare = raised()
    with recording(operators="on"), torchspan.operators():
        assert raised() == bare


def test_a_compilation_that_fails_in_a_block_leaves_the_recording_on():
    def failing(_module, _inputs):
        raise ValueError("ulterior secret of the program")

    with recording() as trace, torchspan.operators(depth=1, min_duration=0):
        with pytest.raises(Exception, match="ulterior"):
            torch.compile(compiled.plain, backend=failing)(ONES)
        ONES.tan()
    assert collections.Counter(span.name for span in operators(trace))["torch.operator aten.tan"] == 1
