# SPDX-License-Identifier: Apache-2.0
import gc
import math

import pytest

from torchspan.engine import FreshObjects, LimitedCalls, RateLimits, RunSampling, Verdict


class Thing:
    pass


class Request:
    """Stands for a recording span."""

    trace = "trace"


# --- first runs ---------------------------------------------------------------------------------------------------


def test_the_first_run_of_an_object_since_it_was_made_is_known():
    fresh, one, other = FreshObjects(), Thing(), Thing()
    fresh.add(one)
    assert [fresh.take(one), fresh.take(one), fresh.take(other)] == [True, False, False]
    assert not fresh.held


def test_an_object_that_never_runs_is_forgotten():
    fresh, thing = FreshObjects(), Thing()
    fresh.add(thing)
    del thing
    gc.collect()
    assert not fresh.held


def test_an_object_without_weak_references_is_known_as_well():
    fresh, thing = FreshObjects(), object()
    fresh.add(thing)
    assert [fresh.take(thing), fresh.take(thing)] == [True, False]


# --- rate limits --------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


def allowed(limits, thing, trace, times=1):
    return sum(limits.refused_until(thing, trace) is None for _ in range(times))


def test_ten_a_second_and_object(clock):
    limits, thing = RateLimits(), Thing()
    assert allowed(limits, thing, "trace", 20) == 10
    assert limits.refused_until(thing, "trace") == 101.0
    clock[0] += 1
    assert allowed(limits, thing, "trace", 20) == 10


def test_fifty_a_trace(clock):
    limits, things = RateLimits(), [Thing() for _ in range(8)]
    assert sum(allowed(limits, thing, "trace") for _ in range(10) for thing in things) == 50
    clock[0] += 1
    assert limits.refused_until(things[0], "trace") == math.inf
    assert allowed(limits, things[0], "another trace") == 1


def test_traces_are_forgotten_oldest_first(clock):
    limits, thing = RateLimits(), Thing()
    for trace in range(3000):
        clock[0] += 1
        limits.refused_until(thing, trace)
    assert len(limits._traces) == 1024
    assert min(limits._traces) == 3000 - 1024


def test_a_new_object_at_the_address_of_a_dead_one_starts_from_zero(clock):
    limits = RateLimits()
    assert sum(allowed(limits, Thing(), f"trace {number}") for number in range(3000)) == 3000
    assert not limits._windows


# --- policies -----------------------------------------------------------------------------------------------------


def test_the_first_run_is_recorded_also_without_a_parent_and_beyond_all_limits(clock):
    policy, thing = RunSampling(RateLimits()), Thing()
    assert policy.decide(thing, None, is_first=True).verdict is Verdict.FIRST
    for _ in range(60):
        policy.decide(thing, Request, is_first=False)
    assert policy.decide(thing, Request, is_first=True).verdict is Verdict.FIRST


def test_runs_below_a_span_are_recorded_within_the_limits_and_counted_beyond(clock):
    policy, thing = RunSampling(RateLimits()), Thing()
    assert [policy.decide(thing, Request, is_first=False).verdict for _ in range(11)] == [Verdict.RECORD] * 10 + [
        Verdict.COUNT
    ]
    assert policy.decide(thing, Request, is_first=False).until_s == 101.0


def test_a_run_without_a_parent_passes_and_uses_up_no_limit(clock):
    limits, thing = RateLimits(), Thing()
    policy = RunSampling(limits)
    assert {policy.decide(thing, None, is_first=False).verdict for _ in range(20)} == {Verdict.PASS}
    assert allowed(limits, thing, "trace", 20) == 10


def test_calls_of_observed_functions_are_recorded_without_a_parent_too_within_the_limits(clock):
    policy, thing = LimitedCalls(RateLimits()), Thing()
    verdicts = [policy.decide(thing, None, is_first=False).verdict for _ in range(11)]
    assert verdicts == [Verdict.RECORD] * 10 + [Verdict.PASS]
    assert policy.decide(thing, Request, is_first=False).verdict is Verdict.COUNT
