# SPDX-License-Identifier: Apache-2.0
"""Which runs are picked, by the rules of a sampler."""

import math
import os
import threading

import pytest

from torchspan.engine import Pick, RateLimits, RunSampling, Surroundings, Verdict, rate_limits
from torchspan.engine.run_sampling import ShareOfRoots, TargetRate
from torchspan.words.sampling.rules import SamplingRules


class Thing:
    pass


class Request:
    """Stands for a recording span."""

    trace = "trace"


class Clock:
    """Seconds that pass when a test lets it."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    return clock


@pytest.fixture
def sampling(clock):
    """Makes the policy, with a provider whose sampler has these rules; None: another sampler."""

    def make(rules, asked=None):
        made = RunSampling(RateLimits(), asked, clock=clock)
        made.use(rules)
        return made

    return make


def picked(roots, runs):
    """The numbers of the runs that are picked."""
    return [number for number in range(runs) if roots.draw() >= roots.due]


def outside(sampling, runner):
    """Why a run that nothing surrounds is an event, if it is one."""
    return sampling.decide(runner, Surroundings.OUTSIDE).pick


def picked_outside(sampling, runner):
    """The same for a run that a rule has picked."""
    return sampling.decide(runner, Surroundings.OUTSIDE, is_picked=True).pick


# --- which runs are picked ----------------------------------------------------------------------------------------


def test_without_a_provider_no_run_is_picked_and_failures_are_not_events(clock):
    sampling = RunSampling(RateLimits(), SamplingRules(execute=1), clock=clock)
    assert (sampling.roots, sampling.failed(Thing())) == (None, None)


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        (SamplingRules(), type(None)),
        (SamplingRules(execute=0.5), ShareOfRoots),
        (SamplingRules(execute=1), ShareOfRoots),
        (SamplingRules(execute_target=10), TargetRate),
        (SamplingRules(execute=1, execute_target=10), TargetRate),
    ],
)
def test_the_rules_of_torchspans_sampler_say_how_runs_are_picked(sampling, rules, kind):
    assert type(sampling(rules).roots) is kind


def test_another_sampler_is_offered_failed_runs_alone_unless_a_setting_asks_for_more(sampling):
    assert (sampling(None).roots, sampling(None).failed(Thing())) == (None, Pick())


@pytest.mark.parametrize("asked", [SamplingRules(execute=0.01), SamplingRules(execute_target=5)])
def test_under_another_sampler_each_run_is_offered_to_it_and_that_one_decides_alone(sampling, asked):
    made = sampling(None, asked)
    assert len(picked(made.roots, 1000)) == 1000
    assert outside(made, Thing()) == Pick(None)
    assert made.failed(Thing()) == Pick()


def test_the_rate_limits_hold_under_another_sampler_as_well(sampling):
    made, thing = sampling(None, SamplingRules(execute=0.01)), Thing()
    assert sum(picked_outside(made, thing) is not None for _ in range(100)) == 10


def test_a_share_of_the_runs_is_picked_and_each_as_likely():
    numbers = picked(ShareOfRoots(0.1), 100_000)
    assert abs(len(numbers) - 10_000) < 6 * (100_000 * 0.1 * 0.9) ** 0.5
    assert abs(sum(number % 2 for number in numbers) - len(numbers) / 2) < 6 * (len(numbers) / 4) ** 0.5


def test_threads_pick_different_runs_and_together_the_share():
    roots, found = ShareOfRoots(0.1), []

    def work():
        found.append(picked(roots, 25_000))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert abs(sum(map(len, found)) - 10_000) < 6 * (100_000 * 0.1 * 0.9) ** 0.5
    assert len(set(map(tuple, found))) == 4


def test_forked_processes_pick_other_runs_than_their_parent(sampling):
    made = sampling(SamplingRules(execute=0.01))
    outside(made, Thing())
    outputs = []
    for _ in range(2):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writer, repr(picked(made.roots, 20_000)).encode())
            os._exit(0)
        os.close(writer)
        with open(reader, encoding="utf-8") as stream:
            outputs.append(stream.read())
        os.waitpid(pid, 0)
    assert len({*outputs, repr(picked(made.roots, 20_000))}) == 3


def test_watchers_are_called_when_the_rules_change(sampling):
    made, calls = sampling(SamplingRules()), []
    made.watch(lambda: calls.append(type(made.roots)))
    made.use(SamplingRules())
    made.use(SamplingRules(execute=1))
    made.use(None)
    assert calls == [ShareOfRoots, type(None)]


# --- probabilities ------------------------------------------------------------------------------------------------


def test_the_probability_is_known_until_a_rate_limit_decides(sampling, clock):
    made, thing = sampling(SamplingRules(execute=0.25)), Thing()
    assert [picked_outside(made, thing) for _ in range(10)] == [Pick(0.25)] * 10
    assert picked_outside(made, thing) is None
    clock.now_s += 1.5  # in the second after that
    assert picked_outside(made, thing) == Pick(None)
    clock.now_s += 1
    assert picked_outside(made, thing) == Pick(0.25)


def test_of_a_run_that_a_target_allows_no_probability_is_known(sampling, clock):
    made = sampling(SamplingRules(execute_target=10))
    clock.now_s += 1
    assert picked_outside(made, Thing()) == Pick(None)


@pytest.mark.parametrize(("per_second", "in_ten_seconds"), [(3, 30), (0.5, 5), (1, 10), (100, 1000)])
def test_a_limit_holds_for_each_engine(sampling, clock, per_second, in_ten_seconds):
    made = sampling(SamplingRules(execute=1, execute_per_second=per_second))
    one, other, found = Thing(), Thing(), 0
    for _ in range(2000):
        found += picked_outside(made, one) is not None
        clock.now_s += 0.005
    assert abs(found - in_ten_seconds) <= 1
    assert picked_outside(made, other) is not None


def test_failed_runs_are_events_ten_a_second_of_one_engine(sampling, clock):
    made, thing = sampling(SamplingRules()), Thing()
    assert sum(made.failed(thing) is not None for _ in range(50)) == 10
    clock.now_s += 1
    assert made.failed(thing) == Pick(None)


# --- a target rate ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [1, 3, 9.5, 10, 10.5, 12, 50, 1000, 10_000])
def test_with_a_target_as_many_runs_are_picked_or_all_where_there_are_fewer(sampling, clock, load):
    made, seconds = sampling(SamplingRules(execute_target=10)), 60 if load < 1000 else 10
    found, start_s = 0, clock.now_s
    for number in range(round(load * seconds)):
        clock.now_s = start_s + number / load
        found += outside(made, Thing) is not None
    assert found == pytest.approx(min(10, load) * seconds, rel=0.1)


@pytest.mark.parametrize("target", [0.5, 1, 100, 10_000])
def test_any_target_is_met(sampling, clock, target):
    made, start_s = sampling(SamplingRules(execute_target=target)), clock.now_s
    found = 0
    for number in range(round(40 * target)):
        clock.now_s = start_s + number / target / 2
        found += picked_outside(made, Thing) is not None
    assert found == pytest.approx(20 * target, rel=0.1)


def test_the_target_follows_a_load_that_changes(sampling, clock):
    made, counts = sampling(SamplingRules(execute_target=10)), []
    for load in (10_000, 1, 5, 1000):
        start_s, found = clock.now_s, 0
        for number in range(load * 20):
            clock.now_s = start_s + number / load
            found += picked_outside(made, Thing) is not None
        clock.now_s = start_s + 20
        counts.append(found)
    assert counts == pytest.approx([200, 20, 100, 200], rel=0.1)


def test_after_a_pause_a_second_of_runs_is_owed_and_no_more(sampling, clock):
    made = sampling(SamplingRules(execute_target=10))
    clock.now_s += 3600
    assert 9 <= sum(picked_outside(made, Thing) is not None for _ in range(1000)) <= 12


def test_runs_are_picked_at_random_moments_and_not_the_first_of_each_burst(sampling, clock):
    made, start_s, places = sampling(SamplingRules(execute_target=10)), clock.now_s, []
    for second in range(100):
        for number in range(100):
            clock.now_s = start_s + second + number / 100
            if picked_outside(made, Thing) is not None:
                places.append(number)
    assert len(set(places)) > 80


def test_runs_inside_a_span_count_for_the_target(sampling, clock):
    made, start_s, found = sampling(SamplingRules(execute_target=5)), clock.now_s, []
    for number in range(1000):
        clock.now_s = start_s + number / 100
        thing, parent = Thing(), Request()
        parent.trace = number
        found.append(picked_outside(made, thing) is not None)
        found.append(made.decide(thing, parent).verdict is Verdict.RECORD)
    assert sum(found) == pytest.approx(50, rel=0.1)


def test_a_run_that_the_target_does_not_allow_is_counted_until_the_next_is_due(sampling, clock):
    made = sampling(SamplingRules(execute_target=1))
    clock.now_s += 1
    assert made.decide(Thing(), Request()).verdict is Verdict.RECORD
    decision = made.decide(Thing(), Request())
    assert (decision.verdict, decision.until_s) == (Verdict.COUNT, made.target.due)


def test_a_trace_that_has_events_again_and_again_gets_no_new_quota():
    limits = RateLimits(None)
    busy = [limits.refused_until(object(), "busy") for _ in range(49)]
    for number in range(rate_limits.REMEMBERED - 1):
        limits.refused_until(object(), number)
    assert [*busy, limits.refused_until(object(), "busy")] == [None] * 50
    for number in range(rate_limits.REMEMBERED - 1):
        limits.refused_until(object(), f"later {number}")
    assert limits.refused_until(object(), "busy") == math.inf
