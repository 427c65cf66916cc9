# SPDX-License-Identifier: Apache-2.0
"""Never changing what is recorded: results, gradients and exceptions, and nothing of tensors without data."""

import pytest
import torch
from torch._subclasses import FakeTensorMode

import torchspan
from support import models
from support.operators import BLOCK, names, operators, recording, table

pytestmark = pytest.mark.usefixtures("native_library")

ONES = torch.ones(4, 4)


def trained():
    """A small training step: its loss, its output and the gradients of its parameters."""
    model, x = models.seeded(models.ConvNet).train(), models.image().requires_grad_()
    with torch.enable_grad():
        output = model(x)
        loss = output.square().mean()
        loss.backward()
    return [loss, output, x.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.fixture(scope="module")
def bare():
    return trained()


@pytest.mark.parametrize("arguments", [{"depth": 1}, {"depth": 255, "min_duration": 0, "shapes": True}])
def test_outputs_and_gradients_are_the_same_numbers(bare, arguments):
    with recording() as trace, torchspan.operators(**arguments):
        recorded = trained()
    assert all(torch.equal(one, other) for one, other in zip(bare, recorded, strict=True))
    assert len(operators(trace)) > 10


def test_random_numbers_are_the_same():
    torch.manual_seed(0)
    bare = torch.rand(5), torch.nn.functional.dropout(ONES)
    torch.manual_seed(0)
    with recording(), torchspan.operators(shapes=True):
        recorded = torch.rand(5), torch.nn.functional.dropout(ONES)
    assert all(torch.equal(one, other) for one, other in zip(bare, recorded, strict=True))


@pytest.mark.parametrize(
    "work",
    [
        lambda: torch.ones(2) + torch.ones(3),
        lambda: torch.linalg.inv(torch.zeros(2, 2)),
        lambda: torch.ones(2)[5],
        lambda: torch.ones(2).view(7),
        lambda: torch.ones(2, requires_grad=True).backward(),
        lambda: torch.ops.aten.nothing_of_that_name(ONES),
    ],
)
def test_exceptions_have_the_type_and_the_text_that_they_have_without_a_block(work):
    with pytest.raises(Exception) as bare:
        work()
    with recording(), pytest.raises(Exception) as recorded, torchspan.operators():
        work()
    assert (recorded.type, str(recorded.value)) == (bare.type, str(bare.value))


def test_no_tensor_is_kept_alive_by_its_shapes():
    import weakref

    x = torch.ones(3)
    reference = weakref.ref(x)
    with recording() as trace, torchspan.operators(min_duration=0, shapes=True):
        x.sin()
        del x
        assert reference() is None
    assert operators(trace)[0].attributes["torch.inputs.shapes"] == ["[3]"]


# --- tensors without data -----------------------------------------------------------------------------------------------
def test_operators_of_fake_tensors_are_counted_and_have_no_spans():
    with recording() as trace, torchspan.operators(min_duration=0):
        with FakeTensorMode():
            x = torch.ones(1000, 1000)
            assert (x @ x).shape == (1000, 1000)
        ONES.sin()
    attributes = trace.one(BLOCK).attributes
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}
    assert names(operators(trace)) == ["aten.sin"]
    assert attributes["torch.operators.suppressed"] >= 2


def test_operators_after_an_error_with_fake_tensors_are_recorded_again():
    with recording() as trace, torchspan.operators(min_duration=0):
        with pytest.raises(RuntimeError), FakeTensorMode():
            torch.ones(2) @ torch.ones(3)
        ONES.sin()
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}


def test_an_operator_of_a_fake_tensor_outside_its_mode_is_recorded_and_those_inside_it_are_not():
    with FakeTensorMode():
        x = torch.ones(4)
    with recording() as trace, torchspan.operators(depth=1, min_duration=0):
        x.sin()
    assert table(trace.one(BLOCK)) == {"aten.sin": 1}
    assert trace.one(BLOCK).attributes["torch.operators.suppressed"] >= 1


def test_an_export_in_a_block_is_counted_and_the_run_of_its_module_is_recorded():
    with recording() as trace, torch.no_grad(), torchspan.operators(depth=1, min_duration=0):
        module = torch.export.export(models.seeded(models.Mlp), (torch.ones(2, 16),)).module()
        exported = len(operators(trace))
        module(torch.ones(2, 16))
    assert exported == 0
    counted = table(trace.one(BLOCK))
    assert (counted["aten.linear"], counted["aten.relu"]) == (2, 1)
    assert trace.one(BLOCK).attributes["torch.operators.suppressed"] > 10


def test_tracing_in_a_block_sees_the_same_graph():
    def function(x):
        return x.sin() + 1

    def traced():
        return str(torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="fake")(ONES).code)

    bare = traced()
    with recording(), torchspan.operators():
        assert traced() == bare
