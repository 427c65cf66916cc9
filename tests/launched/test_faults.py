# SPDX-License-Identifier: Apache-2.0
"""What may happen to a program that has nothing to do with torchspan: below `run` it is as without it, and no span is missing."""

import json

import pytest

SPAN = """
from opentelemetry import trace
def span(name):
    with trace.get_tracer("app").start_as_current_span(name):
        pass
"""

FAULTS = {
    ("processes", "out of file descriptors"): (
        """
import os, resource
span("before")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = []
try:
    while True:
        files.append(open(os.devnull))
except OSError as error:
    print(error.strerror)
span("without a descriptor")
files.clear()
span("after")
""",
        ["after", "before", "without a descriptor"],
    ),
    ("processes", "/proc cannot be read"): (
        """
import sys
def refuse(event, args):
    if event == "open" and str(args[0]).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", args[0])
sys.addaudithook(refuse)
span("without /proc")
""",
        ["without /proc"],
    ),
    ("processes", "exec replaces the program"): (
        """
import os, sys
span("before")
sys.stdout.flush()
os.execv(sys.executable, [sys.executable, "-c", "print('another program')"])
""",
        ["before"],
    ),
    ("processes", "the environment is cleared"): ("import os\nos.environ.clear()\nspan('after')\n", ["after"]),
    ("threads", "64 begin at once"): (
        """
import threading
barrier = threading.Barrier(64)
def work():
    barrier.wait()
    span("at once")
threads = [threading.Thread(target=work) for _ in range(64)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(threads))
""",
        ["at once"] * 64,
    ),
    ("threads", "a daemon makes spans while the interpreter ends"): (
        """
import threading, time
def forever():
    while True:
        time.sleep(0.001)
        trace.get_tracer("app")
threading.Thread(target=forever, daemon=True).start()
span("before the end")
""",
        ["before the end"],
    ),
    ("clock", "leaps forward by a day"): (
        """
import time
real = time.time_ns
with trace.get_tracer("app").start_as_current_span("outer"):
    time.time_ns = lambda: real() + 86_400_000_000_000
    span("inner")
""",
        ["inner", "outer"],
    ),
    ("clock", "stands still"): (
        "import time\nnow = time.time_ns()\ntime.time_ns = lambda: now\nspan('then')\nspan('now')\n",
        ["now", "then"],
    ),
    ("interpreter", "stdout and stderr are None"): (
        "import sys\nsys.stdout = sys.stderr = None\nspan('silent')\n",
        ["silent"],
    ),
    ("interpreter", "stderr raises"): (
        """
import sys
class Raises:
    def write(self, text):
        raise ValueError("of the program")
    flush = write
sys.stderr = Raises()
span("loud")
sys.stderr = sys.__stderr__
""",
        ["loud"],
    ),
    ("interpreter", "objects are freed at the exit"): (
        """
class Freed:
    def __del__(self):
        span("at the exit")
import atexit
kept = [Freed()]
kept.append(kept)
atexit.register(kept.clear)
""",
        ["at the exit"],
    ),
    ("interpreter", "exit handlers run in their order"): (
        """
import atexit
for number in range(3):
    atexit.register(print, number)
span("once")
""",
        ["once"],
    ),
    ("interpreter", "the stack is at the limit of recursion"): (
        """
import sys
def deeper(left):
    if left:
        return deeper(left - 1)
    try:
        span("deep")
        return "span"
    except RecursionError:
        return "no span"
print({deeper(left) for left in range(sys.getrecursionlimit() - 400, sys.getrecursionlimit() - 300, 20)})
""",
        ["deep"] * 5,
    ),
    ("the SDK", "the program's provider is shut down early"): (
        """
from receiver import *
provider = receiving()
trace.set_tracer_provider(provider)
span("before")
provider.shutdown()
span("after")
print("done")
""",
        ["after", "before"],
    ),
    ("the SDK", "a processor of the program's raises"): (
        """
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
class Raises(SpanProcessor):
    def on_end(self, span):
        raise ValueError("of the program")
provider = TracerProvider()
trace.set_tracer_provider(provider)
span("before")
provider.add_span_processor(Raises())
try:
    span("raises")
except ValueError as error:
    print(error)
""",
        ["before", "raises"],
    ),
    ("the SDK", "a sampler of the program's raises"): (
        """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
class Raises(Sampler):
    def should_sample(self, parent_context, trace_id, name, *args, **kwargs):
        if name == "raises":
            raise ValueError("of the program")
        return ALWAYS_ON.should_sample(parent_context, trace_id, name)
    def get_description(self):
        return "raises"
trace.set_tracer_provider(TracerProvider(sampler=Raises()))
span("before")
try:
    span("raises")
except ValueError as error:
    print(error)
""",
        ["before"],
    ),
    ("libraries", "a module is reloaded"): (
        """
import importlib, concurrent.futures.thread, threading
span("before")
importlib.reload(concurrent.futures.thread)
with concurrent.futures.thread.ThreadPoolExecutor(1) as pool:
    pool.submit(span, "in the new pool").result()
""",
        ["before", "in the new pool"],
    ),
}


