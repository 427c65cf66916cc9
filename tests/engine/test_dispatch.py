# SPDX-License-Identifier: Apache-2.0
import contextvars
import threading
from types import ModuleType, SimpleNamespace

import pytest

import torchspan.engine
from support.engines import Callback, extend
from torchspan import phase
from torchspan.base.errors import UserCallback
from torchspan.callbacks import (
    RecordedRange,
    RecordFunctionCallback,
    SamplingMode,
    add_global_callback,
    record_function,
)
from torchspan.engine import Anchor, Audience, Engine, Placement
from torchspan.engine.subscribers.callback_registry import REGISTRY, Registry
from torchspan.engine.subscribers.entry import Entry
from torchspan.engine.subscribers.sampling import Tree


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def seen():
    return []


def recorder(name, seen):
    return Callback(
        name,
        lambda event: seen.append(f"{name} start {event.name}") or name,
        lambda event, context: seen.append(f"{name} end {event.name}"),
    )


def test_listeners_start_in_order_and_end_in_reverse(seen):
    engine = Engine(listeners=[recorder("writer", seen), recorder("first", seen), recorder("second", seen)])
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == [
        "writer start torch_tensorrt.compile",
        "first start torch_tensorrt.compile",
        "second start torch_tensorrt.compile",
        "second end torch_tensorrt.compile",
        "first end torch_tensorrt.compile",
        "writer end torch_tensorrt.compile",
    ]


def test_an_engine_refuses_two_listeners_of_one_name(seen):
    with pytest.raises(ValueError, match="two listeners of one name: writer"):
        Engine(listeners=[recorder("writer", seen), recorder("other", seen), recorder("writer", seen)])


def test_a_callback_receives_its_phases_only(engine, seen):
    start = lambda event: seen.append(event.phase.name)
    extend(engine, Callback("builds", start, lambda *_: None, frozenset({phase.BUILD_ENGINE})))
    engine.close(engine.open(phase.COMPILE, {}))
    engine.close(engine.open(phase.BUILD_ENGINE, {}))
    assert seen == ["tensorrt.build_engine"]


def test_the_end_gets_what_its_start_returned(engine, seen):
    extend(engine, Callback("pair", lambda _event: "from start", lambda _event, context: seen.append(context)))
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == ["from start"]


def test_a_pair_that_has_started_ends_after_the_engine_was_closed(engine, seen):
    extend(engine, recorder("closed", seen))
    event = engine.open(phase.COMPILE, {})
    engine.stop()
    engine.close(event)
    assert engine.open(phase.COMPILE, {}) is None
    assert seen == ["closed start torch_tensorrt.compile", "closed end torch_tensorrt.compile"]


def test_an_event_is_current_until_it_ends(engine):
    outer = engine.open(phase.COMPILE, {})
    inner = engine.open(phase.PARTITION, {})
    assert engine.current is inner
    assert inner.parent is outer
    engine.close(inner)
    assert engine.current is outer
    engine.close(outer)
    assert engine.current is None


def test_a_child_given_its_parent_is_nobodys_current_event(engine):
    build = engine.open(phase.BUILD_ENGINE, {})
    reported = engine.open(phase.BUILD_PHASE, {}, target="Timing tactics", placement=Placement(build))
    assert reported.name == "tensorrt.build_phase Timing tactics"
    assert engine.current is build
    engine.close(reported)
    engine.close(build)


def test_a_context_copied_by_a_task_does_not_revive_an_event_that_has_ended(engine):
    event = engine.open(phase.COMPILE, {})
    copied = contextvars.copy_context()
    engine.close(event)
    assert copied.run(lambda: engine.current) is None
    assert copied.run(lambda: engine.open(phase.PARTITION, {}).parent) is None


def test_another_thread_has_no_current_event(engine):
    event = engine.open(phase.COMPILE, {})
    found = []
    thread = threading.Thread(target=lambda: found.append(engine.current))
    thread.start()
    thread.join()
    engine.close(event)
    assert found == [None]


def test_events_fired_inside_a_callback_reach_no_callback(engine, seen):
    def fire(event):
        seen.append(event.phase.name)
        assert engine.open(phase.PARTITION, {}) is None

    extend(engine, Callback("fires", fire, lambda *_: None))
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == ["torch_tensorrt.compile"]


def test_an_inactive_engine_opens_nothing(engine):
    engine.active = False
    assert engine.open(phase.COMPILE, {}) is None
    assert engine.current is None


