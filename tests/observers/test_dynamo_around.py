# SPDX-License-Identifier: Apache-2.0
"""Where Python really runs, around a graph or between two, callbacks are called, once for each call."""

import asyncio
import subprocess
import sys

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from support.dynamo import breaks, clean_dynamo
from torchspan.observers import Observer, observable


@observable()
def double(x):
    return x * 2


@pytest.fixture(autouse=True)
def _clean():
    with clean_dynamo():
        yield


@pytest.fixture
def listening(seen):
    """Callbacks that compute with tensors, which Dynamo would compile were it looking."""

    def callback(call):
        assert (torch.ones(1) + 1).item() == 2
        seen.append(call.outcome or "called")

    with double.observers.pre.add(callback), double.observers.post.add(callback):
        yield


CALLED = ["called", "returned"]
pytestmark = pytest.mark.usefixtures("listening")


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_observed_function_that_is_compiled_is_reported_around_one_graph(fullgraph, seen):
    count, x = CompileCounter(), torch.randn(3)
    compiled = torch.compile(double, backend=count, fullgraph=fullgraph)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), x * 2)
    assert count.frame_count == 1
    assert breaks() == ({}, {})
    assert seen == CALLED * 3


def test_so_it_is_with_the_bridge_on_and_each_call_is_a_span(instrument, exporter, tracer, seen):
    instrument()
    count, x = CompileCounter(), torch.randn(3)
    compiled = torch.compile(double, backend=count, fullgraph=True)
    with tracer.start_as_current_span("request"):
        for _ in range(3):
            compiled(x)
    assert count.frame_count == 1
    assert seen == CALLED * 3
    names = [each.name for each in exporter.get_finished_spans()]
    frame = ["torch.compile_phase backend_compile", "torch.compile_frame"]
    assert sorted(names) == sorted([*frame, *["torchspan.observed double"] * 3, "request"])


def test_what_was_compiled_can_be_observed(seen):
    count, x = CompileCounter(), torch.randn(3)
    outside = observable()(torch.compile(lambda x: x * 2, backend=count))
    with outside.observers.post.add(lambda call: seen.append(call.outcome)):
        outside(x)
        torch.compile(outside, backend=count)(x)
    assert seen == ["returned"] * 2


def test_between_two_graphs_calls_are_reported_and_neither_they_nor_callbacks_are_compiled(seen):
    point = Observer("point")
    point.add(lambda x: seen.append((x + 1).shape))

    def broken(x):
        for _ in range(2):  # a break in a loop: the frame runs in Python, what it calls is looked at
            torch._dynamo.graph_break()
            x = double(x)
            point.observe(x)
        return x

    count = CompileCounter()
    compiled = torch.compile(broken, backend=count)
    compiled(torch.randn(3))
    compiled(torch.randn(3))
    assert seen == [*CALLED, (3,)] * 4
    assert count.frame_count == 1  # the bare `double`, and nothing of a callback


def test_a_break_inside_an_observed_function_costs_no_more_graphs_than_inside_the_bare_one():
    def broken(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    counts = []
    for function in (broken, observable()(broken)):
        torch._dynamo.reset()
        count = CompileCounter()
        model = torch.compile(lambda x, function=function: function(x.sin()).cos(), backend=count)
        for _ in range(3):
            model(torch.randn(3))
        counts.append(count.frame_count)
    assert counts[0] == counts[1] > 1


def test_an_observed_coroutine_and_an_observed_generator_may_run_compiled_code(seen):
    count = CompileCounter()
    compiled = torch.compile(lambda x: double(x), backend=count, fullgraph=True)

    @observable()
    async def serve(x):
        return compiled(x)

    @observable()
    def batches(x):
        yield compiled(x)

    for each in (serve, batches):
        each.observers.post.add(lambda call: seen.append(call.outcome))
    asyncio.run(serve(torch.randn(3)))
    list(batches(torch.randn(3)))
    assert count.frame_count == 1
    assert seen == ["returned"] * 2


def test_what_a_callback_compiles_is_compiled_and_calls_no_callback(seen):
    count = CompileCounter()
    compiled = torch.compile(lambda x: double(x), backend=count)
    with double.observers.pre.add(lambda call: compiled(call.args[0])):
        double(torch.randn(3))
    assert count.frame_count == 1
    assert seen == CALLED


PROGRAM = """
import sys
from torchspan.observers import Observer, observable
heard = []
@observable()
def double(x):
    return x * 2
double.observers.pre.add(lambda call: heard.append(call.callable.__name__))
point = Observer("point", scope="process")
point.add(lambda x: heard.append("point"))
double(1)
assert heard == ["double"] and "torch" not in sys.modules
import torch
assert "torch._dynamo" not in sys.modules, "we imported Dynamo"
from torch._dynamo.testing import CompileCounter
def traced(x):
    point.observe(x)
    with Observer("made").add(print):
        return double(x.sin())
count = CompileCounter()
torch.compile(traced, backend=count, fullgraph=True)(torch.ones(2))
for strict in (True, False):
    class Net(torch.nn.Module):
        def forward(self, x):
            return traced(x)
    torch.export.export(Net(), (torch.ones(2),), strict=strict)
assert not torch._dynamo.utils.counters["graph_break"]
print(count.frame_count, heard)
"""


@pytest.mark.slow
def test_what_was_decorated_before_torch_was_imported_is_safe_too():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 ['double']\n"
