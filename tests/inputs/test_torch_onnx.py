# SPDX-License-Identifier: Apache-2.0
"""What a `torch.onnx.InputObserver` has kept, read by torchspan."""

import inspect
from pathlib import Path

import pytest
import torch

from support.observed_calls import Add, Nested, Optional, Variadic, kinds, observed, ones, shapes
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


# --- the table of differences on the page "Observing inputs" ------------------------------------------------------------
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "observing-inputs.md").read_text(encoding="utf-8")
DIFFERENCES = {
    first: (own, upstream)
    for line in PAGE.partition("## Differences from torch.onnx.InputObserver")[2].splitlines()
    if line.startswith("| ")
    for first, own, upstream in [[cell.strip() for cell in line.strip("|").split(" |")]]
}


def public(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


def parameters(method):
    return set(inspect.signature(method).parameters)


def test_the_table_of_differences_names_what_only_one_info_has():
    calls = [(ones(2), ones(2))]
    own, upstream = observed(Add(), *calls).info, observed_by_torch(Add(), *calls).info
    for cell, names in zip(
        DIFFERENCES["the attributes of `info`"],
        (public(own) - public(upstream), public(upstream) - public(own)),
        strict=True,
    ):
        assert {name for name in names if f"`{name}`" not in cell} == set()


def test_the_table_of_differences_names_the_parameters_that_only_torch_has():
    upstream = parameters(torch.onnx.InputObserver.check_discrepancies)
    own = parameters(InputObserver.check_discrepancies)
    assert {
        each for each in upstream - own if f"`{each}`" not in DIFFERENCES["the arguments of `check_discrepancies`"][0]
    } == set()


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
    assert (observer.num_obs(), observer.info.num_failed) == (1, 1)
    with pytest.raises(AttributeError):
        observed_by_torch(ReturnsANumber(), (ones(2),))


def test_a_missing_argument_has_its_observed_size_here_and_size_0_there():
    calls = [{"x": ones(2)}, {"x": ones(3), "y": ones(3)}, {"x": ones(4), "y": ones(4)}]
    own, upstream = observed(Optional(), *calls), observed_by_torch(Optional(), *calls)
    assert shapes(own.infer_arguments(0)) == {"x": (2,), "y": (2,)}
    assert shapes(upstream.infer_arguments(0)) == {"x": (2,), "y": (0,)}


def test_a_value_for_an_argument_that_does_not_exist_is_an_error_before_the_first_call_here():
    with pytest.raises(ValueError, match="other"), InputObserver({"other": ones(2)})(Add()):
        pass
    upstream, model = torch.onnx.InputObserver({"other": ones(2)}), Add()
    with upstream(model), pytest.raises(ValueError, match="other"):
        model(ones(2), ones(2))