@pytest.mark.fault("clock", "set back inside a compilation")
def test_children_lie_inside_their_parents_when_the_wall_clock_is_set_back(engine, monkeypatch):
    parent = engine.open(phase.COMPILE, {})
    monkeypatch.setattr("torchspan.engine.event.time_ns", lambda: 0)
    child = engine.open(phase.PARTITION, {})
    engine.close(child)
    engine.close(parent)
    assert parent.start_ns <= child.start_ns <= child.end_ns <= parent.end_ns


def test_a_callback_that_raises_fails_alone_and_is_paused_after_the_third_time(engine, seen, caplog):
    def fails(_event):
        raise RuntimeError("observer's own")

    extend(engine, Callback("broken", fails, lambda *_: None))
    extend(engine, recorder("healthy", seen))
    for _ in range(5):
        engine.close(engine.open(phase.COMPILE, {}))
    assert seen.count("healthy start torch_tensorrt.compile") == 5
    assert engine.guard.failures == {"broken": 3}
    assert [record.getMessage() for record in caplog.records] == [
        "broken failed; the program continues, with less telemetry. Cause: RuntimeError in code that torchspan calls. The traceback is logged at DEBUG.",
        (
            "broken failed 3 times in a row and is paused for 1 s. It is tried again after each pause; each failure "
            "then doubles the pause, up to 300 s."
        ),
    ]


@pytest.mark.fault("hooks and callbacks", "a callback of torchspan's is interrupted by Ctrl-C")
def test_what_belongs_to_the_program_passes_through_a_callback_and_closes_what_has_started(engine, seen):
    def interrupted(_event):
        raise KeyboardInterrupt

    extend(engine, recorder("earlier", seen))
    extend(engine, Callback("interrupted", interrupted, lambda *_: None))
    with pytest.raises(KeyboardInterrupt):
        engine.open(phase.COMPILE, {})
    assert engine.current is None
    assert seen == ["earlier start torch_tensorrt.compile", "earlier end torch_tensorrt.compile"]


def test_an_engine_has_its_own_listeners_alongside_another_engine_of_the_same_registry(seen):
    registry = Registry()
    first = Engine(registry, [recorder("first", seen)])
    second = Engine(registry, [recorder("second", seen)])
    open_event = first.open(phase.COMPILE, {})
    first.stop()
    first.close(open_event)
    second.close(second.open(phase.BUILD_ENGINE, {}))
    assert seen == [
        "first start torch_tensorrt.compile",
        "first end torch_tensorrt.compile",
        "second start tensorrt.build_engine",
        "second end tensorrt.build_engine",
    ]
    assert registry.silent([phase.COMPILE]) == []
    second.stop()
    assert registry.silent([phase.COMPILE]) == [phase.COMPILE]


def test_a_start_that_raised_has_no_end(engine, seen):
    def fails(_event):
        raise RuntimeError("observer's own")

    extend(engine, Callback("broken", fails, lambda *_: seen.append("end")))
    engine.close(engine.open(phase.COMPILE, {}))
    assert seen == []


def test_an_end_runs_though_its_callback_has_been_disabled_since(engine, seen):
    def fails(_event, _context):
        seen.append("end")
        raise RuntimeError("observer's own")

    extend(engine, Callback("broken", lambda _event: None, fails))
    outer = engine.open(phase.COMPILE, {})
    for _ in range(4):
        engine.close(engine.open(phase.PARTITION, {}))
    engine.close(outer)
    assert seen == ["end"] * 4


