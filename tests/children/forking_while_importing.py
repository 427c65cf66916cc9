# SPDX-License-Identifier: Apache-2.0
"""A program in which one thread makes the first span, and the main thread forks while that thread imports the SDK.

Its arguments: the seconds that the import of one of the SDK's modules takes, and how much faster the clock of a fork that waits
runs. Prints the child's exit status.
"""

import importlib.abc
import os
import sys
import threading
import time
from types import SimpleNamespace

from opentelemetry import trace

from torchspan.base import forks

importing = threading.Event()


class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "opentelemetry.sdk.trace.export" and not importing.is_set():
            importing.set()
            time.sleep(float(sys.argv[1]))


def work():
    trace.get_tracer("app").start_span("work").end()


speed = float(sys.argv[2])
forks.time = SimpleNamespace(monotonic=lambda: speed * time.monotonic(), sleep=time.sleep)
sys.meta_path.insert(0, Slow())
first = threading.Thread(target=work)
first.start()
assert importing.wait(60)
pid = os.fork()
if pid == 0:
    work()
    sys.exit(0)
deadline = time.monotonic() + 60
while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
    time.sleep(0.05)
if ended[0] == 0:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    sys.exit("the child hangs")
first.join()
print(os.waitstatus_to_exitcode(ended[1]))
