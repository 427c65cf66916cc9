# SPDX-License-Identifier: Apache-2.0
"""The pairs that torchspan declares for its phases."""

import keyword
import operator

from torchspan import observers, phase
from torchspan.hooks.observers._official import OFFICIAL


def name_below_its_library(of_phase):
    """As the official pair of a phase is called: by the span's name, made a legal one."""
    library, _, rest = of_phase.name.partition(".")
    name = rest.replace(".", "_")
    return f"{library}.{name}_" if keyword.iskeyword(name) else f"{library}.{name}"


def test_there_is_a_pair_for_each_phase_by_its_name_below_its_library():
    expected = {name_below_its_library(each): each for each in phase.PHASES}
    without = {
        "torchspan.observed": phase.OBSERVED,
        "torchspan.operators": phase.OPERATORS,
        "torchspan.batch": phase.BATCH,
        "torchspan.import_": phase.IMPORT,
        "torchspan.progress": phase.PROGRESS,
    }
    assert {name: expected.pop(name) for name in without} == without
    assert {name: each for name, (each, _) in OFFICIAL.items()} == expected
    assert set(observers.PHASES) == set(expected)
    for name, (_, pair) in OFFICIAL.items():
        assert operator.attrgetter(name)(observers) is pair
        assert repr(pair.pre) == f"Observer('{name}.pre')"
        assert repr(pair.post) == f"Observer('{name}.post')"
