# SPDX-License-Identifier: Apache-2.0
"""What torchspan adds to the exit of a program whose collector does not answer.

Each program is started as `opentelemetry-instrument` starts it, works for some seconds, and ends: with a span and a counter of its own,
or with a compilation that torchspan reports while it runs. The time is that from the last line of the program to the end of its
process. The exporters wait for the collector with a back-off that they draw from `random`, so each program seeds that before it
ends. The programs of a row run side by side, since they only wait. The one without torchspan runs twice: what
these two differ by is the noise.
"""

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from table import Row, write

SITE = Path(importlib.util.find_spec("opentelemetry.instrumentation.auto_instrumentation").origin).parent
WORK_S = 2.5
NOISE_S = 1.0
"""Less than one more attempt of an exporter, which waits a second before the second one."""

PROGRAM = """
import random, sys, time
from opentelemetry import metrics, trace
if sys.argv[1] == "with":
    from torchspan.words import settings
    from torchspan import phase
    from torchspan.start.bridge import Bridge
    engine = Bridge(settings.load({}), {}, run=None)._engine
    work = engine.open(phase.COMPILE, {})
    time.sleep(float(sys.argv[2]))
    engine.close(work)
else:
    metrics.get_meter("program").create_counter("work").add(1)
    with trace.get_tracer("program").start_as_current_span("work"):
        time.sleep(float(sys.argv[2]))
random.seed(0)
print("ends", flush=True)
"""


def exit_s(kind, environment):
    """Seconds from the last line of the program to the end of its process."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    path = os.pathsep.join(filter(None, [str(SITE), base.get("PYTHONPATH", "")]))
    switched = (
        {"TORCHSPAN_HEARTBEAT": "0.5"} if kind == "with" else {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "torchspan"}
    )
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, str(WORK_S)],
        env={**base, **environment, **switched, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    line = child.stdout.readline()
    began = time.monotonic()
    status = child.wait()
    child.stdout.close()
    if status or line != b"ends\n":
        raise SystemExit(f"the program ended with status {status}")
    return time.monotonic() - began


@contextmanager
def closed():
    """A port that refuses connections, as long as nothing else takes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    yield port


@contextmanager
def hanging():
    """A port that takes connections and never answers."""
    taken = []

    def take():
        while True:
            try:
                taken.append(server.accept()[0])
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    for each in taken:
        each.close()


def row(signal, protocol, collector):
    """Of one collector: the exits of the three programs."""
    others = {f"OTEL_{each}_EXPORTER": "none" for each in ("TRACES", "METRICS", "LOGS")}
    with collector() as port:
        environment = {
            **others,
            f"OTEL_{signal.upper()}_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_BSP_SCHEDULE_DELAY": "60000",
        }
        with ThreadPoolExecutor() as pool:
            with_, *without = pool.map(lambda kind: exit_s(kind, environment), ("with", "without", "without"))
    noise_s = max(without) - min(without)
    added_s = max(with_ - max(without), min(without) - with_, 0.0)
    return Row(
        f"{signal}, {protocol}, {collector.__name__} (without: {min(without):.1f} and {max(without):.1f} s)",
        f"{with_:.1f} s",
        f"as without, ± {NOISE_S} s",
        None if noise_s > NOISE_S else added_s <= NOISE_S,
    )


def main():
    collectors = (closed, hanging)
    rows = [row("traces", protocol, each) for protocol in ("http/protobuf", "grpc") for each in collectors]
    rows += [row("metrics", "http/protobuf", each) for each in collectors]
    return write("seconds that a program takes to end while its collector is down", rows)


if __name__ == "__main__":
    sys.exit(main())
