# SPDX-License-Identifier: Apache-2.0
"""Calls of a module counted by shape: exact, in bounded memory, and never in the way of the call."""

import gc
import threading
import weakref

import pytest
import torch

from support.hostile import RAN, hostiles
from support.observed_calls import Add, Optional, ones
from torchspan.inputs import InputObserver
from torchspan.inputs.observed.attachments import CallHook
from torchspan.inputs.observed.leaves import TensorShape
from torchspan.inputs.observed.observations import SHAPES_LIMIT
from torchspan.inputs.observed.signatures import signature_of
from torchspan.inputs.watched.traffic import Traffic

FLOAT, CPU = torch.float32, torch.device("cpu")


class Noting:
    """A follower that notes what it is called with. noted: the numbers of shapes whose calls it wants to see."""

    def __init__(self, noted=()):
        self.new, self.samples, self.calls, self._noted = [], [], [], noted

    def new_shape(self, shape):
        self.new.append(dict(shape.tensors))
        return self._call if shape.number in self._noted else None

    def _call(self, shape):
        self.calls.append((shape.number, shape.count))

    def sampled(self, shape, *, is_new):
        self.samples.append((shape.number, shape.count, is_new))


class Any(torch.nn.Module):
    """Takes whatever it is given."""

    def forward(self, value, *rest, **others):
        return value


def followed(module, *followers, every=1_000_000):
    traffic = Traffic(signature_of(module.forward), every, followers)
    return traffic, CallHook(module, traffic.begin)


def counted(traffic):
    """Shapes and counts, by argument."""
    return [
        ({path[0] if len(path) == 1 else path: leaf.shape for path, leaf in each.tensors.items()}, each.count)
        for each in traffic._by_shape.values()
    ]


# --- shapes ----------------------------------------------------------------------------------------------------------
def test_calls_are_counted_by_shape():
    model = Add()
    traffic, _ = followed(model)
    for size in (2, 3, 3, 2, 3):
        model(ones(size), ones(size))
    assert counted(traffic) == [({"x": (2,), "y": (2,)}, 2), ({"x": (3,), "y": (3,)}, 3)]


def test_positional_and_keyword_arguments_are_one_shape():
    model = Add()
    traffic, _ = followed(model)
    model(ones(2), ones(2))
    model(ones(2), y=ones(2))
    model(y=ones(2), x=ones(2))
    assert counted(traffic) == [({"x": (2,), "y": (2,)}, 3)]


def test_another_data_type_is_another_shape():
    model = Any()
    traffic, _ = followed(model)
    model(ones(2))
    model(ones(2).half())
    assert [each.tensors["value",] for each in traffic._by_shape.values()] == [
        TensorShape((2,), FLOAT, CPU),
        TensorShape((2,), torch.float16, CPU),
    ]


def test_an_absent_argument_makes_another_shape():
    model = Optional()
    traffic, _ = followed(model)
    model(ones(2))
    model(ones(2), ones(2))
    model(ones(2), None)
    assert [count for _, count in counted(traffic)] == [1, 1, 1]


def test_values_of_numbers_and_strings_do_not_matter():
    model = Any()
    traffic, _ = followed(model)
    for value in range(3):
        model(ones(2), value, flag=f"text {value}")
    assert [count for _, count in counted(traffic)] == [3]


def test_tensors_in_containers_are_known_by_their_paths():
    model = Any()
    traffic, _ = followed(model)
    for _ in range(2):
        model([ones(2), (ones(3), 5)], {"k": torch.nn.Parameter(ones(4))}, mask=ones(1))
    assert counted(traffic) == [
        (
            {
                ("value", 0): (2,),
                ("value", 1, 0): (3,),
                ("rest", 0, "k"): (4,),
                "others.mask": (1,),
            },
            2,
        )
    ]


def test_containers_of_other_structure_are_other_shapes():
    model = Any()
    traffic, _ = followed(model)
    for value in ([ones(2)], (ones(2),), [[ones(2)]], {"a": ones(2)}, {"b": ones(2)}, [ones(2), None], [ones(2), 1]):
        model(value)
        model(value)
    assert [count for _, count in counted(traffic)] == [2] * 7


def test_an_object_of_an_unknown_class_is_known_by_its_class():
    class Box:
        def __eq__(self, other):
            raise AssertionError

        __hash__ = None

    model = Any()
    traffic, _ = followed(model)
    model(Box())
    model(Box())
    assert counted(traffic) == [({}, 2)]


# --- followers -------------------------------------------------------------------------------------------------------
def test_a_follower_sees_each_shape_once():
    model, follower = Any(), Noting()
    followed(model, follower)
    for size in (2, 3, 2, 3):
        model(ones(size))
        model(value=ones(size))
    assert follower.new == [{("value",): TensorShape((2,), FLOAT, CPU)}, {("value",): TensorShape((3,), FLOAT, CPU)}]


def test_a_follower_sees_each_call_of_the_shapes_it_asks_for():
    model, follower = Any(), Noting(noted={1})
    followed(model, follower)
    for size in (2, 3, 2, 3):
        model(ones(size))
    assert follower.calls == [(1, 1), (1, 2)]


