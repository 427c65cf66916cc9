# SPDX-License-Identifier: Apache-2.0
"""Several carriers in one thread and one work item; names that are replaced while there is one; carriers that fail."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from types import SimpleNamespace

import pytest
from opentelemetry import trace

from support.child import unmeasured
from support.own_failures import consequences
from torchspan import callbacks
from torchspan.base.context import threads
from torchspan.callbacks import RecordFunctionCallback, record_function

NAMES = [(threading.Thread, "start"), (ThreadPoolExecutor, "submit")]


def bound():
    return [vars(holder)[name] for holder, name in NAMES]


@pytest.fixture(autouse=True)
def _names_are_restored():
    before = bound()
    yield
    callbacks.clear_callbacks()
    for each in threads._CarrierState.carriers:
        threads.remove(each)
    assert bound() == before


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_item(work):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


ROUTES = pytest.mark.parametrize("route", [in_thread, in_item], ids=lambda route: route.__name__)


# --- OpenTelemetry's context and thread-local callbacks ---------------------------------------------------------------


@record_function("step")
def step():
    pass


@pytest.fixture
def seen():
    return []


@pytest.fixture
def listen(seen):
    """Registers a thread-local callback that notes which events it receives; returns its handle."""
    return lambda: callbacks.add_thread_local_callback(RecordFunctionCallback(lambda record: seen.append(record.name)))


@pytest.fixture
def look(seen):
    """`look()` notes the current span, after which the callback notes the event, wherever each arrives."""

    def look():
        seen.append(trace.get_current_span())
        step()

    return look


@ROUTES
def test_both_arrive(route, instrument, tracer, listen, look, seen):
    instrument()
    listen()
    with tracer.start_as_current_span("request") as request:
        route(look)
    assert seen == [request, "step"]


def test_a_worker_that_outlives_its_first_item_has_nothing_of_either(instrument, tracer, listen, look, seen):
    instrument()
    with ThreadPoolExecutor(1) as pool:
        with tracer.start_as_current_span("request"):
            handle = listen()
            pool.submit(look).result()
            callbacks.clear_thread_local_callbacks()
        seen.clear()
        pool.submit(look).result()
        callbacks.remove_callback(handle)
    assert seen == [trace.INVALID_SPAN]


@ROUTES
def test_switching_the_bridge_off_leaves_the_callbacks(route, instrument, tracer, listen, look, seen):
    instrumentor = instrument()
    listen()
    instrumentor.uninstrument()
    with tracer.start_as_current_span("request"):
        route(look)
    assert seen == [trace.INVALID_SPAN, "step"]


@ROUTES
def test_removing_the_callback_leaves_the_context(route, instrument, tracer, listen, look, seen):
    instrument()
    callbacks.remove_callback(listen())
    with tracer.start_as_current_span("request") as request:
        route(look)
    assert seen == [request]


@pytest.mark.parametrize("first", ["the bridge", "the callback"])
def test_names_are_restored_exactly_when_the_last_goes(first, instrument, listen):
    before = bound()
    instrumentor = instrument()
    replaced = bound()
    handle = listen()
    assert bound() == replaced
    steps = [instrumentor.uninstrument, lambda: callbacks.remove_callback(handle)]
    for each in steps if first == "the bridge" else reversed(steps):
        assert bound() == replaced
        each()
    assert [was is now for was, now in zip(before, bound(), strict=True)] == [True] * len(NAMES)


def test_a_callback_added_before_the_bridge_is_enabled_is_carried_as_well(instrument, tracer, listen, look, seen):
    listen()
    instrument()
    with tracer.start_as_current_span("request") as request:
        in_item(look)
    assert seen == [request, "step"]


# --- any carrier ------------------------------------------------------------------------------------------------------


class Label(threads.ContextCarrier):
    """Carries the value of a variable of its own. raising: the methods that fail."""

    outside = ""

    def __init__(self, raising=()):
        super().__init__("Carrying a label failed.")
        self._variable = ContextVar("label", default="")
        self._raising = raising
        self.asked = []

    @property
    def here(self):
        return self._variable.get()

    def put(self, value):
        self._variable.set(value)

    def for_thread(self):
        self._called("for_thread")
        return self.here or None

    def for_item(self):
        self._called("for_item")
        return self.here or None

    def enter(self, value):
        self._called("enter")
        before = self.here
        self.put(value)
        return before

    def leave(self, before):
        self._called("leave")
        self.put(before)

    def _called(self, name):
        self.asked.append(name)
        if name in self._raising:
            raise LookupError(name)


@ROUTES
@pytest.mark.parametrize("method", ["for_thread", "for_item", "enter", "leave"])
def test_a_carrier_that_fails_is_said_once_and_the_others_arrive(method, route, caplog):
    fails, other, seen = Label(raising=[method]), Label(), []
    for each in (fails, other):
        threads.add(each)
        each.put("here")
    for _ in range(2):
        route(lambda: seen.append(other.here))
    assert seen == ["here"] * 2
    assert set(consequences(caplog)) <= {"Carrying a label failed."}
    assert len(caplog.messages) == (method in fails.asked)


def test_what_the_program_raises_passes():
    label, failure = Label(), KeyError("the program's")
    threads.add(label)
    label.put("here")

    def fails():
        raise failure

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(fails).exception() is failure


def test_an_item_changes_nothing_for_the_next_and_submitting_nothing_for_who_submits():
    label, seen = Label(), []
    threads.add(label)
    label.put("here")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(label.put, "changed").result()
        pool.submit(lambda: seen.append(label.here)).result()
    assert (seen, label.here) == (["here"], "here")


@pytest.fixture
def submitted(monkeypatch):
    """The functions that pools are given in the end, below whatever is replaced."""
    original, functions = ThreadPoolExecutor.submit, []

    def submit(pool, function, /, *args):
        functions.append(function)
        return original(pool, function, *args)

    with monkeypatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "submit", submit)
        yield functions
        for each in threads._CarrierState.carriers:
            threads.remove(each)


def test_with_nothing_to_propagate_pools_get_the_very_function_and_threads_nothing(submitted):
    label, work = Label(), lambda: None
    threads.add(label)
    in_item(work)
    assert submitted == [work]
    assert set(label.asked) == {"for_item", "for_thread"}


@pytest.mark.fault("threads", "one of the program's cannot be started")
def test_a_thread_that_cannot_be_started_leaves_nothing(monkeypatch):
    def refuses(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        label = Label()
        threads.add(label)
        label.put("here")
        thread = threading.Thread(target=len)
        attributes = set(vars(thread))
        with pytest.raises(RuntimeError, match="can't start new thread"):
            thread.start()
        assert (set(vars(thread)), label.here) == (attributes, "here")
        threads.remove(label)


def test_a_thread_that_has_begun_has_no_attribute_of_torchspans_and_its_code_set_none():
    class Own(threading.Thread):
        def __setattr__(self, name, value):
            names.append(name)
            super().__setattr__(name, value)

        def run(self):
            seen.append((label.here, "_bootstrap" in vars(self)))

    label, names, seen = Label(), [], []
    threads.add(label)
    label.put("here")
    thread = Own()
    thread.start()
    thread.join()
    assert (seen, "_bootstrap" in names) == ([("here", False)], False)


def test_what_another_package_put_over_a_name_stays_and_torchspans_is_inert(monkeypatch):
    label, seen = Label(), []
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)  # is restored whatever is bound then
    threads.add(label)
    label.put("here")
    torchspans = threading.Thread.start
    theirs = threading.Thread.start = lambda self: torchspans(self)
    threads.remove(label)
    assert threading.Thread.start is theirs
    in_thread(lambda: seen.append(label.here))
    threads.add(label)
    label.asked.clear()
    in_thread(lambda: seen.append(label.here))
    assert label.asked.count("for_thread") == 1
    threads.remove(label)
    assert threading.Thread.start is theirs
    assert seen == ["", "here"]
    monkeypatch.undo()


def test_adding_and_removing_twice_is_as_once():
    before, label, other = bound(), Label(), Label()
    for each in (label, label, other):
        threads.add(each)
    once = bound()
    for _ in range(2):
        threads.remove(label)
        assert bound() == once
    threads.remove(other)
    assert bound() == before


def test_a_pool_of_interpreters_is_left_alone(submitted, monkeypatch):
    class InterpreterPoolExecutor(ThreadPoolExecutor):
        """Stands in for Python 3.14's, which this machine may not have."""

    module = SimpleNamespace(InterpreterPoolExecutor=InterpreterPoolExecutor)
    monkeypatch.setitem(sys.modules, "concurrent.futures.interpreter", module)
    label = Label()
    threads.add(label)
    label.put("here")
    with InterpreterPoolExecutor(1) as pool:
        assert pool.submit(len, "abc").result() == 3
    assert submitted == [len]


