# SPDX-License-Identifier: Apache-2.0
"""Whatever runs and whatever the device does: each run is complete once, and every CUDA event comes back."""

import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.asynchronous_device import ILLEGAL_ADDRESS
from torchspan.hooks.device._cuda_events import PAIRS
from torchspan.words import semconv

FACTS = {semconv.EXECUTE_GPU_DURATION, semconv.GPU_TIME_MISSING}
ACTIONS = st.sampled_from(["run", "run", "run", "captured", "raises", "fails", "finish", "flush", "other stream"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, max_size=30))
def test_each_run_is_complete_once_with_a_time_or_a_reason(gpu, make_runs, actions):
    runs = make_runs()
    number = 0
    for action in actions:
        number += action in {"run", "captured", "raises", "fails", "other stream"}
        do(action, gpu, runs)
    gpu.finish()
    facts = runs.wait(number)
    runs.times.flush()
    assert len(runs.completed) == len({id(event) for event in runs.completed}) == number
    assert sum(not fact for fact in facts) <= actions.count("raises")  # one that the device has finished has its time
    assert all(len(fact) <= 1 and fact.keys() <= FACTS for fact in facts)
    deadline = time.monotonic() + 30
    while len(runs.times._pairs) != PAIRS:
        assert time.monotonic() < deadline, "CUDA events are missing"
        time.sleep(0.001)
    assert gpu.synchronizing_calls() == []


def do(action, gpu, runs):
    """One of the things that may happen."""
    if action == "run":
        runs.run(0.001)
    elif action == "captured":
        with gpu.capturing(torch.cuda.Stream()):
            runs.run(0.001)
    elif action == "raises":
        with pytest.raises(ZeroDivisionError):
            runs.run(work=lambda: 1 / 0)
    elif action == "fails":
        runs.run(work=lambda: setattr(gpu, "error", ILLEGAL_ADDRESS))
        gpu.error = None
    elif action == "finish":
        gpu.finish()
    elif action == "flush":
        runs.times.flush()
    else:
        with torch.cuda.stream(torch.cuda.Stream()):
            runs.run(0.002)
