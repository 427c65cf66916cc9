# SPDX-License-Identifier: Apache-2.0
"""`program.py [SCRIPT[=TRIES] ...]`: runs scripts with torchspan's calls failing, one call in each try. A program of its own.

Each script has a forked process, in which it runs without torchspan first, and each try is a fork of that process. For each script the
output has a line with a JSON object: the number of calls and of tries, and what was different, by function, error and kind.
"""

import argparse
import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import failing_calls
from support.failing_calls import CALLS, LOCKS, SWALLOWED
from support.patched import bound_names

failing_calls.install()

from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402 - torchspan is imported after `install`
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

import torchspan  # noqa: E402
from failing.scripts import CONTROLS, SCRIPTS  # noqa: E402
from torchspan.engine import RUNNING  # noqa: E402


class BaseError(BaseException):
    """Neither an `Exception` nor an interrupt."""


ERRORS = {
    "MemoryError": (lambda: MemoryError("planted"), 1),
    "KeyboardInterrupt": (lambda: signal.SIGINT, 1),
    "ValueError": (lambda: ValueError("planted"), 10),
    "RecursionError": (lambda: RecursionError("planted"), 10),
    "BaseError": (lambda: BaseError("planted"), 10),
}
"""What a call raises: how that is made, and that it is tried at one call in so many. A signal is one of the system's."""

OF_THE_PROGRAM = {"KeyboardInterrupt": repr(KeyboardInterrupt()), "BaseError": repr(BaseError("planted"))}
"""Those that the program gets, as it sees them."""

SAMPLES = dict.fromkeys(("compiles", "tensorrt_compiles", "tensorrt_backends"), 300)
"""Tries of a script that takes a second or more, unless an argument says how many."""

TRY_S = 120
"""A try that takes longer hangs, and has failed."""

OWN_WARNING = re.compile(
    "The traceback is logged at |^torchspan: .*(is|are) (lost|missing|left out)|torchspan's sampler could not decide"
)
"""In each warning of torchspan's that something has failed."""

WITHOUT_METRICS = re.compile("torchspan could not be enabled|torchspan failed to instrument")
"""In the warnings of failures after which no part of torchspan has metrics."""

NAMES_EVERY = 20
"""The names that others bind are compared after one try in so many: there are 200,000."""

LARGE_PAGE, MADV_COLLAPSE = 2 << 20, 25
"""Bytes of a large page, and what asks Linux for it (linux/mman.h, since 6.1)."""


class Telemetry:
    """Providers in memory."""

    def __init__(self):
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._operators = InMemorySpanExporter()
        self._files, self._read = [], Counter()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def add(self, operators, files):
        """Spans of operators that an exporter in memory has, and those in files, are in `tree`, too."""
        self._operators, self._files = operators, files

    def has(self, name):
        """Whether a span of this name has ended since the last call of `tree`."""
        return any(span.name == name for span in self._spans.get_finished_spans())

    def tree(self):
        """Each span since the last call as [name, parent's name], sorted; without phases, which are spans from 1 ms on.

        Spans of operators and those in a file have the exporter, or the name of the file, in place of a parent.
        """
        spans, operators = self._spans.get_finished_spans(), self._operators.get_finished_spans()
        self._spans.clear()
        self._operators.clear()
        names = {span.context.span_id: span.name for span in spans}
        return sorted(
            [
                *(
                    [span.name, names.get(span.parent.span_id, "?") if span.parent else ""]
                    for span in spans
                    if not span.name.startswith("torch.compile_phase")
                ),
                *([span.name, "an exporter of operators"] for span in operators),
                *([name, path.name] for path in self._files for name in self._written(path)),
            ]
        )

    def _written(self, path):
        """The names of the spans that were added to the file since the last call."""
        with path.open(encoding="utf-8") as file:
            file.seek(self._read[path])
            text = file.read()
            self._read[path] = file.tell()
        for line in text.splitlines():
            for of_resource in json.loads(line)["resourceSpans"]:
                for of_scope in of_resource["scopeSpans"]:
                    yield from (span["name"] for span in of_scope["spans"])

    def failures(self):
        """How many failures of its own torchspan has counted."""
        data = self._reader.get_metrics_data()
        return sum(
            point.value
            for of_resource in (data.resource_metrics if data else ())
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
            if metric.name == "torchspan.callback.failures"
            for point in metric.data.data_points
        )


@contextlib.contextmanager
def redirected():
    """Standard output and error, as the system has them. Yields the file that gets both."""
    with open(os.memfd_create("printed"), "w+b", buffering=0) as printed:
        saved = [os.dup(number) for number in (1, 2)]
        for number in (1, 2):
            os.dup2(printed.fileno(), number)
        try:
            yield printed
        finally:
            for number, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, number)
                os.close(copy)


