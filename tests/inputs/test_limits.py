# SPDX-License-Identifier: Apache-2.0
"""Sizes against what an engine was built for: what lies outside, and how far the usual shape is from opt."""

import pytest

from torchspan.inputs.watched.engine_limits import Drift, EngineLimits, Outside, Profile, SizeRange, UsualSize, drift

X, MASK = ("x",), ("batch", "mask")
BATCH = SizeRange(1, 8, 16)


def static(size):
    return SizeRange(size, size, size)


def profile(**ranges):
    return Profile({(name,): tuple(each) for name, each in ranges.items()})


ONE = EngineLimits((profile(x=(BATCH, static(4))),))
TWO = EngineLimits(
    (profile(x=(SizeRange(1, 1, 1), SizeRange(1, 32, 64))), profile(x=(SizeRange(2, 8, 16), static(128))))
)


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
    limits = EngineLimits((Profile({X: (BATCH,), MASK: (BATCH, static(2))}),))
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
    limits = EngineLimits((profile(x=[SizeRange(2, 3, None)]),))
    assert limits.fit({X: (10**9,)}).outside == ()
    assert limits.fit({X: (1,)}).outside == (Outside(X, 0, 1, 2, None),)


# --- several profiles ------------------------------------------------------------------------------------------------
def test_a_shape_that_fits_one_profile_of_several_is_inside():
    assert TWO.fit({X: (16, 128)}).outside == ()
    assert TWO.fit({X: (16, 128)}).profile == 1


def test_a_shape_that_is_partly_in_each_profile_is_outside_of_the_nearest():
    """Rows of one profile with columns of the other: TensorRT takes neither."""
    fit = TWO.fit({X: (17, 128)})
    assert (fit.profile, fit.outside) == (1, (Outside(X, 0, 17, 2, 16),))


def test_of_profiles_that_a_shape_fits_the_one_that_it_is_at_the_opt_of_counts():
    limits = EngineLimits((profile(x=[BATCH]), profile(x=[SizeRange(1, 3, 16)])))
    assert (limits.fit({X: (3,)}).profile, limits.fit({X: (3,)}).is_at_opt) == (1, True)
    assert (limits.fit({X: (5,)}).profile, limits.fit({X: (5,)}).is_at_opt) == (0, False)


# --- opt and drift ---------------------------------------------------------------------------------------------------
def test_only_a_shape_with_opt_in_every_dimension_that_may_vary_is_at_opt():
    limits = EngineLimits((profile(x=(BATCH, SizeRange(1, 32, 64), static(4))),))
    assert limits.fit({X: (8, 32, 4)}).is_at_opt is True
    assert limits.fit({X: (8, 31, 4)}).is_at_opt is False


def test_a_shape_with_opt_where_it_may_vary_and_another_size_elsewhere_is_not_at_opt():
    assert ONE.fit({X: (8, 5)}).is_at_opt is False


def test_where_no_dimension_may_vary_or_opt_is_not_known_no_shape_is_at_opt_or_not():
    assert EngineLimits((profile(x=[static(4)]),)).fit({X: (4,)}).is_at_opt is None
    assert EngineLimits((profile(x=[SizeRange(1, None, 8)]),)).fit({X: (4,)}).is_at_opt is None


def test_drift_counts_calls_at_opt_and_outside_and_finds_the_usual_size():
    found = drift_of(ONE, ({X: (3, 4)}, 1_141), ({X: (8, 4)}, 90), ({X: (17, 4)}, 9))
    assert found == Drift(1_240, 90, 9, (UsualSize(X, 0, 3, 1_141, 1_240, 8),))
    assert found.distance == 0.625


def test_the_usual_size_of_a_dimension_counts_over_all_shapes_that_have_it():
    limits = EngineLimits((profile(x=(BATCH, SizeRange(1, 32, 64))),))
    found = drift_of(limits, ({X: (3, 10)}, 2), ({X: (3, 11)}, 2), ({X: (8, 32)}, 3))
    assert found.usual == (UsualSize(X, 0, 3, 4, 7, 8), UsualSize(X, 1, 32, 3, 7, 32))


def test_the_most_usual_size_that_is_not_opt_is_the_one_of_most_calls():
    limits = EngineLimits((profile(x=(BATCH, SizeRange(1, 32, 64))),))
    found = drift_of(limits, ({X: (3, 64)}, 2), ({X: (3, 1)}, 3))
    assert found.most_usual_elsewhere == UsualSize(X, 0, 3, 5, 5, 8)
    assert found.distance == 0.96875


def test_calls_whose_usual_size_is_opt_have_no_distance():
    found = drift_of(ONE, ({X: (8, 4)}, 3), ({X: (2, 4)}, 2))
    assert (found.distance, found.most_usual_elsewhere) == (0.0, None)


def test_of_sizes_that_are_as_frequent_the_larger_one_is_the_usual_one():
    assert drift_of(ONE, ({X: (2, 4)}, 3), ({X: (4, 4)}, 3)).usual == (UsualSize(X, 0, 4, 3, 6, 8),)


def test_drift_is_known_for_each_profile_by_itself():
    found = drift_of(TWO, ({X: (1, 16)}, 5), ({X: (4, 128)}, 3))
    assert found.usual == (UsualSize(X, 1, 16, 5, 5, 32), UsualSize(X, 0, 4, 3, 3, 8))


def test_without_a_call_or_without_a_dimension_that_varies_there_is_no_drift():
    assert drift_of(ONE) == Drift(0, 0, 0, ())
    assert drift_of(EngineLimits((profile(x=[static(4)]),)), ({X: (4,)}, 7)).distance is None
