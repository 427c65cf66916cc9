# SPDX-License-Identifier: Apache-2.0
import gc

import pytest

from torchspan.engine import Runs


class Thing:
    pass


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_the_first_run_of_an_object_since_it_was_made_is_known():
    runs, one, other = Runs(), Thing(), Thing()
    runs.made(one)
    assert [runs.first(one), runs.first(one), runs.first(other)] == [True, False, False]
    assert not runs.fresh


def test_an_object_that_goes_unrun_is_forgotten():
    runs, thing = Runs(), Thing()
    runs.made(thing)
    del thing
    gc.collect()
    assert not runs.fresh


def test_an_object_without_weak_references_is_counted_as_well():
    runs, thing = Runs(), object()
    runs.made(thing)
    assert [runs.first(thing), runs.first(thing)] == [True, False]


def test_ten_a_second_and_object(clock):
    runs, thing = Runs(), Thing()
    assert sum(runs.allow(thing, "trace") for _ in range(20)) == 10
    clock[0] += 1
    assert sum(runs.allow(thing, "trace") for _ in range(20)) == 10


def test_fifty_a_trace(clock):
    runs, things = Runs(), [Thing() for _ in range(8)]
    assert sum(runs.allow(thing, "trace") for _ in range(10) for thing in things) == 50
    clock[0] += 1
    assert not runs.allow(things[0], "trace")
    assert runs.allow(things[0], "another trace")


def test_traces_are_forgotten_oldest_first(clock):
    runs, thing = Runs(), Thing()
    for trace in range(3000):
        clock[0] += 1
        runs.allow(thing, trace)
    assert len(runs._traces) == 1024
