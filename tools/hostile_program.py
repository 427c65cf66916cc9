# SPDX-License-Identifier: Apache-2.0
"""`hostile_program.py ENTRY ... --seed N --seconds S`: uses torchspan under a hostile scheduler, and checks it. See hostile_scheduler.py.

Threads do requests: spans of the program's, with observed functions, generators, ranges and callbacks in them. Each entry adds something that
comes at the worst moment. The program notes what it begins and in which span, and compares that with the spans and counts at the end.
Its last line is a JSON object: the problems, and counts. On SIGUSR1 it prints the stacks of all threads.
"""

import argparse
import contextlib
import faulthandler
import gc
import importlib
import itertools
import json
import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from types import SimpleNamespace

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

ENTRIES = {
    "gc": "garbage is collected all the time, also at each allocation: abandoned observed generators, and finalizers that call observed code",
    "signal": "a handler of SIGALRM calls observed code",
    "signal-span": "a handler of SIGALRM calls observed code in a span of its own",
    "fork": "every thread forks, and another one disables callbacks all the time",
    "import": "another thread imports torch while torchspan.operators is looked up, and modules all the time",
    "should_run": "a callback's should_run returns what has no truth value",
    "uninstrument": "another thread calls instrument() and uninstrument() all the time",
    "flaky": "a span processor and an exporter fail now and then",
    "operators": "requests record PyTorch's operators",
    "compile": "another thread compiles with torch.compile",
    "runs": "requests run a compiled function",
}
PLACES = {"torch.compile_frame": {"compile"}, "torch.run_graph": {"compile", "request"}}
"""Spans of torchspan's -> the spans of the program that they may be in."""

WITH_TORCH = {"import", "operators", "compile", "runs"}
THREADS = 3
CHILD_S = 20
"""A forked child that takes longer hangs."""

PARSER = argparse.ArgumentParser()
PARSER.add_argument("entries", nargs="+", choices=ENTRIES)
PARSER.add_argument("--seed", type=int, required=True)
PARSER.add_argument("--seconds", type=float, required=True)
PARSER.add_argument("--without-torchspan", action="store_true")
OPTIONS = PARSER.parse_args()
ON = frozenset(OPTIONS.entries)
IS_TRACED = not OPTIONS.without_torchspan
RANDOM = random.Random(OPTIONS.seed)

if IS_TRACED:
    import torchspan
    from torchspan import callbacks
else:

    def nothing(*_args, **_kwargs):
        return contextlib.nullcontext()

    torchspan = SimpleNamespace(instrument=nothing, uninstrument=nothing, operators=nothing)
    callbacks = SimpleNamespace(
        add_global_callback=nothing, add_thread_local_callback=nothing, record_function=nothing,
        DisableRecordFunctionGuard=nothing, RecordFunction=nothing, RecordFunctionCallback=nothing,
    )  # fmt: skip

# --- what the program notes. To append is one step: finalizers and signal handlers do it, too -------------------------
PROBLEMS, FINISHED, BEGUN, MAY_LACK, STARTS, ENDS, FORKS, SIGNALS = [], [], [], [], [], [], [], []


def failed(where, error):
    """Note an exception that should not have come here."""
    PROBLEMS.append(f"{where}: {''.join(traceback.format_exception(error))}")


sys.unraisablehook = lambda args: failed(f"ignored in {args.object!r}", args.exc_value)
threading.excepthook = lambda args: failed(f"thread {args.thread.name}", args.exc_value)


def begin(name):
    """Note what begins, in which span, and whether that span can have counts."""
    around = trace.get_current_span()
    is_recording = around.is_recording()  # below a span that has ended, torchspan begins a trace
    BEGUN.append((name, around.get_span_context().span_id if is_recording else 0, is_recording))


def observed(function):
    """Note the call, and make it."""
    begin(function.__name__)
    function()


PASSED = {"<lambda>", "collect"}
"""Functions of the program between torchspan and what interrupts it: callbacks, and what starts a collection."""
RUNS_CALLBACKS = "torchspan.engine.subscribers.record_function"


def interrupting(function):
    """The same in a finalizer or a signal handler. One that interrupts callbacks is part of them: neither recorded nor lost."""
    frame = sys._getframe(2)
    while frame is not None and (frame.f_globals is not globals() or frame.f_code.co_name in PASSED):
        if frame.f_globals.get("__name__") == RUNS_CALLBACKS:
            MAY_LACK.append(0)
            break
        frame = frame.f_back
    observed(function)


