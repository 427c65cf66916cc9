# SPDX-License-Identifier: Apache-2.0
import os
import threading

import pytest

from torchspan import phase
from torchspan.base.errors import Guard
from torchspan.engine import Engine
from torchspan.engine.run_times import HELD, RunTimes


@pytest.fixture
def times():
    return RunTimes(Guard())


def test_durations_are_unwanted_until_a_reader_asks():
    assert Engine().run_times[phase.EXECUTE].wanted is False


def test_what_is_held_is_taken_once_in_the_order_of_the_runs(times):
    times.want(lambda: None)
    times.add(0.5)
    times.add(0.25, ValueError)
    assert (times.take(), times.take_failed()) == ([0.5], [(0.25, ValueError)])
    assert list(times.take()) == []


def test_watchers_learn_each_change(times):
    reported = []
    times.watch(lambda: reported.append(times.wanted))
    times.want(lambda: None)
    times.want(None)
    assert reported == [True, False]


def test_the_run_that_finds_as_many_as_may_be_held_has_the_collector_called(times):
    taken = []
    times.want(lambda: taken.extend(times.take(16)))
    for number in range(HELD):
        times.add(number)
    assert taken == list(range(16))
    assert times.take() == list(range(16, HELD))


def test_a_collector_may_ask_to_be_called_earlier(times):
    taken = []
    times.want(lambda: taken.append(len(list(times.take()))), batch=100)
    for number in range(250):
        times.add(number)
    assert (taken, len(list(times.take()))) == ([100, 100], 50)


def test_when_nothing_takes_them_away_a_bounded_number_is_held(times, caplog):
    def fails():
        raise RuntimeError("torchspans")

    times.want(fails)
    for number in range(5 * HELD):
        times.add(number)
    assert HELD <= len(times.take()) < 2 * HELD
    assert len(caplog.messages) == 2, "said once, and when given up"


def test_once_they_are_unwanted_none_is_left(times):
    times.want(lambda: None)
    times.add(1.0)
    times.want(None)
    assert list(times.take()) == []


def test_runs_on_many_threads_are_each_taken_once(times):
    taken, lock = [], threading.Lock()

    def take(at_most=None):
        found = list(times.take(at_most))
        with lock:
            taken.extend(found)

    times.want(take)
    threads = [
        threading.Thread(target=lambda start=start: [times.add(start + number) for number in range(5000)])
        for start in range(0, 40000, 5000)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        take()
    for thread in threads:
        thread.join()
    take()
    assert sorted(taken) == list(range(40000))


def test_a_forked_child_has_none_of_its_parents(times):
    times.want(lambda: None)
    times.add(1.0)
    pid = os.fork()
    if pid == 0:
        os._exit(len(list(times.take())))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(list(times.take())) == 1
