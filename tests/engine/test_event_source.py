# SPDX-License-Identifier: Apache-2.0
"""A source that reports beginnings and ends apart, as Dynamo's event log does, built on the engine as it is."""

import threading

import pytest

from support.engines import Callback, extend
from torchspan import phase
from torchspan.engine import CURRENT, Engine, EventStack, Observed


class Source:
    """Reports begin and end by name, each with a time of its own clock, and facts that arrive after the end."""

    def __init__(self, engine):
        self.engine = engine
        self.stack = EventStack(engine)
        self.late = {}

    def begin(self, name, at_ns=None, is_late=False):
        event = self.stack.begin(name, phase.BUILD_PHASE, {}, target=name, at_ns=at_ns)
        if is_late:
            self.late[name] = self.engine.defer(event)

    def end(self, name, at_ns=None, **facts):
        self.stack.end(name, facts, at_ns=at_ns)

    def finish(self):
        self.stack.close()

    def facts(self, name, **facts):
        self.late.pop(name).complete(facts)


@pytest.fixture
def engine():
    engine = Engine()
    engine.seen, engine.errors = [], []

    def ended(event, _context):
        parent = None if event.parent is None else event.parent.target
        marks = {**event.additions, **({"incomplete": True} if event.is_incomplete else {})}
        engine.seen.append((event.target, parent, marks))
        engine.errors += () if event.error is None else (event.error,)

    extend(engine, Callback("ended", lambda event: event, ended))
    yield engine
    engine.stop()


@pytest.fixture
def source(engine):
    return Source(engine)


def test_pairs_nest_by_their_beginnings_and_ends(engine, source):
    for name in ("frame", "dynamo"):
        source.begin(name)
    source.end("dynamo", graphs=1)
    source.begin("backend")
    source.end("backend")
    source.end("frame")
    assert engine.seen == [("dynamo", "frame", {"graphs": 1}), ("backend", "frame", {}), ("frame", None, {})]


def test_what_runs_inside_lies_below_the_innermost_pair(engine, source):
    source.begin("frame")
    event = engine.open(phase.COMPILE, {})
    assert event.parent.target == "frame"
    engine.close(event)
    source.end("frame")
    assert engine.current is None


def test_an_end_without_a_beginning_is_ignored(engine, source):
    source.end("never begun")
    source.begin("frame")
    source.end("never begun")
    source.end("frame")
    assert engine.seen == [("frame", None, {})]


def test_a_beginning_without_an_end_is_closed_with_what_is_around_it_and_incomplete(engine, source):
    for name in ("frame", "dynamo", "inner"):
        source.begin(name)
    source.end("frame")
    assert engine.seen == [
        ("inner", "dynamo", {"incomplete": True}),
        ("dynamo", "frame", {"incomplete": True}),
        ("frame", None, {}),
    ]
    assert engine.current is None


def test_what_is_left_when_the_source_ends_is_incomplete(engine, source):
    source.begin("frame")
    source.begin("dynamo")
    source.finish()
    assert engine.seen == [("dynamo", "frame", {"incomplete": True}), ("frame", None, {"incomplete": True})]


def test_equal_names_nest_and_end_innermost_first(engine, source):
    source.begin("frame")
    source.begin("frame")
    source.end("frame", number=1)
    source.end("frame", number=2)
    assert engine.seen == [("frame", "frame", {"number": 1}), ("frame", None, {"number": 2})]


def test_times_are_the_sources_moved_into_the_parent_and_not_beyond_now(engine, source):
    times = []
    extend(
        engine, Callback("times", lambda event: event, lambda event, _: times.append((event.start_ns, event.end_ns)))
    )
    outer = engine.open(phase.COMPILE, {}, placement=CURRENT)
    source.begin("frame", at_ns=outer.start_ns + 1)
    source.end("frame", at_ns=outer.start_ns + 2)
    source.begin("too early", at_ns=outer.start_ns - 10**9)
    source.end("too early", at_ns=outer.start_ns + 10**12)
    engine.close(outer)
    assert times[0] == (outer.start_ns + 1, outer.start_ns + 2)
    assert times[1][0] == outer.start_ns
    assert outer.start_ns <= times[1][1] <= outer.end_ns