class Keeping(SpanProcessor):
    """Keeps spans that have ended."""

    def on_end(self, span):
        FINISHED.append(span)


class Counting(IdGenerator):
    """Each id once. The SDK takes them from Python's global generator, whose state Dynamo puts back after a compilation."""

    generate_span_id = itertools.count(1).__next__
    generate_trace_id = itertools.count(1 << 64).__next__


class Flaky(SpanProcessor, SpanExporter):
    """Fails now and then for spans of torchspan's: the program's own would fail without torchspan, too."""

    def on_start(self, span, parent_context=None):  # noqa: ARG002 - the SDK's form
        if is_torchspans(span) and random.random() < 0.05:
            raise OSError("flaky")

    on_end = on_start

    def export(self, spans):  # noqa: ARG002 - as above
        raise OSError("flaky")


def is_torchspans(span):
    return span.instrumentation_scope.name.startswith("torchspan")


# --- start-up ---------------------------------------------------------------------------------------------------------
faulthandler.enable()
faulthandler.register(signal.SIGUSR1)
warnings.simplefilter("ignore")
logging.getLogger().addHandler(logging.NullHandler())
READER = InMemoryMetricReader()
METERS = MeterProvider([READER], shutdown_on_exit=False)
TRACERS = TracerProvider(shutdown_on_exit=False, id_generator=Counting())
TRACERS.add_span_processor(Keeping())
if "flaky" in ON:
    TRACERS.add_span_processor(Flaky())
    TRACERS.add_span_processor(SimpleSpanProcessor(Flaky()))
TRACER = TRACERS.get_tracer("program")


def instrument():
    torchspan.instrument(tracer_provider=TRACERS, meter_provider=METERS, graph_runs=True)


def during_import(name, marker, action):
    """Do it while another thread imports the module, shortly after `marker` is in sys.modules."""
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    while marker not in sys.modules:
        time.sleep(0.0005)
    time.sleep(RANDOM.uniform(0, 0.2))
    action()
    thread.join()


instrument()
if "uninstrument" in ON and IS_TRACED:
    during_import("torchspan.observers", "torchspan.start.bridge", torchspan.uninstrument)
    torchspan.observers.observable(lambda: None)()
    PROBLEMS.extend(f"a span after uninstrument(): {span.name}" for span in FINISHED)
    FINISHED.clear()
    instrument()
if "import" in ON:
    during_import("torch", "torch", lambda: torchspan.operators)
if ON & WITH_TORCH:
    import torch

    ONES = torch.ones(2, 4)
if IS_TRACED:
    from torchspan.observers import observable
else:

    def observable(function):
        return function


# --- the program ------------------------------------------------------------------------------------------------------
def functions(name, make):
    """Observed functions with names of their own: of each one, torchspan makes ten spans a second, and counts further calls."""
    made = []
    for number in range(50):
        function = make()
        function.__name__ = function.__qualname__ = f"{name}{number}"
        made.append(observable(function))
    return made


def returning():
    def function():
        pass

    return function


def yielding():
    def function():
        yield 1

    return function


STEPS, RELEASES, SAVES, CALM = (functions(name, returning) for name in ("step", "release", "save", "calm"))
STREAMS = functions("stream", yielding)[:2]


@observable
def outer():
    observed(random.choice(STEPS))


class Resource:
    """Lies in a circle. Its finalizer calls observed code."""

    def __init__(self):
        self.circle = self

    def __del__(self):
        interrupting(random.choice(RELEASES))


def abandon():
    """Begin an observed generator, and leave it to the garbage collector where that is on."""
    stream = random.choice(STREAMS)
    tokens = stream()
    begin(stream.__name__)
    next(tokens)
    if "gc" in ON:
        circle = [tokens]
        circle.append(circle)
        Resource()
    else:
        tokens.close()


COLLECTS_SAFELY = sys.version_info >= (3, 12)
"""Earlier, a collection may interrupt `ContextVar.set`: a finalizer that sets one then crashes the interpreter, also without torchspan."""


def collect(_frame, kind, _argument):
    """In place of thresholds: a collection at a call, as Python 3.12 makes them between two instructions."""
    if kind == "call" and random.random() < 0.01:
        gc.collect(0)


LOCAL = callbacks.RecordFunctionCallback(start=lambda _record: None)


def in_range():
    with callbacks.record_function("range"):
        observed(random.choice(STEPS))


