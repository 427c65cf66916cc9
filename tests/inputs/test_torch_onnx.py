# SPDX-License-Identifier: Apache-2.0
"""What a `torch.onnx.InputObserver` has kept, read by torchspan."""

import pytest
import torch

from support.observed_calls import Add, Nested, Optional, Variadic, observed, ones, shapes
from torchspan.inputs import InputObserver

SIZES = [(1, 5), (4, 7), (4, 7), (4, 7), (4, 9), (2, 30)]
POSITIONAL = [(ones(*size), ones(*size)) for size in SIZES]
KEYWORD = [{"x": x, "y": y} for x, y in POSITIONAL]


def observed_by_torch(model, *calls, **options):
    observer = torch.onnx.InputObserver(**options)
    with observer(model, store_n_calls=len(calls)):
        for call in calls:
            model(*call) if isinstance(call, tuple) else model(**call)
    return observer


def ranges(observer):
    return [(each.min_shape, each.opt_shape, each.max_shape, each.shared_dims) for each in observer.infer_profile()]


@pytest.mark.parametrize(
    "calls", [POSITIONAL, KEYWORD, POSITIONAL[:2] + KEYWORD[2:]], ids=["positional", "keyword", "mixed"]
)
def test_case_9_the_same_is_inferred_as_of_the_same_calls_that_torchspan_observed(calls):
    read = InputObserver.from_torch_onnx(observed_by_torch(Add(), *calls))
    own = observed(Add(), *calls)
    assert read.num_obs() == own.num_obs() == 6
    assert shapes(read.infer_arguments()) == shapes(own.infer_arguments())
    assert read.infer_dynamic_shapes() == own.infer_dynamic_shapes()
    assert ranges(read) == ranges(own) == [((1, 5), (4, 7), (4, 30), {0: "d0", 1: "d1"})] * 2
    assert read.report().partition("\n")[2] == own.report().partition("\n")[2]


def test_an_argument_that_some_calls_lack_is_optional():
    calls = [(ones(2),), {"x": ones(3), "y": ones(3)}]
    read, own = InputObserver.from_torch_onnx(observed_by_torch(Optional(), *calls)), observed(Optional(), *calls)
    assert shapes(read.infer_arguments()) == shapes(own.infer_arguments()) == {"x": (3,), "y": (3,)}


def test_containers_and_variable_arguments_are_read():
    read = InputObserver.from_torch_onnx(observed_by_torch(Nested(), ([ones(2), (ones(3), ones(4))],)))
    assert shapes(read.infer_arguments()) == ([(2,), ((3,), (4,))],)
    calls = [(ones(2), ones(2)), {"x": ones(3), "named": ones(3)}]
    read = InputObserver.from_torch_onnx(observed_by_torch(Variadic(), *calls))
    assert shapes(read.infer_arguments(as_args_kwargs=True)) == shapes(observed(Variadic(), *calls).infer_arguments(as_args_kwargs=True))  # fmt: skip


def test_a_constant_that_it_kept_is_read():
    calls = [{"x": ones(2), "y": ones(2), "scale": 2.0}]
    assert InputObserver.from_torch_onnx(observed_by_torch(Optional(), *calls)).infer_arguments()["scale"] == 2.0


def test_the_observer_that_is_read_is_not_changed():
    observer = observed_by_torch(Add(), *POSITIONAL[:2])
    before = vars(observer.info).copy()
    InputObserver.from_torch_onnx(observer)
    assert vars(observer.info) == before


def test_an_observer_without_calls_is_refused():
    with pytest.raises(RuntimeError, match=r"has no calls. Call the model inside its `with` block"):
        InputObserver.from_torch_onnx(torch.onnx.InputObserver())


def test_something_else_is_refused():
    with pytest.raises(TypeError, match=r"from_torch_onnx takes a torch.onnx.InputObserver, not an object of Add"):
        InputObserver.from_torch_onnx(Add())
