# SPDX-License-Identifier: Apache-2.0
"""`check_discrepancies`: outputs of a compiled model compared with those of the calls that were kept."""

import pytest
import torch

from support.observed_calls import Add, Anything, Optional, ones
from torchspan.inputs import InputObserver


def kept(model, *calls, number=10):
    observer = InputObserver(keep_tensors=number)
    with observer(model):
        for args, kwargs in calls:
            model(*args, **kwargs)
    return observer


def rows(observer, compiled, **options):
    """The rows without the durations, which are checked to be there."""
    found = observer.check_discrepancies(compiled, **options)
    assert all(each.pop("duration") >= 0 for each in found)
    return found


SAME = {"SUCCESS": True, "abs": 0.0, "rel": 0.0}


def test_the_same_outputs_have_no_difference():
    observer = kept(Add(), ((ones(2), ones(2)), {}), ((ones(3),), {"y": ones(3)}))
    assert rows(observer, Add()) == [{"index": 0, **SAME}, {"index": 1, **SAME}]


def test_an_exported_program_is_checked():
    model = Add()
    observer = kept(model, *(((ones(size), ones(size)), {}) for size in (2, 3)))
    program = torch.export.export(model, observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes())
    assert rows(observer, program) == [{"index": 0, **SAME}, {"index": 1, **SAME}]


def test_a_program_exported_with_keywords_is_checked():
    model = Optional()
    observer = kept(model, ((ones(2),), {"y": ones(2), "scale": 3.0}))
    program = torch.export.export(model, (), observer.infer_arguments())
    assert rows(observer, program) == [{"index": 0, **SAME}]


def test_a_call_without_an_argument_of_the_program_is_an_error():
    model = Optional()
    observer = kept(model, ((ones(2), ones(2)), {}), ((ones(2),), {}))
    program = torch.export.export(model, observer.infer_arguments())
    assert rows(observer, program) == [
        {"index": 0, **SAME},
        {"index": 1, "SUCCESS": False, "error": "The call lacks y, which the program takes."},
    ]


def test_only_as_many_calls_as_were_asked_for_are_checked():
    observer = kept(Add(), *(((ones(2), ones(2)), {}) for _ in range(5)), number=2)
    assert len(rows(observer, Add())) == 2


def test_a_failing_call_leaves_inputs_and_outputs_paired():
    observer, model = InputObserver(keep_tensors=3), Add()
    with observer(model):
        model(ones(1), ones(1))
        with pytest.raises(RuntimeError):
            model(ones(2), ones(3))
        model(ones(4), ones(4))
    assert rows(observer, Add()) == [{"index": 0, **SAME}, {"index": 1, **SAME}]


def test_a_difference_is_measured_and_held_against_the_tolerance():
    class Off(torch.nn.Module):
        def forward(self, x, y):
            return x + y + 0.5

    observer = kept(Add(), ((ones(2), ones(2)), {}))
    assert rows(observer, Off(), rtol=0.5) == [{"index": 0, "SUCCESS": False, "abs": 0.5, "rel": 0.2}]
    assert rows(observer, Off(), atol=0.5, rtol=0.5) == [{"index": 0, "SUCCESS": True, "abs": 0.5, "rel": 0.2}]


def returning(value):
    class Model(torch.nn.Module):
        def forward(self, x):
            return value

    return Model()


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("expected", "found", "success"),
    [
        ([NAN, 1.0], [NAN, 1.0], True),
        ([NAN, 1.0], [1.0, 1.0], False),
        ([1.0, 1.0], [NAN, 1.0], False),
        ([INF, 1.0], [INF, 1.0], True),
        ([INF, 1.0], [-INF, 1.0], False),
        ([1.0, 1.0], [INF, 1.0], False),
    ],
)
def test_numbers_that_are_not_finite_are_compared(expected, found, success):
    observer = kept(returning(torch.tensor(expected)), ((ones(1),), {}))
    (row,) = observer.check_discrepancies(returning(torch.tensor(found)))
    assert row["SUCCESS"] is success


@pytest.mark.parametrize(
    ("expected", "found", "error"),
    [
        (ones(2), ones(3), "output is float32[3]; the observed one is float32[2]"),
        (ones(2), ones(2, dtype=torch.float16), "output is float16[2]; the observed one is float32[2]"),
        ((ones(2), ones(2)), ones(2), "there are 1 outputs; the observed model returned 2"),
        ([1, ones(2)], [2, ones(2)], "output[0] is 2; the observed one is 1"),
        ({"a": 1}, {"a": ones(2)}, "output['a'] is float32[2]; the observed one is 1"),
    ],
)
def test_outputs_that_cannot_be_compared_are_an_error(expected, found, error):
    observer = kept(returning(expected), ((ones(1),), {}))
    assert rows(observer, returning(found)) == [{"index": 0, "SUCCESS": False, "error": error}]


def test_an_output_that_is_none_on_one_side_is_left_out_unless_asked():
    observer = kept(returning((ones(2), None)), ((ones(1),), {}))
    compiled = returning((ones(2), ones(2)))
    assert rows(observer, compiled) == [{"index": 0, **SAME}]
    assert rows(observer, compiled, skip_none=False) == [
        {"index": 0, "SUCCESS": False, "error": "output[1] is None on one side only"}
    ]


def test_a_compiled_model_that_raises_is_an_error():
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    observer = kept(Anything(), ((ones(1),), {}))
    assert rows(observer, Broken()) == [{"index": 0, "SUCCESS": False, "error": "ValueError: no"}]


def test_inputs_are_those_before_the_call():
    class InPlace(torch.nn.Module):
        def forward(self, x):
            return x.add_(1)

    observer = kept(InPlace(), ((ones(2),), {}))
    assert rows(observer, InPlace()) == [{"index": 0, **SAME}]
    assert rows(observer, InPlace()) == [{"index": 0, **SAME}]


def test_without_kept_calls_the_error_says_how_to_keep_them():
    observer, model = InputObserver(), Add()
    with observer(model):
        model(ones(2), ones(2))
    with pytest.raises(RuntimeError, match=r"Create the observer with InputObserver\(keep_tensors=N\)"):
        observer.check_discrepancies(Add())
