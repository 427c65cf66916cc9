# SPDX-License-Identifier: Apache-2.0
"""What registering and an event cost does not depend on how many other callbacks there are: steps are counted, not timed."""

import math

import pytest

from torchspan import callbacks, phase
from torchspan.callbacks import RecordFunctionCallback, RecordScope, add_global_callback, record_function
from torchspan.engine import Engine
from torchspan.engine.subscribers import interest, sampling
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.engine.subscribers.interest import Interest, Roster


@record_function("step")
def step():
    pass


@pytest.fixture
def engine():
    engine = Engine(REGISTRY)
    yield engine
    engine.stop()


@pytest.fixture
def calls(monkeypatch):
    """Counts the calls of a function that is looked up in its holder."""

    def count(holder, name):
        made, original = [], getattr(holder, name)
        monkeypatch.setattr(holder, name, lambda *args, **kwargs: (made.append(args), original(*args, **kwargs))[1])
        return made

    return count


def crowd(count=1_000, **settings):
    return [add_global_callback(RecordFunctionCallback(lambda _record: None, **settings)) for _ in range(count)]


def test_registering_and_removing_concern_the_scopes_that_a_callback_names_alone(calls):
    crowd()
    for each in phase.PHASES:
        REGISTRY.interest(each)
    changed = calls(Interest, "changed")
    handle = add_global_callback(RecordFunctionCallback(print, scopes={phase.PARTITION, phase.LOWER}))
    callbacks.remove_callback(handle)
    assert {each.scope for (each,) in changed} == {phase.PARTITION, phase.LOWER}
    assert len(changed) == 4


def test_however_many_are_registered_between_two_events_the_callbacks_are_gone_through_once(calls, monkeypatch):
    step()
    made = []
    original = Roster.of.__func__
    counting = lambda cls, *args, **kwargs: (made.append(1), original(cls, *args, **kwargs))[1]
    monkeypatch.setattr(interest.Roster, "of", classmethod(counting))
    handles = crowd()
    for handle in handles[1:]:
        callbacks.remove_callback(handle)
    assert made == []
    step()
    step()
    assert made == [1]
    callbacks.remove_callback(handles[0])
    assert REGISTRY.interest(RecordScope.USER_SCOPE).countdown is None


def test_an_event_costs_as_many_draws_as_it_has_hits(calls, seen):
    for _ in range(1_000):
        add_global_callback(RecordFunctionCallback(seen.append, sampling_prob=0.01))
    step()
    seen.clear()
    drawn = calls(sampling, "tries_until_hit")
    for _ in range(100):
        step()
    assert len(drawn) == len(seen)
    assert abs(len(seen) - 1_000) < 5 * math.sqrt(1_000)


def test_in_a_crowd_each_callback_has_its_own_share_of_events(engine):
    probabilities, counts, events = [0.5, 0.1, 0.01] * 20, {}, 10_000
    callbacks.set_record_function_seed_for_testing(8)
    for index, probability in enumerate(probabilities):
        counts[index] = 0

        def start(_record, index=index):
            counts[index] += 1

        add_global_callback(RecordFunctionCallback(start, sampling_prob=probability))
    for _ in range(events):
        step()
    for index, probability in enumerate(probabilities):
        assert abs(counts[index] - events * probability) < 5 * math.sqrt(events * probability * (1 - probability))


def test_the_order_is_that_of_registration_whichever_are_sampled(seen):
    for index in range(9):
        settings = {"sampling_prob": 0.9} if index % 3 == 0 else {"should_run": lambda: True} if index % 3 == 1 else {}
        add_global_callback(RecordFunctionCallback(lambda _record, index=index: seen.append(index), **settings))
    orders = set()
    for _ in range(50):
        seen.clear()
        step()
        assert seen == sorted(seen)
        orders.add(tuple(seen))
    assert tuple(range(9)) in orders
    assert len(orders) > 1


def test_one_that_is_reenabled_takes_its_old_place(recorder, seen):
    first = add_global_callback(recorder("first"))
    add_global_callback(recorder("second"))
    callbacks.disable_callback(first)
    step()
    callbacks.reenable_callback(first)
    seen.clear()
    step()
    assert seen == ["first start step", "second start step", "second end step", "first end step"]


def test_a_removed_callback_is_kept_by_nothing(engine):
    import gc
    import weakref

    class Start:
        def __call__(self, _record):
            """Only to be referred to weakly."""

    start = Start()
    alive = weakref.ref(start)
    handle = add_global_callback(RecordFunctionCallback(start))
    other = add_global_callback(RecordFunctionCallback(lambda _record: None))
    step()
    engine.close(engine.open(phase.COMPILE, {}))
    callbacks.remove_callback(handle)
    del start
    gc.collect()
    assert alive() is None
    callbacks.remove_callback(other)


def test_equal_warnings_are_logged_once_until_what_is_fired_changes(caplog):
    def register():
        add_global_callback(RecordFunctionCallback(print, scopes={phase.COMPILE}))

    for _ in range(1_111):
        register()
    add_global_callback(RecordFunctionCallback(print, scopes={phase.LOWER}))
    assert len(caplog.records) == 2
    Engine(REGISTRY).stop()
    register()
    register()
    assert len(caplog.records) == 3


def test_a_watcher_is_called_when_events_begin_to_be_wanted_and_when_they_cease_to_be(engine, seen):
    events = REGISTRY.interest(phase.EXECUTE)
    stop = events.watch(lambda: seen.append(events.countdown is not None))
    handles = crowd(3, scopes={phase.EXECUTE})
    crowd(1, scopes={phase.COMPILE})
    for handle in handles:
        callbacks.remove_callback(handle)
    assert seen == [False, True, False]
    stop()
    stop()
    crowd(1)
    assert seen == [False, True, False]