@pytest.mark.parametrize("times", [1, 2])
def test_an_event_whose_end_was_interrupted_ends_with_its_error(engine, seen, monkeypatch, times):
    extend(engine, Callback("ends", lambda _event: None, lambda event, _context: seen.append(event.error)))
    event, error, interrupts = engine.open(phase.COMPILE, {}), ValueError(), [KeyboardInterrupt] * times
    now_ns = Anchor.now_ns

    def interrupted(anchor):
        if interrupts:
            raise interrupts.pop()
        return now_ns(anchor)

    monkeypatch.setattr(Anchor, "now_ns", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.close(event, error, at_ns=event.start_ns)
    assert seen == [error]
    assert (event.error, event.end_ns) == (None, event.start_ns)


def test_what_comes_before_the_next_event_runs_once_and_not_for_users_alone(engine, seen):
    def action():
        seen.append("before")

    for _ in range(2):
        engine.before_next_event(action)
    engine.open(phase.COMPILE, {}, audience=Audience.USERS)
    assert seen == []
    for _ in range(2):
        engine.close(engine.open(phase.COMPILE, {}))
    assert seen == ["before"]


def test_for_sampling_what_begins_alongside_a_detached_event_is_a_tree_of_its_own(engine):
    def trees():
        events = [engine.open(phase.EXECUTE, {}, placement=Placement()), engine.open(phase.COMPILE, {})]
        return [event.tree for event in events]

    engine.registry.has_trees = True
    detached, current = contextvars.copy_context().run(trees)
    assert None not in {detached, current}
    assert detached is not current


def test_for_sampling_a_tree_is_open_until_its_root_ends(engine):
    engine.registry.has_trees = True
    root = engine.open(phase.COMPILE, {})
    for _ in range(2):
        child = engine.open(phase.CONVERT, {})
        assert child.tree is root.tree
        engine.close(child)
        assert root.tree.is_open
    engine.close(root)
    assert not root.tree.is_open


def test_an_event_knows_the_thread_in_which_it_was_opened(engine):
    threads = []
    thread = threading.Thread(
        target=lambda: threads.append((engine.open(phase.COMPILE, {}).thread_id, threading.get_ident()))
    )
    thread.start()
    thread.join()
    ((of_event, of_thread),) = threads
    assert of_event == of_thread


def test_the_package_has_every_name_that_it_exports():
    exported = {name: getattr(torchspan.engine, name, None) for name in torchspan.engine.__all__}
    assert [name for name, value in exported.items() if value is None or isinstance(value, ModuleType)] == []


# --- ends that fail ---------------------------------------------------------------------------------------------------
def test_a_listener_whose_end_works_again_is_no_longer_failing(engine):
    errors = [ValueError("once")]

    def end(_event, _token):
        if errors:
            raise errors.pop()

    extend(engine, Callback("flaky", lambda event: event, end))
    engine.close(engine.open(phase.COMPILE, {}))
    assert engine.guard.failures == {"flaky": 1}
    engine.close(engine.open(phase.COMPILE, {}))
    assert engine.guard.failures == {}


def test_an_interrupt_in_one_end_leaves_out_no_other(engine, seen):
    def interrupted(_event, _token):
        raise KeyboardInterrupt

    extend(engine, recorder("first", seen), Callback("interrupted", lambda event: event, interrupted))
    event = engine.open(phase.COMPILE, {})
    with pytest.raises(KeyboardInterrupt):
        engine.close(event)
    assert seen == ["first start torch_tensorrt.compile", "first end torch_tensorrt.compile"]


# --- the registry of an engine ----------------------------------------------------------------------------------------
def test_only_the_first_hundred_warnings_between_two_changes_are_logged(caplog):
    registry = Registry()
    for number in range(150):
        registry.warn(f"message {number}")
    assert len(caplog.records) == 100


def test_a_callback_that_is_sampled_per_root_needs_trees():
    registry = Registry()
    per_root = RecordFunctionCallback(lambda _record: None, sampling_prob=0.5, sampling_mode=SamplingMode.PER_ROOT)
    registry.add(Entry(1, UserCallback("callback 1"), per_root))
    assert registry.has_trees


def test_a_tree_keeps_what_its_root_decided():
    hits = [True, False]
    countdown = SimpleNamespace(is_hit=lambda _sampled: hits.pop(0))
    tree, sampled = Tree(), object()
    assert [tree.includes(sampled, countdown) for _ in range(2)] == [True, True]


def test_the_callback_of_an_event_without_a_call_gets_no_inputs_and_no_error():
    got = []
    engine = Engine(REGISTRY)
    callback = RecordFunctionCallback(lambda record: got.append((record.inputs, record.error)), needs_inputs=True)
    with add_global_callback(callback):
        engine.close(engine.open(phase.COMPILE, {}))
    engine.stop()
    assert got == [((), None)]


@pytest.mark.parametrize(("step", "name"), [("_begun", "starting a range"), ("_ended", "ending a range")])
def test_a_range_that_fails_is_logged_by_what_failed(step, name, monkeypatch, caplog):
    def failing(*_args):
        raise ValueError

    monkeypatch.setattr(RecordedRange, step, failing)
    with add_global_callback(RecordFunctionCallback(lambda _record: None)), record_function("range"):
        pass
    assert name in caplog.records[0].getMessage().lower()
