# SPDX-License-Identifier: Apache-2.0
"""Which calls an observer records, and what it keeps of them."""

import gc
import threading
import tracemalloc
import weakref

import pytest
import torch

from support.observed_calls import Add, Anything, Optional, kinds, ones, recorded, shapes
from torchspan.inputs import InputObserver, TensorShape


def test_an_observer_that_was_never_used_is_empty():
    observer = InputObserver()
    assert (observer.num_obs(), observer.is_empty()) == (0, True)


def test_the_block_gives_the_observer():
    observer = InputObserver()
    with observer(Add()) as given:
        assert given is observer


def test_each_call_that_returned_counts():
    observer, model = InputObserver(), Add()
    with observer(model):
        for rows in (2, 3, 3):
            model(ones(rows, 4), ones(rows, 4))
    assert (observer.num_obs(), observer.is_empty()) == (3, False)


def test_a_call_outside_the_block_does_not_count():
    observer, model = InputObserver(), Add()
    model(ones(1), ones(1))
    with observer(model):
        model(ones(2), ones(2))
    model(ones(3), ones(3))
    assert recorded(observer) == [(2,)]


def test_blocks_with_one_model_add_up():
    observer, model = InputObserver(), Add()
    for rows in (2, 3):
        with observer(model):
            model(ones(rows), ones(rows))
    assert observer.num_obs() == 2


def test_a_call_in_a_block_within_a_block_counts_once():
    observer, model = InputObserver(), Add()
    with observer(model):
        with observer(model):
            model(ones(2), ones(2))
        model(ones(3), ones(3))
    assert observer.num_obs() == 2


def test_another_model_is_refused():
    observer, model = InputObserver(), Add()
    observer(model)
    with pytest.raises(
        ValueError, match=r"The observer has calls of Add\.forward\. Create another InputObserver for Optional:"
    ):
        observer(Optional())


def test_a_record_has_shape_type_and_device_of_each_tensor():
    observer, model = InputObserver(), Add()
    with observer(model):
        model(ones(2, 3), y=ones(3, dtype=torch.float16))
    (shape,) = observer._observed.snapshot().shapes
    assert shape.first.arguments == {
        "x": TensorShape((2, 3), torch.float32, torch.device("cpu")),
        "y": TensorShape((3,), torch.float16, torch.device("cpu")),
    }


@pytest.mark.parametrize("output", [3, "text", None, (1, None), {"a": torch.ones(2)}, object()])
def test_a_call_may_return_anything(output):
    class Model(torch.nn.Module):
        def forward(self, x):
            return output

    observer, model = InputObserver(), Model()
    with observer(model):
        assert model(ones(2)) is output
    assert observer.num_obs() == 1


# --- failures --------------------------------------------------------------------------------------------------------
def test_a_failing_call_is_counted_apart():
    observer, model = InputObserver(), Add()
    with observer(model):
        model(ones(2), ones(2))
        with pytest.raises(RuntimeError):
            model(ones(2), ones(3))
        model(ones(4), ones(4))
    assert observer.num_obs() == 2
    assert recorded(observer, "y") == [(2,), (4,)]
    assert kinds(observer) == [("failed", "")]


def test_a_call_inside_an_exception_handler_has_not_failed():
    observer, model = InputObserver(), Add()
    with observer(model):
        try:
            raise ValueError
        except ValueError:
            model(ones(2), ones(2))
    assert (observer.num_obs(), kinds(observer)) == (1, [])


def test_a_call_that_does_not_fit_the_signature_raises_what_it_raised():
    observer, model = InputObserver(), Add()
    with observer(model), pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        model(ones(2))
    assert observer.num_obs() == 0


def test_a_call_with_an_argument_that_is_not_in_the_signature_is_a_finding():
    observer, model = InputObserver(), Add()
    with observer(model), pytest.raises(TypeError):
        model(ones(2), ones(2), z=ones(2))
    assert kinds(observer) == [("unfit", "")]


def test_an_interrupted_call_is_not_recorded_and_later_ones_are():
    class Model(torch.nn.Module):
        def forward(self, x):
            if x.numel() == 1:
                raise KeyboardInterrupt
            return x

    observer, model = InputObserver(), Model()
    with observer(model):
        with pytest.raises(KeyboardInterrupt):
            model(ones(1))
        model(ones(2))
    assert (recorded(observer), kinds(observer)) == ([(2,)], [])