def test_facts_that_arrive_after_the_end_are_part_of_the_event(engine, source):
    source.begin("frame", is_late=True)
    source.end("frame")
    assert engine.seen == []
    assert engine.current is None
    source.facts("frame", backward=True)
    assert engine.seen == [("frame", None, {"backward": True})]


def test_facts_that_never_arrive_keep_no_event_back_for_good(engine, source):
    source.begin("frame", is_late=True)
    source.end("frame")
    engine.flush()
    assert engine.seen == [("frame", None, {})]
    source.facts("frame", backward=True)
    assert engine.seen == [("frame", None, {})]


def test_a_deferred_event_that_failed_is_complete_when_it_is_closed(engine):
    event = engine.open(phase.COMPILE, {})
    later = engine.defer(event)
    engine.close(event, ValueError())
    assert len(engine.seen) == 1
    later.complete({"too": "late"})
    assert engine.seen == [(None, None, {})]


def test_facts_that_arrive_before_the_end_defer_nothing(engine):
    event = engine.open(phase.COMPILE, {})
    with engine.defer(event) as later:
        later.complete({"early": True})
    engine.close(event)
    assert engine.seen == [(None, None, {"early": True})]


def test_facts_of_another_thread_that_arrive_while_an_event_is_closed_complete_it(engine):
    def leave(event, _context):
        device = threading.Thread(target=event.deferral.complete, args=({"while closing": True},))
        device.start()
        device.join()

    extend(engine, Callback("leaving", lambda event: event, lambda _event, _context: None, leave=leave))
    event = engine.open(phase.COMPILE, {})
    engine.defer(event)
    engine.close(event)
    assert engine.seen == [(None, None, {"while closing": True})]


def test_stopping_completes_what_waits(engine):
    event = engine.open(phase.COMPILE, {})
    engine.defer(event)
    engine.close(event)
    engine.stop()
    assert len(engine.seen) == 1


def test_a_stack_below_an_event_takes_reports_from_any_thread(engine):
    build = engine.open(phase.BUILD_ENGINE, {})
    stack = EventStack(engine, below=build)
    stack.begin("one", phase.BUILD_PHASE, {}, target="one")
    threads = [
        threading.Thread(target=stack.begin, args=("two", phase.BUILD_PHASE, {}), kwargs={"target": "two"}),
        threading.Thread(
            target=stack.begin, args=("in one", phase.BUILD_PHASE, {}), kwargs={"target": "in one", "parent_key": "one"}
        ),
    ]
    for thread in threads:
        thread.start()
        thread.join()
    stack.end("one")
    stack.close()
    engine.close(build)
    assert engine.seen == [
        ("in one", "one", {"incomplete": True}),
        ("one", None, {}),
        ("two", None, {"incomplete": True}),
        (None, None, {}),
    ]


def test_of_more_than_a_thousand_events_that_wait_the_oldest_is_completed(engine):
    for number in range(1_001):
        event = engine.open(phase.BUILD_PHASE, {}, target=str(number))
        engine.defer(event)
        engine.close(event)
    assert engine.seen == [("0", None, {})]


def test_an_event_ends_with_its_error_at_the_sources_time(engine):
    stack, error = EventStack(engine), ValueError()
    event = stack.begin("frame", phase.BUILD_PHASE, {}, target="frame")
    stack.end("frame", error=error, at_ns=event.start_ns)
    assert (engine.errors, event.end_ns, stack.top("frame")) == ([error], event.start_ns, None)


def test_an_event_of_a_stack_has_the_call_that_it_is_and_its_links(engine):
    got, call = [], Observed(len, ("a",), {})
    extend(engine, Callback("call", lambda event: got.append((event.observed, event.links)), lambda *_ended: None))
    stack = EventStack(engine)
    stack.begin("frame", phase.BUILD_PHASE, {}, observed=call, links=("a link",))
    stack.end("frame")
    assert got == [(call, ("a link",))]