def test_each_new_shape_and_one_in_n_of_all_calls_is_sampled():
    model, follower = Any(), Noting()
    followed(model, follower, every=4)
    for size in (2, 2, 3, 3, 3, 3, 3, 3):
        model(ones(size))
    assert follower.samples == [(0, 1, True), (1, 1, True), (1, 2, False), (1, 6, False)]


def test_a_follower_that_fails_is_logged_once_and_the_call_continues(caplog):
    class Failing(Noting):
        def new_shape(self, shape):
            raise KeyError

    model, follower = Any(), Noting()
    traffic, _ = followed(model, Failing(), follower)
    for size in (2, 3):
        assert model(ones(size)).tolist() == [1.0] * size
    assert (traffic.calls(), len(follower.new)) == (2, 2)
    (record,) = caplog.records
    assert record.getMessage().startswith("The observation of a module's inputs failed; the program continues.")


# --- bounds ----------------------------------------------------------------------------------------------------------
def test_beyond_1024_shapes_a_count_is_kept():
    model, follower = Any(), Noting()
    traffic, _ = followed(model, follower)
    for size in range(10_000):
        model(torch.empty(size))
    assert (traffic.calls(), traffic.beyond_limit) == (10_000, 8_976)
    assert len(follower.samples) == SHAPES_LIMIT
    assert (len(traffic._by_key), len(traffic._by_shape)) == (1_024, 1_024)


def test_a_follower_sees_every_call_beyond_1024_shapes():
    model, follower = Any(), Noting(noted={None})
    followed(model, follower)
    for size in range(1_030):
        model(torch.empty(size))
    assert len(follower.calls) == 6


def test_no_argument_is_kept_alive():
    model = Any()
    followed(model)
    x, cache = ones(2), [ones(3)]
    gone = [weakref.ref(x), weakref.ref(cache[0])]
    model(x, cache)
    del x, cache
    assert [each() for each in gone] == [None, None]


def test_a_followed_module_can_be_freed():
    model = Any()
    traffic, _ = followed(model)
    model(ones(2))
    gone = weakref.ref(model)
    del model
    assert gone() is None
    assert traffic.calls() == 1


def test_counts_are_exact_with_eight_threads():
    model, follower = Any(), Noting(noted=range(4))
    traffic, _ = followed(model, follower, every=10)
    inputs = [ones(size) for size in range(1, 5)]
    start = threading.Barrier(8)

    def call():
        start.wait()
        for index in range(500):
            model(inputs[index % 4])

    threads = [threading.Thread(target=call) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [count for _, count in sorted(counted(traffic), key=lambda each: each[0]["value"])] == [1_000] * 4
    assert traffic.calls() == 4_000
    assert (len(follower.new), len(follower.calls)) == (4, 4_000)
    assert sum(not is_new for _, _, is_new in follower.samples) >= 396


# --- calls that are not counted --------------------------------------------------------------------------------------
def test_a_call_that_does_not_fit_the_signature_is_not_counted():
    model = Add()
    traffic, _ = followed(model)
    with pytest.raises(TypeError):
        model(ones(2), z=ones(2))
    assert traffic.calls() == 0


def test_tensors_without_data_are_not_counted():
    model = Any()
    traffic, _ = followed(model)
    with torch._subclasses.FakeTensorMode():
        model(torch.empty(2))
    assert traffic.calls() == 0


def test_a_list_that_contains_itself_is_not_counted():
    model = Any()
    traffic, _ = followed(model)
    endless = []
    endless += [endless, endless]
    model(endless)
    assert traffic.calls() == 0
    endless.clear()
    gc.collect()


def test_no_code_of_an_argument_runs():
    model, observer = Any(), InputObserver()
    traffic, _ = followed(model)
    RAN.clear()
    with observer(model):
        for each in hostiles():
            for _ in range(2):
                model([each], {"a": each}, named=each)
    assert RAN == []
    assert (traffic.calls(), observer.num_obs()) == (20, 20)


def test_a_mode_of_the_program_sees_no_question_about_a_shape():
    asked = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            asked.append(function)
            return function(*args, **(kwargs or {}))

    model = Any()
    traffic, _ = followed(model)
    x = ones(2)
    with Mode():
        model(x, [x])
        model(x, [x])
    assert asked == []
    assert [count for _, count in counted(traffic)] == [2]


# --- the module ------------------------------------------------------------------------------------------------------
def test_the_module_is_as_it_was_after_the_hook_is_removed():
    def contents():
        return {name: dict(each) if isinstance(each, dict) else each for name, each in vars(model).items()}

    model = Any()
    before = contents()
    _, hook = followed(model)
    assert [*contents()] == [*before]
    model(ones(2))
    hook.detach()
    assert contents() == before


def test_a_copy_of_a_followed_module_is_not_followed():
    import copy
    import pickle

    model = Add()
    traffic, _ = followed(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other(ones(2), ones(2)).tolist() == [2.0, 2.0]
    assert traffic.calls() == 0
