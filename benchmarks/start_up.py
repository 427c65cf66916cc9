# SPDX-License-Identifier: Apache-2.0
"""What torchspan adds to the start of a Python that never imports torch.

Starts Python as `opentelemetry-instrument` does, but with torchspan switched off; then, in that process, loads torchspan's
entry point and switches it on, as OpenTelemetry would have done, and takes the time. The fastest of many counts. Every module
has been compiled to bytecode before, as those of an installed package have been, whatever the surroundings say of that.

Beside it the whole starts: processor time with torchspan switched on and, in turns, switched off by
OTEL_PYTHON_DISABLED_INSTRUMENTATIONS. A start takes half a second, so a busy machine hides in it what is looked for: the
difference decides nothing when it is no larger than that between halves of the starts without torchspan.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from noise import noise_of
from table import Row, write

TARGET_MS = 10.0
TURNS = 25

SITE = Path(importlib.util.find_spec("opentelemetry.instrumentation.auto_instrumentation").origin).parent
NO_EXPORT = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
BYTECODE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": tempfile.mkdtemp(prefix="torchspan-bench-")}
OFF = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "torchspan"}

SWITCH_ON = """
import sys, time
from importlib.metadata import entry_points
assert "torchspan" not in sys.modules
start = time.perf_counter()
(entry,) = entry_points(group="opentelemetry_instrumentor", name="torchspan")
entry.load()().instrument()
print((time.perf_counter() - start) * 1000)
assert "torch" not in sys.modules
"""


def start(program, **environment):
    """What the program printed, and the milliseconds of processor time that starting it took."""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, **NO_EXPORT, **BYTECODE, "PYTHONPATH": str(SITE), **environment},
        stdout=subprocess.PIPE,
    )
    printed = child.stdout.read()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"Python ended with status {child.returncode}")
    return printed, (usage.ru_utime + usage.ru_stime) * 1000


def main():
    start("pass")  # fills the cache of files, and that of bytecode
    start(SWITCH_ON, **OFF)
    ours, off, on = [], [], []
    for _ in range(TURNS):
        printed, _ = start(SWITCH_ON, **OFF)
        ours.append(float(printed))
        off.append(start("pass", **OFF)[1])
        on.append(start("pass")[1])
    whole_ms, noise_ms = min(on) - min(off), noise_of(off, lambda a, b: a - b)
    is_noise = noise_ms > TARGET_MS / 2 and abs(whole_ms) <= noise_ms
    target = f"≤ {TARGET_MS:.0f} ms"
    shutil.rmtree(BYTECODE["PYTHONPYCACHEPREFIX"])
    rows = [
        Row("loading torchspan and switching it on", f"{min(ours):.1f} ms", target, min(ours) <= TARGET_MS),
        Row(
            f"whole start with / without (noise {noise_ms:.1f} ms)",
            f"{whole_ms:+.1f} ms",
            target,
            None if is_noise else whole_ms <= TARGET_MS,
        ),
    ]
    return write(f"Start of an instrumented Python without torch ({min(off):.0f} ms without us)", rows)


if __name__ == "__main__":
    raise SystemExit(main())