def test_a_defect_of_the_observer_does_not_reach_the_call(monkeypatch, caplog):
    from torchspan.inputs.observed import recorder

    monkeypatch.setattr(recorder, "Reader", None)
    observer, model = InputObserver(), Add()
    with observer(model):
        for _ in range(2):
            assert model(ones(2), ones(2)).tolist() == [2.0, 2.0]
    assert kinds(observer) == [("errors", "")]
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "The observation of a call's inputs failed; the program continues, and this call is not observed. "
        "Cause: TypeError in torchspan.inputs.observed.recorder, line "
    )


def test_a_defect_at_the_end_of_a_call_does_not_reach_it(monkeypatch):
    from torchspan.inputs.observed.observations import ObservedCalls

    def broken(_self, _call):
        raise ValueError

    monkeypatch.setattr(ObservedCalls, "ended", broken)
    observer, model = InputObserver(), Add()
    with observer(model):
        assert model(ones(2), ones(2)).tolist() == [2.0, 2.0]
    assert kinds(observer) == [("errors", "")]


def test_a_call_that_began_before_the_block_is_not_recorded():
    observer = InputObserver()

    class Model(torch.nn.Module):
        def forward(self, x):
            observer(self).__enter__()
            return x

    model = Model()
    model.register_forward_hook(lambda *_: None)
    block = observer(model)
    model(ones(2))
    block.__exit__(None, None, None)
    assert observer.is_empty()


# --- recursion and threads -------------------------------------------------------------------------------------------
def test_calls_inside_each_other_are_recorded():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x if len(x) == 1 else torch.cat([self(x[1:]), x])

    observer, model = InputObserver(), Model()
    with observer(model):
        model(ones(3))
    assert recorded(observer) == [(1,), (2,), (3,)]


def test_calls_of_eight_threads_are_counted_exactly():
    observer, model = InputObserver(), Anything()
    start = threading.Barrier(8)

    def work(rows):
        start.wait()
        for _ in range(100):
            model(ones(rows))

    with observer(model):
        threads = [threading.Thread(target=work, args=(rows,)) for rows in range(1, 9)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert observer.num_obs() == 800
    assert sorted(recorded(observer)) == [(rows,) for rows in range(1, 9)]
    assert [shape.count for shape in observer._observed.snapshot().shapes] == [100] * 8


# --- what is kept ----------------------------------------------------------------------------------------------------
def test_no_tensor_is_kept():
    observer, model = InputObserver(), Anything()
    x, inner = ones(2), ones(3)
    with observer(model):
        result = model(x.view(2), [inner, {"a": inner}])
        failing = ones(5)
        held = [weakref.ref(each) for each in (x, inner, result, failing)]
        del x, inner, result, failing
        gc.collect()
        assert [each() for each in held] == [None, None, None, None]


def test_memory_is_bounded_however_many_shapes_there_are():
    observer, model = InputObserver(), Anything()
    sizes = torch.ones(20_000)
    with observer(model):
        for rows in range(1, 2_001):
            model(sizes[:rows])
        tracemalloc.start()
        try:
            for rows in range(2_001, 4_001):
                model(sizes[:rows])
            gc.collect()
            grown, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert grown < 50_000
    assert observer.num_obs() == 4_000
    assert kinds(observer) == [("beyond_limit", ""), ("size_0_or_1", "x")]


def test_sizes_of_calls_that_are_not_kept_count():
    observer, model = InputObserver(), Anything()
    with observer(model):
        for rows in range(2, 1_026):
            model(ones(rows, 3))
        model(ones(2, 5))
    assert observer.infer_dynamic_shapes() == ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)


def test_numbers_and_texts_are_recorded_with_their_values():
    observer, model = InputObserver(), Anything()
    with observer(model):
        model(ones(2), [1, "a", True])
    assert shapes(observer.infer_arguments()) == ((2,), [1, "a", True])


# --- wrong use -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: InputObserver({1.5: 1}), TypeError, "value_if_missing has names"),
        (
            lambda: InputObserver()(len),
            TypeError,
            "observes a torch.nn.Module, not an object of builtin_function_or_method",
        ),
        (
            lambda: InputObserver({"z": 1})(Add()),
            ValueError,
            r"value_if_missing: there is no argument 'z'; .* \(x, y\)",
        ),
        (
            lambda: InputObserver({2: 1})(Add()),
            ValueError,
            r"value_if_missing: no argument has position 2; .* \(x, y\)",
        ),
    ],
)
def test_wrong_arguments_are_refused_where_they_are_given(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("ask", ["infer_arguments", "infer_dynamic_shapes"])
def test_without_a_call_nothing_is_inferred(ask):
    observer = InputObserver()
    observer(Add())
    with pytest.raises(RuntimeError, match="No call was"):
        getattr(observer, ask)()