def faults(cases):
    return [
        pytest.param(text, filed, id=f"{group}: {what}", marks=pytest.mark.fault(group, what))
        for (group, what), (text, filed) in cases.items()
    ]


def seen(ran):
    """What the program and its user see."""
    return ran.status, ran.out, ran.err


@pytest.mark.parametrize(("text", "filed"), faults(FAULTS))
def test_a_program_is_as_without_run_and_no_span_is_missing(program, text, filed):
    app = program(SPAN + text)
    alone, below = app.alone(), app.below_run()

    assert seen(below) == seen(alone)
    assert [name for name, _ in below.filed] == filed
    assert below.received == alone.received


OPTIONS = {
    "-O": ("-O",),
    "-OO": ("-OO",),
    "-X dev": ("-X", "dev"),
    "-W error": ("-W", "error"),
    "-B": ("-B",),
    "-u": ("-u",),
    "-P": ("-P",),
    "-X tracemalloc": ("-X", "tracemalloc"),
}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(given, id=name, marks=pytest.mark.fault("interpreter", f"python {name}"))
        for name, given in OPTIONS.items()
    ],
)
def test_options_of_python_are_the_programs_below_run_too(program, options):
    app = program(
        f"{SPAN}span('work')\nimport sys\nprint(sys.flags)\nassert False, 'left out by -O'\n", *options, "app.py"
    )
    alone, below = app.alone(), app.below_run()

    assert seen(below) == seen(alone)
    assert [name for name, _ in below.filed] == ["work"]


LIMITS = ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT")


@pytest.mark.fault(
    "the SDK", "limits of 0", lost="attributes, events and links", counted="the dropped counts of each span"
)
def test_with_limits_of_0_spans_are_there_without_what_is_limited(program):
    text = "from torchspan import observers\n@observers.observable()\ndef work():\n    print('done')\nwork()\n"
    app = program(text)
    below = app.below_run(**dict.fromkeys(LIMITS, "0"))

    assert (below.status, below.out, below.err) == (0, "done\n", "")
    assert [name for name, _ in below.filed] == ["torchspan.observed work"]
    (line,) = (app.folder / "run.jsonl").read_text().splitlines()
    (span,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert span["droppedAttributesCount"] > 0


STOPPED = """
import os, signal, subprocess, sys, time
with trace.get_tracer("app").start_as_current_span("stopped"):
    wake = f"import os, signal, time; time.sleep({SECONDS}); os.kill({os.getpid()}, signal.SIGCONT)"
    process = subprocess.Popen([sys.executable, "-c", wake])
    os.kill(os.getpid(), signal.SIGSTOP)
    print(process.wait())
"""


@pytest.mark.slow
@pytest.mark.fault("processes", "SIGSTOP for a minute")
def test_a_program_that_is_stopped_for_a_minute_continues_and_its_span_has_that_time(program):
    app = program(f"{SPAN}SECONDS = 60\n{STOPPED}")
    below = app.below_run()

    assert (below.status, below.out, below.err) == (0, "0\n", "")
    assert [name for name, _ in below.filed] == ["stopped"]
    (line,) = (app.folder / "run.jsonl").read_text().splitlines()
    (span,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) > 59e9
