# SPDX-License-Identifier: Apache-2.0
"""How an observer is put on a model and taken off: the model is as it was, whatever happened in between."""

import copy
import inspect
import pickle

import pytest
import torch

from support.observed_calls import Add, Optional, ones, recorded, shapes
from torchspan.inputs import InputObserver


class Generator(torch.nn.Module):
    """A model with a method that calls the model."""

    def forward(self, x):
        return x * 2

    def generate(self, x, steps=2):
        for _ in range(steps):
            x = torch.cat([x, self(x)])
        return x


def contents(module):
    """Everything in a module's dictionary, with the contents of its dictionaries."""
    return {name: dict(each) if isinstance(each, dict) else each for name, each in vars(module).items()}


def test_the_model_has_the_same_dictionary_afterwards():
    model, observer = Generator(), InputObserver()
    before = contents(model)
    with observer(model):
        model(ones(2))
    assert contents(model) == before
    assert [*contents(model)] == [*before]


def test_the_model_has_the_same_dictionary_after_an_exception_in_the_block():
    model, observer = Generator(), InputObserver()
    before = contents(model)
    with pytest.raises(KeyError), observer(model), InputObserver()(model):
        raise KeyError
    assert contents(model) == before


def test_the_dictionary_has_the_same_names_in_the_block():
    model = Generator()
    before = [*vars(model)]
    with InputObserver()(model):
        assert [*vars(model)] == before


def test_the_signature_of_forward_is_the_same_in_the_block():
    model = Optional()
    before = inspect.signature(model.forward)
    with InputObserver()(model):
        assert inspect.signature(model.forward) == before


def test_calls_that_a_method_of_the_model_makes_are_recorded():
    model, observer = Generator(), InputObserver()
    with observer(model):
        model.generate(ones(2))
    assert recorded(observer) == [(2,), (4,)]


def test_a_direct_call_of_forward_is_not_recorded():
    model, observer = Generator(), InputObserver()
    with observer(model):
        model.forward(ones(2))
    assert observer.is_empty()


def test_arguments_are_recorded_as_earlier_hooks_have_made_them():
    model, observer = Generator(), InputObserver()
    model.register_forward_pre_hook(lambda _module, args: (args[0][:1],))
    with observer(model):
        model(ones(5))
    assert recorded(observer) == [(1,)]


def test_hooks_of_the_program_run_in_the_same_order():
    model, observer = Generator(), InputObserver()
    order = []
    model.register_forward_pre_hook(lambda *_: order.append("before, first"))
    model.register_forward_hook(lambda *_: order.append("after, first"))
    with observer(model):
        model.register_forward_pre_hook(lambda *_: order.append("before, second"))
        model.register_forward_hook(lambda *_: order.append("after, second"))
        model(ones(2))
    assert order == ["before, first", "before, second", "after, first", "after, second"]


@pytest.mark.parametrize("first", [0, 1, 2])
def test_observers_leave_in_any_order(first):
    model = Generator()
    before = contents(model)
    observers = [InputObserver() for _ in range(3)]
    blocks = [each(model) for each in observers]
    for each in blocks:
        each.__enter__()
    model(ones(2))
    blocks[first].__exit__(None, None, None)
    model(ones(2))
    for index, each in enumerate(blocks):
        if index != first:
            each.__exit__(None, None, None)
    model(ones(2))
    assert [each.num_obs() for each in observers] == [1 if index == first else 2 for index in range(3)]
    assert contents(model) == before


# --- copies ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_made_in_the_block_is_not_observed_and_works(duplicate):
    model, observer = Generator(), InputObserver()
    with observer(model):
        other = duplicate(model)
        assert other(ones(2)).tolist() == [2.0, 2.0]
    assert other.generate(ones(1), steps=1).shape == (2,)
    assert observer.is_empty()


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning")
def test_a_scripted_model_is_observed():
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    model, observer = torch.jit.trace(Model(), ones(2)), InputObserver()
    with observer(model):
        model(ones(3))
    assert observer.num_obs() == 1


def test_an_exported_program_is_observed():
    model, observer = torch.export.export(Add(), (ones(2), ones(2))).module(), InputObserver()
    with observer(model):
        model(ones(2), ones(2))
    assert shapes(observer.infer_arguments()) == ((2,), (2,))


# --- what the model does ---------------------------------------------------------------------------------------------
def test_a_tensor_with_functions_of_its_own_is_not_asked():
    asked = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            asked.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    model, observer = Generator(), InputObserver()
    x = ones(2).as_subclass(Watched)
    model(x)
    without = [*asked]
    asked.clear()
    with observer(model):
        model(x)
    assert asked == without
    assert recorded(observer) == [(2,)]


def test_gradients_flow_as_without_an_observer():
    model, x = Generator(), ones(2).requires_grad_()
    with InputObserver()(model):
        model(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["register_forward_pre_hook", "register_forward_hook"])
def test_hooks_are_removed_after_a_block_whose_hooks_could_not_be_added(name, monkeypatch):
    model, observer = Generator(), InputObserver()
    before = contents(model)

    def refuses(*_args, **_keywords):
        raise RuntimeError("no hook")

    with monkeypatch.context() as patches:
        patches.setattr(Generator, name, refuses)
        with pytest.raises(RuntimeError, match="no hook"), observer(model):
            pass
    assert contents(model) == before
    with observer(model):
        model(ones(2))
    assert contents(model) == before
