# SPDX-License-Identifier: Apache-2.0
"""`mark_dynamic`: what torch.compile builds for is what was observed, whatever the first call has."""

import pytest
import torch

from support.observed_calls import Add, Anything, Nested, Optional, observed, ones
from torchspan.inputs import InputObserver


class Backend:
    """A backend of torch.compile that notes min, hint and max of each dimension of each input."""

    def __init__(self):
        self.compiled = []

    def __call__(self, graph, _inputs):
        values = [node.meta["example_value"] for node in graph.graph.nodes if node.op == "placeholder"]
        self.compiled.append([self.sizes(each) for each in values if isinstance(each, torch.Tensor)])
        return graph.forward

    def sizes(self, tensor):
        return [self.size(each) for each in tensor.shape]

    def size(self, size):
        if isinstance(size, int):
            return size
        environment, symbol = size.node.shape_env, size.node.expr
        known = environment.var_to_range[symbol]
        return int(known.lower), environment.var_to_hint_override.get(symbol), int(known.upper)


@pytest.fixture
def backend():
    torch._dynamo.reset()
    yield Backend()
    torch._dynamo.reset()


def test_the_compiled_region_has_the_observed_bounds_and_opt(backend):
    model = Anything()
    observer = observed(model, *((ones(rows, 4),) for rows in (3, 7, 7, 30)))
    x = ones(5, 4)
    assert observer.mark_dynamic((x,)) == 1
    compiled = torch.compile(lambda x: x * 2, backend=backend)
    compiled(x)
    compiled(ones(29, 4))
    assert backend.compiled == [[[(3, 7, 30), 4]]]


def test_dimensions_that_were_always_equal_have_one_range(backend):
    model = Add()
    observer = observed(model, *((ones(rows), ones(rows)) for rows in (2, 4, 4, 8)), (ones(9), ones(9)))
    x, y = ones(3), ones(3)
    assert observer.mark_dynamic((x,), {"y": y}) == 2
    compiled = torch.compile(model, backend=backend)
    compiled(x, y)
    compiled(ones(9), ones(9))
    assert backend.compiled == [[[(2, 4, 9)], [(2, 4, 9)]]]


def test_a_profile_of_the_users_choice_is_marked(backend):
    observer = observed(Anything(), (ones(3, 4),), (ones(5, 4),))
    x = ones(4, 4)
    observer.mark_dynamic((x,), profile=observer.infer_profile(headroom=1.0))
    torch.compile(lambda x: x * 2, backend=backend)(x)
    assert backend.compiled == [[[(3, 3, 10), 4]]]


def test_tensors_in_containers_are_marked():
    observer = observed(Nested(), ({"a": [ones(2)]},), ({"a": [ones(3)]},))
    x = ones(3)
    assert observer.mark_dynamic(({"a": [x]},)) == 1
    assert x._dynamo_dynamic_indices == {0}


def test_what_never_varied_and_what_was_never_seen_is_not_marked():
    observer = observed(Optional(), (ones(2, 4),), (ones(2, 4),))
    x, y = ones(2, 4), ones(2, 4)
    assert observer.mark_dynamic((x, y)) == 0
    assert not hasattr(x, "_dynamo_dynamic_indices")
    assert not hasattr(y, "_dynamo_dynamic_indices")


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((1, 4), "mark_dynamic: dimension 0 of y has the size 1, which torch.compile treats as a constant."),
        ((9, 4), "mark_dynamic: dimension 0 of y has the size 9, but the profile has 1 to 5."),
        ((3,), "mark_dynamic: y has 1 dimensions, but 2 in the profile."),
    ],
)
def test_a_call_that_torch_compile_would_fail_for_is_refused_and_nothing_is_marked(sizes, text):
    observer = observed(Add(), *((ones(rows, 4), ones(rows, 4)) for rows in (1, 3, 5)))
    x = ones(3, 4)
    with pytest.raises(ValueError, match=text):
        observer.mark_dynamic((x, ones(*sizes)))
    assert not hasattr(x, "_dynamo_dynamic_indices")


def test_arguments_that_do_not_fit_the_signature_are_refused():
    observer = observed(Add(), (ones(2), ones(2)))
    with pytest.raises(ValueError, match=r"The arguments given to mark_dynamic do not fit the signature \(x, y\)"):
        observer.mark_dynamic((), {"z": ones(2)})


def test_a_tensor_in_place_of_the_arguments_is_refused():
    with pytest.raises(TypeError, match="args must be a tuple of the positional arguments, not an object of Tensor"):
        observed(Add(), (ones(2), ones(2))).mark_dynamic(ones(2))


def test_without_calls_nothing_can_be_marked():
    with pytest.raises(RuntimeError, match="No call was observed"):
        InputObserver().mark_dynamic((ones(2),))
