# SPDX-License-Identifier: Apache-2.0
import os

import pytest

from torchspan import phase
from torchspan.base.errors import Guard
from torchspan.engine import Engine, RunTotals
from torchspan.engine.run_times import TOTALLED, RunTimes


@pytest.fixture
def times():
    return RunTimes(Guard())


@pytest.fixture
def totals(times):
    return RunTotals([times])


def test_durations_are_measured_for_the_totals_without_a_collector(times, totals):
    assert (times.wanted, times.is_collected) == (True, False)
    times.add(0.5)
    times.add(0.25, ValueError)
    assert totals.now() == (2, 0.75)
    assert totals.now() == (2, 0.75)


def test_what_a_collector_takes_is_counted_once(times, totals):
    taken = []
    times.want(lambda: taken.extend(times.take()), batch=2)
    for seconds in (0.5, 0.25, 1.0):
        times.add(seconds)
    assert (taken, totals.now()) == ([0.5, 0.25], (3, 1.75))
    times.want(None)
    assert (times.wanted, totals.now()) == (True, (3, 1.75))


def test_a_collector_that_fails_and_the_callback_for_totals_are_named():
    def fails():
        raise ValueError

    guard = Guard()
    times = RunTimes(guard)
    times.want(fails, batch=1)
    times.add(0.5)
    assert guard.failures == {"adding up runs": 1}
    assert RunTotals([times]).name == "totalling runs"


def test_without_a_collector_a_bounded_number_is_held(times, totals):
    for _ in range(3 * TOTALLED):
        times.add(0.5)
    assert len(times.durations_s) < TOTALLED
    assert totals.now() == (3 * TOTALLED, 1.5 * TOTALLED)


def test_runs_that_are_events_are_counted_and_those_inside_another_are_not():
    engine = Engine()
    totals = RunTotals(engine.run_times.values())
    engine.listen([totals])
    compilation = engine.open(phase.COMPILE, {})
    engine.close(compilation)
    run = engine.open(phase.EXECUTE, {})
    inner = engine.open(phase.RUN_CONTEXT, {})
    engine.close(inner)
    engine.close(run)
    alone = engine.open(phase.RUN_CONTEXT, {})
    engine.close(alone)

    count, seconds = totals.now()
    assert count == 2
    assert seconds == pytest.approx(sum(each.end_ns - each.start_ns for each in (run, alone)) / 1e9)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_starts_at_zero(times, totals):
    times.add(0.5)
    times.take()
    times.add(0.25)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        times.add(2.0)
        os.write(write, repr(totals.now()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert (os.read(read, 100), totals.now()) == (b"(1, 2.0)", (2, 0.75))
