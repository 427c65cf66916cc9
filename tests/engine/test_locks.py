# SPDX-License-Identifier: Apache-2.0
"""Every lock is in the table of the design, and whichever is held, observed work in a finalizer or a signal handler does not hang."""

import ast
import contextlib
import gc
import os
import re
import sys
import threading
from pathlib import Path

import pytest
from opentelemetry import trace

import torchspan
from support.forked import held_elsewhere, in_forked_child
from torchspan import callbacks, phase
from torchspan.base import forks
from torchspan.engine import RUNNING, EventStack
from torchspan.engine.run_sampling import TargetRate
from torchspan.engine.subscribers.callback_registry import REGISTRY
from torchspan.observers import observable

SOURCE = Path(torchspan.__file__).parent
DESIGN = SOURCE.parents[1] / "docs" / "explanation" / "design" / "processes.md"
KINDS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}
LOCKS = type(threading.Lock()), type(threading.RLock())

OF_THE_SDK = "output.writer._private_sdk"
"""Renews locks of the SDK."""

NO_ONE_WAITS = "no one"


def table():
    """Lock -> who waits for it, and the locks that may be taken inside."""
    rows = re.findall(r"^\| `([\w.]+:[\w.]+)` \| (.+) \| (.+) \|$", DESIGN.read_text(encoding="utf-8"), re.MULTILINE)
    return {lock: (waits, inside) for lock, waits, inside in rows}


# --- the source ---------------------------------------------------------------------------------------------------


