# SPDX-License-Identifier: Apache-2.0
"""The differences from `torch.onnx.InputObserver` that the page "Observing inputs" lists."""

import pytest
import torch

from support.observed_calls import Add, Optional, kinds, observed, ones, shapes
from torchspan.inputs import InputObserver


def observed_by_torch(model, *calls, **options):
    observer = torch.onnx.InputObserver(**options)
    with observer(model, store_n_calls=len(calls)):
        for call in calls:
            model(*call) if isinstance(call, tuple) else model(**call)
    return observer


def test_by_default_torch_records_three_calls_and_torchspan_all():
    calls = [(ones(size), ones(size)) for size in (2, 3, 4, 5)]
    upstream, model = torch.onnx.InputObserver(), Add()
    with upstream(model):
        for call in calls:
            model(*call)
    assert (observed(Add(), *calls).num_obs(), upstream.num_obs()) == (4, 3)


def test_a_rank_that_changes_is_a_finding_here_and_an_error_there():
    calls = [(ones(2), ones(2)), (ones(2, 2), ones(2))]
    observer = observed(Add(), *calls)
    observer.infer_dynamic_shapes()
    assert ("rank", "x") in kinds(observer)
    with pytest.raises(RuntimeError):
        observed_by_torch(Add(), *calls).infer_dynamic_shapes()


class ReturnsANumber(torch.nn.Module):
    def forward(self, x):
        if x.shape[0] == 3:
            raise ValueError("three")
        return 1


def test_a_call_that_returns_a_number_and_one_that_fails_are_recorded_here():
    observer, model = InputObserver(), ReturnsANumber()
    with observer(model):
        assert model(ones(2)) == 1
        with pytest.raises(ValueError, match="three"):
            model(ones(3))
    assert (observer.num_obs(), kinds(observer)) == (1, [("failed", "")])
    with pytest.raises(AttributeError):
        observed_by_torch(ReturnsANumber(), (ones(2),))


def test_a_missing_argument_has_its_observed_size_here_and_size_0_there():
    calls = [{"x": ones(2)}, {"x": ones(3), "y": ones(3)}, {"x": ones(4), "y": ones(4)}]
    own, upstream = observed(Optional(), *calls), observed_by_torch(Optional(), *calls)
    assert shapes(own.infer_arguments(calls[0])) == {"x": (2,), "y": (2,)}
    assert shapes(upstream.infer_arguments(0)) == {"x": (2,), "y": (0,)}


def test_a_value_for_an_argument_that_does_not_exist_is_an_error_before_the_first_call_here():
    with pytest.raises(ValueError, match="other"), InputObserver({"other": ones(2)})(Add()):
        pass
    upstream, model = torch.onnx.InputObserver({"other": ones(2)}), Add()
    with upstream(model), pytest.raises(ValueError, match="other"):
        model(ones(2), ones(2))
