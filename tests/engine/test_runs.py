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


def test_the_first_run_of_each_object_is_known():
    runs, one, other = Runs(), Thing(), Thing()
    assert [runs.first(one), runs.first(one), runs.first(other)] == [True, False, True]
    assert runs.has_run(id(one))


def test_an_object_at_the_address_of_one_that_is_gone_has_not_run():
    runs, thing = Runs(), Thing()
    address = id(thing)
    runs.first(thing)
    del thing
    gc.collect()
    assert not runs.has_run(address)


def test_an_object_without_weak_references_is_counted_as_well():
    runs, thing = Runs(), object()
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