def with_local_callback():
    with callbacks.add_thread_local_callback(LOCAL):
        observed(random.choice(STEPS))


def without_callbacks():
    with callbacks.DisableRecordFunctionGuard():
        callbacks.RecordFunction()
        observed(outer)


def switch_callbacks(_rng):
    with callbacks.DisableRecordFunctionGuard():
        pass


def run():
    if not torch.equal(COMPILED(ONES), ONES + 1):
        PROBLEMS.append("a compiled function returned something else")


def record_operators():
    with torchspan.operators():
        torch.add(ONES, 1)


def request(rng):
    """What each thread does all the time."""
    actions = [lambda: observed(random.choice(STEPS)), lambda: observed(outer), abandon]
    actions.append(rng.choice([in_range, without_callbacks, without_callbacks, with_local_callback]))
    actions += [action for entry, action in {"operators": record_operators, "runs": run}.items() if entry in ON]
    actions += [fork] if "fork" in ON and rng.random() < 0.1 else []
    if "gc" in ON:
        if COLLECTS_SAFELY:
            gc.set_threshold(rng.choice((1, 10, 50, 700)))
        else:
            sys.setprofile(collect)
        actions += [abandon, in_range, in_range, in_range] * 20
    with TRACER.start_as_current_span("request") as span:
        for action in actions:
            action()
            if (current := trace.get_current_span()) is not span:
                PROBLEMS.append(f"after {action.__name__}, the current span is {current}")
                break


def fork():
    """A child does a request of its own."""
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            faulthandler.dump_traceback_later(CHILD_S, exit=True)
            for notes in (PROBLEMS, FINISHED, BEGUN, MAY_LACK):
                notes.clear()
            with TRACER.start_as_current_span("child"):
                observed(random.choice(STEPS))
            check(is_exact=IS_TRACED and not ON & {"flaky", "uninstrument"})
            print(*PROBLEMS, sep="\n", end="", file=sys.stderr, flush=True)
            status = 3 if PROBLEMS else 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    FORKS.append(status)
    if status:
        PROBLEMS.append(f"a forked child ended with {status}")


def alarm(_number, _frame):
    """The handler of SIGALRM. The main thread asks for the next one when it has returned."""
    if "signal-span" in ON and ("signal" not in ON or len(SIGNALS) % 2):
        with TRACER.start_as_current_span("handler"):
            interrupting(random.choice(SAVES))
    else:
        interrupting(random.choice(SAVES))
    SIGNALS.append(0)


def compile_once(_rng):
    with TRACER.start_as_current_span("compile"):
        compiled = torch.compile(eval("lambda values: values + 1"), backend="eager")
        if not torch.equal(compiled(ONES), ONES + 1):
            PROBLEMS.append("a compiled function returned something else")


def import_once(_rng):
    sys.modules.pop("colorsys", None)
    importlib.import_module("colorsys")


def switch_once(_rng):
    torchspan.uninstrument()
    instrument()


def repeat(action, seed):
    """Do it until the time is over. One exception ends it."""
    rng, armed = random.Random(seed), -1
    is_main = threading.current_thread() is threading.main_thread()
    while time.monotonic() < END_S:
        if is_main and ON & {"signal", "signal-span"} and armed != len(SIGNALS):
            armed = len(SIGNALS)
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 5e-4))
        action(rng)


# --- the checks -------------------------------------------------------------------------------------------------------
def check(*, is_exact, dropped=0, failures=0):
    """Compare spans and counts with what was begun."""
    begun = Counter((name, around) for name, around, _ in BEGUN)
    below = Counter(around for _, around, _ in BEGUN)
    names = {name for name, _ in begun}
    names_of = {span.context.span_id: span.name for span in FINISHED} | {0: "nothing"}
    spans, counted = Counter(), 0
    for span in FINISHED:
        name, around = span.name.rpartition(" ")[2], span.parent.span_id if span.parent else 0
        if span.name in PLACES and names_of.get(around) not in PLACES[span.name]:
            PROBLEMS.append(f"{span.name} in {names_of.get(around, 'a lost span')}")
        if is_torchspans(span) and name in names:
            spans[name, around] += 1
            below[around] -= 1
        counts = span.attributes.get("torchspan.observed.folded.count", 0)
        counted += counts
        below[span.context.span_id] -= counts
    PROBLEMS.extend(
        f"{name}: {count} spans in {names_of.get(around, 'a lost span')}, where {begun[name, around]} were begun"
        for (name, around), count in spans.items()
        if count > begun[name, around]
    )
    PROBLEMS.extend(
        f"{-count} more spans and counts in {names_of.get(around)} than were begun"
        for around, count in below.items()
        if count < 0
    )
    counts = {
        "begun": sum(is_recording for *_, is_recording in BEGUN),
        "spans": sum(count for (_, around), count in spans.items() if around),
        "counted": counted,
        "dropped": dropped,
        "failures": failures,
    }
    found, outside = counts["spans"] + counted + dropped, len(BEGUN) - counts["begun"]
    most = counts["spans"] + counted if ON & WITH_TORCH else found - outside  # compilations are dropped, too
    if is_exact and not most <= counts["begun"] <= found + failures + len(MAY_LACK):
        PROBLEMS.append(
            f"something was lost or is there twice: {counts}, {outside} begun outside, {len(MAY_LACK)} may lack"
        )
    return counts