def outcome(function):
    """What a caller of `function` sees, and what is printed."""
    with redirected() as printed:
        try:
            result = ["returned", repr(function())]
        except BaseException as error:
            result = [
                "raised",
                repr(error),
                repr(error.__context__),
                repr(error.__cause__),
                getattr(error, "__notes__", []),
            ]
        sys.stdout.flush()
        sys.stderr.flush()
        printed.seek(0)
        return {"result": result, "printed": printed.read().decode()}


def state():
    """What a script leaves as it was: open descriptors, and threads."""
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": [thread.name for thread in threading.enumerate()],
    }


def use_large_pages():
    """Put the memory of this process into large pages, where Linux can: a fork copies the tables of pages, and takes half as long."""
    madvise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
        addresses, access, _, _, inode, *_ = line.split()
        begin, end = (int(address, 16) for address in addresses.split("-"))
        if access == "rw-p" and inode == "0":
            for address in range(-(-begin // LARGE_PAGE) * LARGE_PAGE, end - LARGE_PAGE + 1, LARGE_PAGE):
                madvise(ctypes.c_void_p(address), ctypes.c_size_t(LARGE_PAGE), MADV_COLLAPSE)


def in_child(function):
    """What `function()` returns in a forked child. What it raises is a RuntimeError with its traceback."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            answer = {"answer": function()}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    answer = json.loads(text) if text else {"error": f"the child ended with status {status}"}
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["answer"]


class Tries:
    """The tries of one script. script: made once, and run many times."""

    def __init__(self, name):
        self.telemetry = Telemetry()
        self.instrumentor = torchspan.TorchspanInstrumentor()
        self.has_torchspan = False
        self.options = {"heartbeat": "0"}
        self.script = (SCRIPTS | CONTROLS)[name](self)
        self.warnings = 2 if name == "forks" else 1
        """One in each process."""
        self.logs_failures = name in ("instrumenting", "exports")
        """The log has failures of plug-ins of the SDK, and of events that end after the metrics of their engine are closed."""
        self._run()  # imports and caches of libraries
        self.plain = in_child(self._plain)
        self.names = bound_names()
        self.has_torchspan = True
        self.instrument()
        with torchspan.operators():  # once in a process, it prints that its library is not built
            pass
        for _ in range(3):
            self._run()
        self.telemetry.tree()
        gc.collect()
        gc.freeze()
        use_large_pages()
        self.whole = in_child(lambda: self._tried(0, None, compares_names=True))
        self.calls = in_child(self._counted)

    def instrument(self):
        self.instrumentor.instrument(
            tracer_provider=self.telemetry.tracers, meter_provider=self.telemetry.meters, **self.options
        )

    def tracer(self):
        """The program's own tracer, which it has with and without torchspan."""
        return self.telemetry.tracers.get_tracer("program")

    def differences(self, number, name):
        """Kinds of what is different, and the try itself, after call `number` has raised the error of that name."""
        make, _ = ERRORS[name]
        tried = in_child(lambda: self._tried(number, make(), compares_names=number % NAMES_EVERY == 0))
        plain, whole, is_programs = self.plain, self.whole, name in OF_THE_PROGRAM
        passes = is_programs and tried["result"][:2] == ["raised", OF_THE_PROGRAM[name]]
        is_ignored = is_programs and (tried["is_in_thread"] or is_swallowed(tried["stack"]))
        is_answer = name == "ValueError" and refuses_a_setting(tried["result"])
        kinds = {
            "result": not passes and not is_answer and tried["result"] != plain["result"],
            "printed": not passes and not is_ignored and prints_more(tried["printed"], whole["printed"], self.warnings),
            "descriptors": not plain["descriptors"] <= tried["descriptors"] <= whole["descriptors"],
            "threads": not set(tried["threads"]) <= {*plain["threads"], *whole["threads"]},
            "an open event": tried["is_open"],
            "busy": tried["is_busy"],
            "a held lock": bool(tried["locks"]),
            "not counted": not (is_programs or is_answer or tried["tree"] == whole["tree"] or self._is_counted(tried)),
            "a later result": tried["later"]["result"] != plain["result"],
            "a later tree": distinct(tried["later_tree"]) != distinct(whole["later_tree"]),
            "a name": bool(tried["names"]),
        }
        return [kind for kind, differs in kinds.items() if differs], tried

    def _is_counted(self, tried):
        """Whether the metric has the failure; the log, where torchspan has no metrics or has closed them."""
        text = OWN_WARNING if self.logs_failures else WITHOUT_METRICS
        return tried["failures"] > 0 or text.search(tried["printed"]) is not None

    def _run(self):
        with contextlib.suppress(Exception):
            self.script()

    def _plain(self):
        self._run()
        before = state()
        return outcome(self.script) | since(before)

    def _counted(self):
        CALLS.count()
        self._run()
        CALLS.stop()
        return CALLS.places

    def _tried(self, number, error, *, compares_names):
        faulthandler.dump_traceback_later(TRY_S, exit=True)
        self.telemetry.tree()  # of tries before, where it is in a file
        before = state()
        CALLS.fail(number, error)
        try:
            tried = outcome(self.script)
        finally:
            CALLS.stop()
        tried |= since(before)
        engine = RUNNING.engine
        tried |= {
            "is_open": engine is not None and engine.innermost_open() is not None,
            "is_busy": engine is not None and bool(engine.registry.busy.now),
            "locks": LOCKS.held(),
            "tree": self.telemetry.tree(),
            "failures": self.telemetry.failures(),
        }
        tried["stack"], tried["is_in_thread"] = CALLS.stack, CALLS.is_in_thread
        tried["later"] = outcome(self.script)
        tried["later_tree"] = self.telemetry.tree()
        tried["names"] = self._changed_names() if compares_names else []
        return tried

    def _changed_names(self):
        """The names that are bound to something else once torchspan is uninstrumented."""
        torchspan.uninstrument()
        now = bound_names()
        return sorted(".".join(name) for name, value in self.names.items() if now.get(name, value) != value)


def distinct(tree):
    """Without how often: the first run of an engine may come later."""
    return {tuple(span) for span in tree}


def since(before):
    """What is open now that was not before. A thread of the program's that is about to end may do so."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and any(map(is_ending, threading.enumerate()[1:])):
        time.sleep(0.005)
    now = state()
    return {
        "descriptors": now["descriptors"] - before["descriptors"],
        "threads": [name for name in now["threads"] if name not in before["threads"]],
    }


def is_ending(thread):
    """Whether it ends by itself: a thread of the program's, or one that exports for `torchspan.flush`."""
    return not thread.daemon or thread.name == "torchspan flush"


def is_swallowed(stack):
    """Whether the caller of a function of this stack prints and ignores what it raises, also an interrupt."""
    functions = {
        (f"torchspan.{module}", name.rpartition(".")[2]) for module, names in SWALLOWED.items() for name in names
    }
    return any((frame.partition(":")[0], frame.rpartition(" ")[2]) in functions for frame in stack)


def refuses_a_setting(result):
    """Whether `instrument` refused a setting because of the error: a parser answers with a ValueError."""
    return result[0] == "raised" and "ConfigurationError" in result[1] and result[2] == repr(ValueError("planted"))


def prints_more(printed, usual, warnings):
    """Whether more was printed than usual and so many warnings of torchspan's, or something was not."""
    lines, usually = Counter(printed.splitlines()), Counter(usual.splitlines())
    more = list((lines - usually).elements())
    return bool(usually - lines) or len(more) > warnings or not all(map(OWN_WARNING.search, more))


def chosen(places, sample, options):
    """(number of the call, name of the error) of each try: at most `sample`. A sample has a call of each function before it has a second one."""
    rng = random.Random(options.seed)
    tries = [
        (number, name)
        for name, (_, one_in) in ERRORS.items()
        for number in range(1, len(places) + 1)
        if one_in == 1 or rng.randrange(one_in) == 0
    ]
    if sample is not None and len(tries) > sample:
        rng.shuffle(tries)
        before = Counter()
        turns = []
        for number, _ in tries:
            turns.append(before[places[number - 1]])
            before[places[number - 1]] += 1
        order = sorted(range(len(tries)), key=turns.__getitem__)
        tries = [tries[index] for index in order[:sample]]
    part, parts = map(int, options.part.split("/"))
    return tries[part - 1 :: parts]


def tried(name, sample, options):
    """The report on one script. sample: see `chosen`."""
    tries = Tries(name)
    different = Counter()
    pairs = chosen(tries.calls, sample, options)
    for number, error in pairs:
        try:
            kinds, seen = tries.differences(number, error)
        except RuntimeError as failure:
            kinds, seen = [f"the try failed: {str(failure).strip().splitlines()[-1]}"], {}
        for kind in kinds:
            different[tries.calls[number - 1], error, kind] += 1
        if kinds and options.show:
            print(tries.calls[number - 1], error, kinds, json.dumps(seen), file=sys.stderr)
    rows = [[*key, count] for key, count in different.most_common()]
    return {"script": name, "calls": len(tries.calls), "tries": len(pairs), "different": rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT[=TRIES]", help="with at most so many tries; default: all")
    parser.add_argument("--without", metavar="SCRIPT", help="all but this one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", metavar="I/N", help="each Nth try, from the Ith on")
    parser.add_argument("--show", action="store_true", help="print what was seen where something is different")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of names that are read to be compared
    with tempfile.TemporaryDirectory() as tempfile.tempdir:
        for script in options.scripts or [name for name in SCRIPTS if name != options.without]:
            name, _, tries = script.partition("=")
            sample = int(tries) if tries else SAMPLES.get(name)
            print(json.dumps(in_child(lambda: tried(name, sample, options))), flush=True)  # noqa: B023 - it is called here
    os._exit(0)  # at the end of the interpreter, nothing could call the first statement of torchspan's functions


if __name__ == "__main__":
    main()