# --- processes --------------------------------------------------------------------------------------------------------

LATE = """
import sys
from contextvars import ContextVar
from torchspan.base.context import threads
assert "concurrent.futures.thread" not in sys.modules
{carrier}
for _ in range(3):
    threads.add(label)
    threads.remove(label)
threads.add(label)
from concurrent.futures import ThreadPoolExecutor
VARIABLE.set("here")
with ThreadPoolExecutor(1) as pool:
    print(pool.submit(VARIABLE.get).result())
torchspans = ThreadPoolExecutor.submit
threads.remove(label)
print(ThreadPoolExecutor.submit is torchspans.__wrapped__)
"""

FORKS = """
import os, sys, threading, warnings
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from torchspan.base.context import threads
warnings.simplefilter("ignore")  # that a process with threads is forked is the point
{carrier}
start = threading.Thread.start
def switch():
    while not done:
        threads.add(label)
        threads.remove(label)
done = False
sys.setswitchinterval(1e-6)
thread = threading.Thread(target=switch)
thread.start()
statuses = []
for _ in range(50):
    child = os.fork()
    if not child:
        threads.add(label)
        threads.remove(label)
        os._exit(threading.Thread.start is not start)
    statuses.append(os.waitpid(child, 0)[1])
done = True
thread.join()
print(set(statuses))
"""

CARRIER = """
class Carrier(threads.ContextCarrier):
    outside = ""
    def for_thread(self): return VARIABLE.get() or None
    for_item = for_thread
    def enter(self, value): return VARIABLE.set(value)
    def leave(self, before): VARIABLE.reset(before)
VARIABLE = ContextVar("of_the_carrier", default="")
label = Carrier("")
"""


def printed(program):
    """What a program printed that knows `label`, a carrier."""
    return subprocess.run(
        [sys.executable, "-c", program.replace("{carrier}", CARRIER)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=unmeasured(),
    ).stdout.splitlines()


def test_pools_that_are_imported_later_are_carried_into_and_restored():
    assert printed(LATE) == ["here", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_forked_while_another_thread_switches_can_switch_itself():
    assert printed(FORKS) == ["{0}"]