def metric(name):
    """The sum of a metric now."""
    data = READER.get_metrics_data()
    metrics = [
        metric
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    return sum(point.value for metric in metrics if metric.name == name for point in metric.data.data_points)


def calm():
    """What torchspan does once nothing interrupts it: three calls are three spans or counts, and are heard."""
    heard = len(STARTS)
    with TRACER.start_as_current_span("calm") as around:
        for function in CALM[:3]:
            observed(function)
    spans = sum(
        span.name.startswith("torchspan.observed calm") and span.parent.span_id == around.context.span_id
        for span in FINISHED
    )
    if "flaky" not in ON and spans != 3:
        PROBLEMS.append(f"afterwards, {spans} of 3 calls are spans")
    if len(STARTS) - heard != 3:
        PROBLEMS.append(f"afterwards, a callback hears {len(STARTS) - heard} of 3 calls")


class NoTruthValue:
    def __bool__(self):
        raise ValueError("no truth value")


# --- all of it --------------------------------------------------------------------------------------------------------
def add_callbacks():
    def add(**how):
        callbacks.add_global_callback(callbacks.RecordFunctionCallback(**how))

    add(start=lambda _record: STARTS.append(0), end=lambda _record, _context: ENDS.append(0))
    add(start=lambda _record: None, sampling_prob=0.5)
    if "should_run" in ON:
        add(start=lambda _record: None, should_run=NoTruthValue)


def storm():
    """Everything at once, until the time is over."""
    actions = [request] * THREADS
    others = {"fork": switch_callbacks, "compile": compile_once, "import": import_once, "uninstrument": switch_once}
    actions += [action for entry, action in others.items() if entry in ON]
    threads = [threading.Thread(target=repeat, args=(action, RANDOM.random())) for action in actions]
    gc.freeze()
    if "gc" in ON and not COLLECTS_SAFELY:
        gc.disable()
    interval_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    try:
        repeat(request, RANDOM.random())
    finally:
        for thread in threads:
            thread.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.setswitchinterval(interval_s)
        gc.set_threshold(*thresholds)
        gc.enable()
        sys.setprofile(None)


def main():
    add_callbacks()
    signal.signal(signal.SIGALRM, alarm)
    try:
        storm()
    except Exception as error:
        failed("the main thread", error)
    gc.collect()
    counts = {"forks": len(FORKS), "signals": len(SIGNALS)}
    if IS_TRACED:
        calm()
        dropped, failures = metric("torchspan.span.dropped"), metric("torchspan.callback.failures")
        torchspan.uninstrument()
        counts |= check(is_exact="uninstrument" not in ON, dropped=dropped, failures=failures)
        # The hook that ends a compilation's event may be gone when it ends.
        if not ("uninstrument" in ON and ON & WITH_TORCH) and len(STARTS) != len(ENDS):
            PROBLEMS.append(f"a callback has {len(STARTS)} starts and {len(ENDS)} ends")
        ended = len(FINISHED)
        STEPS[0]()
        PROBLEMS.extend(f"a span after uninstrument(): {span.name}" for span in FINISHED[ended:])
    counts["requests"] = sum(span.name == "request" for span in FINISHED)
    unique = list(dict.fromkeys(PROBLEMS))
    print(json.dumps({"problems": unique[:20], **counts}), flush=True)
    os._exit(int(bool(unique)))


if "runs" in ON:
    COMPILED = torch.compile(lambda values: values + 1, backend="eager")
    with TRACER.start_as_current_span("compile"):
        COMPILED(ONES)
END_S = time.monotonic() + OPTIONS.seconds
main()
