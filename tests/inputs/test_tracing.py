# SPDX-License-Identifier: Apache-2.0
"""Observers under torch.compile and torch.export: what is traced is the same, and no tracer's tensors are recorded."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from support.observed_calls import kinds, ones, recorded
from torchspan.inputs import InputObserver


class Inner(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x) + 1


@pytest.fixture(autouse=True)
def dynamo_starts_afresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


ATTACHED_TO = {"what compile returned": lambda model, compiled: compiled, "the model": lambda model, compiled: model}


@pytest.mark.parametrize("where", ATTACHED_TO)
@pytest.mark.parametrize("is_warm", [False, True])
def test_at_the_top_of_a_compiled_model_calls_are_recorded_and_nothing_else_is_compiled(where, is_warm):
    counter = CompileCounter()
    model, observer = Outer(), InputObserver()
    compiled = torch.compile(model, backend=counter)
    if is_warm:
        compiled(ones(2, 3))
    with observer(ATTACHED_TO[where](model, compiled)):
        for _ in range(3):
            assert compiled(ones(2, 3)).shape == (2, 3)
    compiled(ones(2, 3))
    assert observer.num_obs() == 3
    assert counter.frame_count == 1
    assert not torch._dynamo.utils.counters["graph_break"]
    (shape,) = observer._observed.snapshot().shapes
    assert [type(each) for each in shape.first.arguments["x"].shape] == [int, int]


def test_a_model_that_was_compiled_in_place_is_observed():
    counter = CompileCounter()
    model, observer = Outer(), InputObserver()
    model.compile(backend=counter)
    with observer(model):
        model(ones(2, 3))
    assert (observer.num_obs(), counter.frame_count) == (1, 1)


def test_the_names_of_arguments_are_those_of_the_compiled_model():
    model, observer = Outer(), InputObserver()
    compiled = torch.compile(model, backend="eager")
    with observer(compiled):
        compiled(ones(2))
    assert observer.infer_profile().signature.names == ["x"]


@pytest.mark.parametrize("is_warm", [False, True])
def test_inside_a_compiled_region_an_observer_adds_nothing_and_says_that_it_sees_nothing(is_warm):
    counter = CompileCounter()
    model, observer = Outer(), InputObserver()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    if is_warm:
        compiled(ones(2, 3))
    with observer(model.inner):
        compiled(ones(2, 3))
        compiled(ones(2, 3))
    assert counter.frame_count == 1
    assert observer.is_empty()
    assert kinds(observer) == [("no_call", "")]
    (finding,) = observer.findings()
    assert finding.message.endswith(
        "A call inside a region that torch.compile compiles is not seen: attach the observer to what torch.compile returned."
    )


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("where", [lambda model: model, lambda model: model.inner])
def test_an_export_in_the_block_is_the_same_program_and_is_not_recorded(strict, where):
    expected = str(torch.export.export(Outer(), (ones(2, 3),), strict=strict).graph)
    model, observer = Outer(), InputObserver()
    with observer(where(model)):
        program = torch.export.export(model, (ones(2, 3),), strict=strict)
    assert str(program.graph) == expected
    assert observer.is_empty()


def test_fake_tensors_are_not_recorded_wherever_they_are():
    class Anything(torch.nn.Module):
        def forward(self, x):
            return None

    model, observer = Anything(), InputObserver()
    with torch._subclasses.FakeTensorMode():
        fake = torch.empty(2)
    with observer(model):
        model(fake)
        model([{"a": fake}])
        model(ones(3))
    assert recorded(observer) == [(3,)]
    assert kinds(observer) == [("symbolic", "")]


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning")
def test_a_trace_by_torch_jit_is_not_recorded():
    model, observer = Outer(), InputObserver()
    with observer(model):
        torch.jit.trace(model, ones(2), check_trace=False)
    assert observer.is_empty()
