# SPDX-License-Identifier: Apache-2.0
"""Programs on a real GPU, and figures with their oracles."""

import pytest

from support.gpu import record_figure
from support.gpu_runs import EVERY_RUN


@pytest.fixture
def figure():
    """`figure(name, measured, oracle, unit, (low, high))` puts a figure on the page, and fails where it is out of its bound.

    low, high: the least and the most that `measured` may be, in the same unit.
    """

    def check(name, measured, oracle, unit, bound):
        low, high = bound
        is_met = low <= measured <= high
        record_figure(name, measured, oracle, unit, f"{low:.6g} to {high:.6g}", is_met=is_met)
        assert is_met, f"{name}: {measured} {unit} is not from {low} to {high}; the oracle says {oracle}"

    return check


@pytest.fixture
def timed(instrument):
    """The bridge, with the time on the device of each run; `timed(…)` with other settings."""

    def enable(**settings):
        return instrument(**{"gpu_time": "sampled", "graph_runs": True, **EVERY_RUN, **settings})

    return enable
