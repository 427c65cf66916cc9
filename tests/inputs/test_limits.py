# SPDX-License-Identifier: Apache-2.0
"""Sizes against what an engine was built for: what lies outside, and how far the usual shape is from opt."""

import pytest

from torchspan.inputs.watched.engine_limits import Drift, EngineLimits, Outside, SizeRange, UsualSize, drift

X, MASK = ("x",), ("batch", "mask")
BATCH = SizeRange(1, 8, 16)


def static(size):
    return SizeRange(size, size, size)


def limits_of(**ranges):
    return EngineLimits({(name,): tuple(each) for name, each in ranges.items()})


ONE = limits_of(x=(BATCH, static(4)))


def drift_of(limits, *counted):
    return drift(limits, [(shapes, limits.fit(shapes), count) for shapes, count in counted])


# --- outside ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, 3, 8, 16])
def test_a_size_inside_the_range_is_not_outside(size):
    assert ONE.fit({X: (size, 4)}).outside == ()


@pytest.mark.parametrize("size", [0, 17, 1_000_000])
def test_a_size_outside_is_named_with_its_path_axis_and_range(size):
    assert ONE.fit({X: (size, 4)}).outside == (Outside(X, 0, size, 1, 16),)


def test_a_dimension_that_may_not_vary_is_outside_with_any_other_size():
    assert ONE.fit({X: (8, 5)}).outside == (Outside(X, 1, 5, 4, 4),)


def test_every_dimension_outside_is_named_in_the_order_of_the_tensors():
    limits = EngineLimits({X: (BATCH,), MASK: (BATCH, static(2))})
    assert limits.fit({X: (17,), MASK: (0, 3)}).outside == (
        Outside(X, 0, 17, 1, 16),
        Outside(MASK, 0, 0, 1, 16),
        Outside(MASK, 1, 3, 2, 2),
    )


def test_another_number_of_dimensions_is_outside_without_an_axis():
    assert ONE.fit({X: (8,)}).outside == (Outside(X, None, 1, 2, 2),)


def test_a_tensor_of_which_no_range_is_known_is_never_outside():
    assert ONE.fit({("other",): (99,)}).outside == ()


def test_a_range_without_an_upper_limit_holds_every_larger_size():
    limits = limits_of(x=[SizeRange(2, 3, None)])
    assert limits.fit({X: (10**9,)}).outside == ()
    assert limits.fit({X: (1,)}).outside == (Outside(X, 0, 1, 2, None),)


# --- opt and drift ---------------------------------------------------------------------------------------------------
def test_only_a_shape_with_opt_in_every_dimension_that_may_vary_is_at_opt():
    limits = limits_of(x=(BATCH, SizeRange(1, 32, 64), static(4)))
    assert limits.fit({X: (8, 32, 4)}).is_at_opt is True
    assert limits.fit({X: (8, 31, 4)}).is_at_opt is False


def test_a_shape_with_opt_where_it_may_vary_and_another_size_elsewhere_is_not_at_opt():
    assert ONE.fit({X: (8, 5)}).is_at_opt is False


def test_where_no_dimension_may_vary_or_opt_is_not_known_no_shape_is_at_opt():
    assert limits_of(x=[static(4)]).fit({X: (4,)}).is_at_opt is False
    assert limits_of(x=[SizeRange(1, None, 8)]).fit({X: (4,)}).is_at_opt is False


def test_drift_counts_calls_at_opt_and_finds_the_usual_size():
    found = drift_of(ONE, ({X: (3, 4)}, 1_141), ({X: (8, 4)}, 90), ({X: (17, 4)}, 9))
    assert found == Drift(1_240, 90, (UsualSize(X, 0, 3, 1_141, 8),))


def test_the_usual_size_of_a_dimension_counts_over_all_shapes_that_have_it():
    limits = limits_of(x=(BATCH, SizeRange(1, 32, 64)))
    found = drift_of(limits, ({X: (3, 10)}, 2), ({X: (3, 11)}, 2), ({X: (8, 32)}, 3))
    assert found.usual == (UsualSize(X, 0, 3, 4, 8), UsualSize(X, 1, 32, 3, 32))


def test_the_most_usual_size_that_is_not_opt_is_the_one_of_most_calls():
    limits = limits_of(x=(BATCH, SizeRange(1, 32, 64)))
    found = drift_of(limits, ({X: (3, 64)}, 2), ({X: (3, 1)}, 3))
    assert found.most_usual_elsewhere == UsualSize(X, 0, 3, 5, 8)


def test_calls_whose_usual_size_is_opt_have_no_other_usual_size():
    found = drift_of(ONE, ({X: (8, 4)}, 3), ({X: (2, 4)}, 2))
    assert found.most_usual_elsewhere is None


def test_of_sizes_that_are_as_frequent_the_larger_one_is_the_usual_one():
    assert drift_of(ONE, ({X: (2, 4)}, 3), ({X: (4, 4)}, 3)).usual == (UsualSize(X, 0, 4, 3, 8),)


def test_without_a_call_or_without_a_dimension_that_varies_there_is_no_drift():
    assert drift_of(ONE) == Drift(0, 0, ())
    assert drift_of(limits_of(x=[static(4)]), ({X: (4,)}, 7)).usual == ()
