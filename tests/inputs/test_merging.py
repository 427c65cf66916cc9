# SPDX-License-Identifier: Apache-2.0
"""Calls of several processes as if one had observed them."""

import itertools
import json

import pytest

from support.observed_calls import Add, Anything, Optional, Variadic, kinds, observed, ones, shapes
from torchspan.inputs import InputObserver, TensorShape
from torchspan.inputs.observed.observations import SHAPES_LIMIT

CALLS = [
    (ones(1, 5), ones(1, 5)),
    {"x": ones(4, 7), "y": ones(4, 7)},
    (ones(4, 7), ones(4, 7)),
    (ones(4, 7),),
    {"x": ones(2, 30), "scale": 2.0},
    {"x": ones(2, 30), "scale": 3.0},
    (ones(9, 9), ones(9, 9), 1.0),
]


def body(observer, values=True):
    """What is in the file. Which call stands for the others of its shape depends on what the process saw first."""
    found = json.loads(observer.to_json(values=values))["observations"][0]
    for each in found["shapes"]:
        each["first"] = 0
        for leaf in each["arguments"].values():
            leaf.pop("value", None)
    return {**found, "shapes": sorted(json.dumps(each, sort_keys=True) for each in found["shapes"])}


@pytest.mark.parametrize("cut", range(1, len(CALLS)))
def test_two_parts_are_what_one_observer_would_have_seen(cut):
    whole = observed(Optional(), *CALLS)
    merged = observed(Optional(), *CALLS[:cut]).merge(observed(Optional(), *CALLS[cut:]))
    assert body(merged) == body(whole)
    assert merged.num_obs() == 7
    assert shapes(merged.infer_arguments()) == shapes(whole.infer_arguments())
    assert merged.infer_dynamic_shapes() == whole.infer_dynamic_shapes()


def test_the_order_of_the_parts_does_not_matter():
    parts = [observed(Optional(), *CALLS[begin : begin + 3]) for begin in (0, 2, 4)]
    texts = {one.merge(*others).to_json(values=True) for one, *others in itertools.permutations(parts)}
    assert len(texts) == 1


def test_merging_merged_parts_is_merging_all():
    one, two, three = (observed(Optional(), *CALLS[begin : begin + 3]) for begin in (0, 2, 4))
    for values in (False, True):
        files = [InputObserver.from_json(each.to_json(values=values)) for each in (one, two, three)]
        merged = files[0].merge(files[1]).merge(files[2])
        assert merged.to_json(values=values) == files[2].merge(files[1].merge(files[0])).to_json(values=values)


def test_parts_from_files_are_merged_as_the_calls_are():
    one, two = observed(Optional(), *CALLS[:3]), observed(Optional(), *CALLS[3:])
    files = [InputObserver.from_json(each.to_json(values=True)) for each in (one, two)]
    assert files[0].merge(files[1]).to_json(values=True) == one.merge(files[1]).to_json(values=True) == one.merge(two).to_json(values=True)  # fmt: skip


def test_counts_of_a_thousand_parts_are_exact():
    part = InputObserver.from_json(observed(Optional(), *CALLS).to_json())
    merged = part.merge(*[part] * 999)
    assert merged.num_obs() == 7_000
    assert [each["calls"] for each in json.loads(merged.to_json())["observations"][0]["shapes"]] == [
        1000, 2000, 1000, 2000, 1000,
    ]  # fmt: skip


def test_more_shapes_than_one_observer_keeps_are_kept_of_several():
    first, second = range(1, SHAPES_LIMIT + 2), [*range(2_000, 2_000 + SHAPES_LIMIT), 6_000]
    parts = [observed(Add(), *[(ones(size), ones(size)) for size in sizes]) for sizes in (first, second)]
    merged = parts[0].merge(parts[1])
    found = json.loads(merged.to_json())["observations"][0]
    sizes = sorted(shape["arguments"]["x"]["shape"][0] for shape in found["shapes"])
    assert sizes == [*range(1, SHAPES_LIMIT + 1), *range(2_000, 2_000 + SHAPES_LIMIT)]
    assert found["ranges"][0] == {"path": ["x"], "dtypes": {"torch.float32": 2}, "ranks": [[1, 2, [1_025], [6_000]]]}
    assert found["counts"]["beyond_limit"] == 2
    assert "Dimension 0 has sizes from 1 to 6000" in str(merged.findings())


def test_calls_that_raised_are_added_up():
    observer = InputObserver()
    model = Add()
    with observer(model):
        model(ones(2), ones(2))
        with pytest.raises(RuntimeError):
            model(ones(2), ones(3))
    assert str(observer.merge(observer).findings()[0]) == "2 calls raised. Their shapes are not used."


def test_where_one_part_has_no_values_the_whole_has_none():
    one = observed(Anything(), {"x": ones(2), "other": {"key": 5}})
    two = InputObserver.from_json(one.to_json(values=False))
    for merged in (one.merge(two), two.merge(one)):
        assert json.loads(merged.to_json(values=True))["observations"][0]["values"] is False
        assert "key" not in merged.to_json(values=True).partition("shapes")[2].replace('"keys"', "").replace(
            "keyword", ""
        )
        assert merged.num_obs() == 2


def tensors(observer):
    """The places of tensors in what is inferred."""
    return [path for path, leaf in observer._alignment()[2].template_leaves() if isinstance(leaf, TensorShape)]


def test_equal_keys_of_two_processes_are_one_key_without_values():
    one, two, three = (
        InputObserver.from_json(observed(Anything(), {"x": ones(2), "other": {key: ones(size)}}).to_json(values=False))
        for key, size in (("key", 2), ("key", 3), ("another", 3))
    )
    assert len(tensors(one.merge(two))) == 2
    assert len(tensors(one.merge(three))) == 2  # dictionaries with other keys: one structure, a finding
    assert kinds(one.merge(two)) == []
    assert kinds(one.merge(three)) == [("structure", "other")]


def test_keyword_arguments_that_kwargs_takes_stay_apart_without_values():
    one, two = (
        InputObserver.from_json(observed(Variadic(), {"x": ones(2), key: ones(2)}).to_json(values=False))
        for key in ("one", "two")
    )
    assert len(one.merge(two)._alignment()[2].names) == 3
    with pytest.raises(RuntimeError, match=r"a keyword argument that `\*\*named` takes, and its name was not written"):
        one.infer_arguments()


def test_calls_of_two_methods_are_not_merged():
    with pytest.raises(ValueError, match=r"Calls of .*Add.forward and of .*Optional.forward cannot be merged"):
        observed(Add(), CALLS[0]).merge(observed(Optional(), CALLS[0]))


def test_calls_of_another_version_of_the_method_are_not_merged():
    text = observed(Optional(), CALLS[0]).to_json()
    other = json.loads(text)
    other["observations"][0]["parameters"][1]["name"] = "mask"
    for shape in other["observations"][0]["shapes"]:
        del shape["arguments"]["y"]
    with pytest.raises(
        ValueError, match="the method has different parameters, or different default values, in some of them"
    ):
        InputObserver.from_json(text).merge(InputObserver.from_json(json.dumps(other)))


def test_an_observer_without_calls_is_not_merged():
    with pytest.raises(RuntimeError, match="No call was observed"):
        observed(Add(), CALLS[0]).merge(InputObserver())