def made_in(path):
    """(name, kind) of each lock that a module makes."""
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    if module == OF_THE_SDK:
        return
    parents = {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        parents.update(dict.fromkeys(ast.iter_child_nodes(node), node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "threading" and node.attr in KINDS:
            statement = node
            while not isinstance(statement, ast.stmt):
                statement = parents[statement]
            assert isinstance(statement, ast.Assign), f"{module}, line {node.lineno}: a lock without a name"
            around = statement
            while around in parents and not isinstance(around, ast.ClassDef):
                around = parents[around]
            owner = f"{around.name}." if isinstance(around, ast.ClassDef) else ""
            for name in re.findall(r"[\w.]+", ast.unparse(statement.targets[0])):
                yield f"{module}:{owner}{name.removeprefix('self.')}", node.attr


def made():
    return {pair for path in SOURCE.rglob("*.py") for pair in made_in(path)}


def test_the_table_of_the_design_has_exactly_the_locks_of_the_source():
    assert {name for name, _ in made()} == set(table())


def test_a_plain_lock_is_one_for_which_no_one_waits():
    plain = {name for name, kind in made() if kind != "RLock"}
    assert {name for name in plain if not table()[name][0].startswith(NO_ONE_WAITS)} == set()
    for name in plain:
        module, _, lock = name.partition(":")
        text = (SOURCE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        attribute = lock.split(".")[-1]
        assert f"with self.{attribute}" not in text
        assert set(re.findall(rf"{attribute}\.acquire\((.*?)\)", text)) == {"blocking=False"}


def test_no_lock_is_taken_inside_itself_by_way_of_others():
    inside = {lock: re.findall(r"`([\w.]+:[\w.]+)`", taken) for lock, (_, taken) in table().items()}

    def reached(lock, seen=()):
        assert lock not in seen, f"a circle: {seen}"
        for other in inside[lock]:
            reached(other, (*seen, lock))

    for lock in inside:
        reached(lock)


# --- running objects ----------------------------------------------------------------------------------------------


@observable
def step():
    pass


@observable
def stream():
    yield 1
    yield 2


@observable
def fails():
    raise ValueError


def name_of(holder, attribute):
    if isinstance(holder, dict):
        return f"{holder['__name__'].removeprefix('torchspan.')}:{attribute}"
    kind = holder if isinstance(holder, type) else type(holder)
    kind = next(base for base in kind.__mro__ if base.__module__.startswith("torchspan."))
    return f"{kind.__module__.removeprefix('torchspan.')}:{kind.__name__}.{attribute}"


def attributes_of(thing):
    slots = {name for base in type(thing).__mro__ for name in getattr(base, "__slots__", ()) if name != "__dict__"}
    return {**{name: getattr(thing, name, None) for name in slots}, **getattr(thing, "__dict__", {})}


DYNAMOS = "_original"
"""The attribute with the lock of Dynamo's that torchspan follows, where a test before has imported Dynamo: not torchspan's."""


def living():
    """(holder, attribute, lock) of each lock of torchspan that a module, a class or an object of it has."""
    modules = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("torchspan.")]
    of_modules = [value for names in modules for value in list(names.values())]  # those that are frozen, too
    things = {id(thing): thing for thing in (*gc.get_objects(), *of_modules)}.values()
    for names in modules:
        yield from ((names, key, value) for key, value in list(names.items()) if type(value) in LOCKS)
    for thing in things:
        is_class = isinstance(thing, type)
        if (thing if is_class else type(thing)).__module__.startswith("torchspan."):
            attributes = dict(vars(thing)) if is_class else attributes_of(thing)
            attributes.pop(DYNAMOS, None)
            yield from ((thing, key, value) for key, value in attributes.items() if type(value) in LOCKS)


@pytest.fixture
def running(instrument, tracer):
    """Everything that has a lock is there. Returns what holds the objects that a bridge makes only now and then."""
    instrument(sample_execute_target=100)
    kept = [TargetRate(1.0, iter(range(1000)).__next__), EventStack(RUNNING.engine)]
    with tracer.start_as_current_span("request"):
        for _ in range(60):
            step()
        yield kept


def test_every_lock_of_a_running_bridge_has_a_row(running):
    found = {name_of(holder, attribute) for holder, attribute, _ in living()}
    assert found - set(table()) == set()
    assert {
        "base.errors:Guard._lock",
        "base.forks:SWITCHING",
        "engine.run_tally:RunTally._summing",
        "engine.run_times:RunTimes._taking",
        "start.instrumentor:TorchspanInstrumentor._switching",
        "start.instrumentor:_Arrivals._lock",
        "output.writer._metric_writer:MetricWriter._lock",
    } <= found


# --- what interrupts ----------------------------------------------------------------------------------------------


def observed_work():
    """What a finalizer or a signal handler may do: each path on which torchspan records something."""
    tracer = trace.get_tracer("finalizer")
    with tracer.start_as_current_span("cleanup"):
        step()
    list(stream())
    tokens = stream()
    next(tokens)
    tokens.close()
    with contextlib.suppress(ValueError):
        fails()
    with contextlib.suppress(ValueError), fails.observers.pre.add(lambda _context: 1 / 0):
        fails()
    with callbacks.record_function("range"), callbacks.DisableRecordFunctionGuard():
        step()
    engine = RUNNING.engine
    engine.close(engine.open(phase.COMPILE, {}))
    engine.guard.call("a failing observer", lambda: 1 / 0)
    engine.run_times[phase.EXECUTE].add(0.1)
    engine.run_times[phase.EXECUTE].collect()
    torchspan.flush(1.0)


def ends(function, *args):
    """Whether the function ends within ten seconds. It runs in a thread, which a hang leaves behind."""
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def inside(lock, function):
    with lock:
        function()


def test_whichever_lock_this_thread_holds_observed_work_ends(running, metrics):
    hung = [
        name_of(holder, attribute)
        for holder, attribute, lock in list(living())
        if not ends(inside, lock, observed_work)
    ]
    assert hung == []


def test_whichever_lock_this_thread_holds_metrics_are_read(running, metrics):
    hung = [
        name_of(holder, attribute) for holder, attribute, lock in list(living()) if not ends(inside, lock, metrics.read)
    ]
    assert hung == []


def test_a_lock_for_which_no_one_waits_may_be_held_by_another_thread(running, metrics):
    def work():
        observed_work()
        metrics.read()

    hung = []
    for holder, attribute, lock in list(living()):
        if table()[name_of(holder, attribute)][0].startswith(NO_ONE_WAITS):
            with held_elsewhere(lock):
                hung += [] if ends(work) else [name_of(holder, attribute)]
    assert hung == []


def test_while_a_thread_changes_callbacks_a_finalizer_inside_the_lock_of_carriers_ends():
    has_begun, taken = threading.Event(), []

    def change():
        with REGISTRY.changing():
            has_begun.set()
            taken.append(forks.SWITCHING.acquire(timeout=2))
            forks.SWITCHING.release()

    thread = threading.Thread(target=change, daemon=True)
    with forks.SWITCHING:
        thread.start()
        has_begun.wait(0.2)
        REGISTRY.update()  # as the first event after a change does
    thread.join()
    assert taken == [True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from 3.12 on
def test_whichever_lock_a_thread_holds_while_another_one_forks_the_child_works(running):
    held_by_forks = {"base.forks:SWITCHING"}
    for holder, attribute, lock in list(living()):
        name = name_of(holder, attribute)
        if name not in held_by_forks:  # a fork waits for it
            with held_elsewhere(lock):
                assert (name, in_forked_child(lambda: ends(observed_work))) == (name, "True")


# --- the order ----------------------------------------------------------------------------------------------------


class Noted:
    """A lock that notes which others its thread holds when it takes it, or None."""

    def __init__(self, name, lock, pairs, held):
        self.name, self.lock, self.pairs, self.held = name, lock, pairs, held

    def acquire(self, blocking=True, timeout=-1):
        taken = self.lock.acquire(blocking, timeout)
        if taken:
            names = self.held.__dict__.setdefault("names", [])
            self.pairs.update((name, self.name) for name in names or [None] if name != self.name)
            names.append(self.name)
        return taken

    def release(self):
        self.held.names.remove(self.name)
        self.lock.release()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_exception):
        self.release()


OPEN = {
    "start.instrumentor:TorchspanInstrumentor._switching",
    "start.instrumentor:_Arrivals._lock",
    "engine.stack:EventStack._lock",
}
"""Inside these, any other may be taken: the table allows it in words."""


def test_locks_are_taken_inside_each_other_only_as_the_table_says(running, metrics, monkeypatch):
    pairs, held = set(), threading.local()
    for holder, attribute, lock in list(living()):
        noted = Noted(name_of(holder, attribute), lock, pairs, held)
        if isinstance(holder, dict):
            monkeypatch.setitem(holder, attribute, noted)
        elif not getattr(type(holder), "__slots__", None):
            monkeypatch.setattr(holder, attribute, noted)
    assert ends(observed_work)
    handle = callbacks.add_thread_local_callback(callbacks.RecordFunctionCallback(start=lambda _record: None))
    assert ends(observed_work)
    handle.remove()
    metrics.read()
    allowed = {
        (lock, other) for lock, (_, taken) in table().items() for other in re.findall(r"`([\w.]+:[\w.]+)`", taken)
    }
    assert {pair for pair in pairs if pair[0] not in {None, *OPEN}} - allowed == set()
    assert (None, "base.forks:SWITCHING") in pairs
