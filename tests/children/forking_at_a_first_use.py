# SPDX-License-Identifier: Apache-2.0
"""A program in which one thread does something for the first time, and the main thread forks a child that does the same meanwhile.

Its argument: what they do, a key of `CASES`. Prints the child's exit status.
"""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

from opentelemetry.sdk.trace import TracerProvider

import torchspan
from torchspan.base import forks
from torchspan.base.imports import AroundImport

begun, may_end = threading.Event(), threading.Event()
tracer = TracerProvider().get_tracer("program")


def pause():
    if not begun.is_set():
        begun.set()
        may_end.wait(60)


@contextlib.contextmanager
def paused():
    """The first import of a module takes until a fork waits for it, or has not waited for it."""
    pause()
    yield


def start_a_program():
    with tracer.start_as_current_span("request"):
        subprocess.run([sys.executable, "-S", "-c", ""], check=True)


def fail_in_a_callback():
    from torchspan import callbacks

    handle = callbacks.add_thread_local_callback(callbacks.RecordFunctionCallback(lambda _event: 1 / 0))
    with callbacks.record_function("work"):
        handle.remove()


def batch():
    with torchspan.batch([]):
        pass


def start_a_process():
    with tracer.start_as_current_span("request"):
        process = multiprocessing.get_context("fork").Process(target=time.time)
        process.start()
    process.join()


def slow_file(name, original=os.memfd_create):
    """The first file in memory that torchspan makes, which shows processes whether a span is over."""
    pause()
    return original(name)


CASES = {
    "program": ("torchspan.hooks.propagation._environment", start_a_program),
    "program below run": ("torchspan.hooks.propagation._environment", start_a_program),
    "callback": ("torchspan.base.source_places", fail_in_a_callback),
    "batch": ("torchspan.hooks.batching", batch),
    "batch's engine": ("torchspan.engine", batch),
    "process": ("", start_a_process),
}


def poll(seconds):
    may_end.set()
    time.sleep(seconds)


os.environ.pop("TORCHSPAN_WITHOUT_GPU", None)  # the stand-in would import some of the modules
torchspan.instrument()
module, work = CASES[sys.argv[1]]
AroundImport({module: paused}).install()
os.memfd_create = slow_file
forks.time = SimpleNamespace(monotonic=time.monotonic, sleep=poll)
first = threading.Thread(target=work)
first.start()
assert begun.wait(60)
pid = os.fork()
if pid == 0:
    work()
    os._exit(0)
may_end.set()
deadline = time.monotonic() + 30
while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
    time.sleep(0.05)
if ended[0] == 0:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    sys.exit("the child hangs")
first.join()
print(os.waitstatus_to_exitcode(ended[1]))
