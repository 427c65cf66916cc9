# SPDX-License-Identifier: Apache-2.0
"""What torchspan adds to the start of a Python that never imports torch.

Python is started by `opentelemetry-instrument`, with a distro of this benchmark's that takes the processor time in which
OpenTelemetry checks torchspan's dependencies, loads its entry point and switches it on. The fastest of many counts. Every module
has been compiled to bytecode before, as those of an installed package have been, whatever the surroundings say of that.

Alongside it the whole starts: processor time with torchspan enabled and, in turns, disabled by
OTEL_PYTHON_DISABLED_INSTRUMENTATIONS. A start takes half a second, so a busy machine hides in it what is looked for: the
difference decides nothing when it does not exceed that between halves of the starts without torchspan.
"""

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

INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))
NO_EXPORT = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
FOLDER = Path(tempfile.mkdtemp(prefix="torchspan-bench-"))
BYTECODE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(FOLDER / "bytecode")}
OFF = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "torchspan"}

DISTRO = """
import time
from opentelemetry.distro import OpenTelemetryDistro
from opentelemetry.instrumentation.dependencies import get_dist_dependency_conflicts

class Timing(OpenTelemetryDistro):
    took_ms = None

    def load_instrumentor(self, entry_point, **kwargs):
        start = time.process_time()
        if entry_point.name == "torchspan":
            get_dist_dependency_conflicts(entry_point.dist)  # what the caller has just done
        super().load_instrumentor(entry_point, **kwargs)
        if entry_point.name == "torchspan":
            Timing.took_ms = (time.process_time() - start) * 1000
"""
TOOK = "import sys, timing_distro; assert 'torch' not in sys.modules; print(timing_distro.Timing.took_ms)"


def install_distro():
    """Variables with which Python finds and uses the distro above."""
    information = FOLDER / "site" / "timing_distro-1.dist-info"
    information.mkdir(parents=True)
    (FOLDER / "site" / "timing_distro.py").write_text(DISTRO)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: timing-distro\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[opentelemetry_distro]\ntiming = timing_distro:Timing\n")
    search = [str(FOLDER / "site"), os.environ.get("PYTHONPATH", "")]
    return {"OTEL_PYTHON_DISTRO": "timing", "PYTHONPATH": os.pathsep.join(filter(None, search))}


def start(program, **environment):
    """What the program printed, and the milliseconds of processor time that starting it took."""
    child = subprocess.Popen(
        [INSTRUMENT, sys.executable, "-c", program],
        env={**os.environ, **NO_EXPORT, **BYTECODE, **environment},
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
    timing = install_distro()
    start("pass")  # fills the cache of files, and that of bytecode
    start(TOOK, **timing)
    checks, off, on = [], [], []
    for _ in range(TURNS):
        checks.append(float(start(TOOK, **timing)[0]))
        off.append(start("pass", **OFF)[1])
        on.append(start("pass")[1])
    whole_ms, noise_ms = min(on) - min(off), noise_of(off, lambda a, b: a - b)
    is_noise = noise_ms > TARGET_MS / 2 and abs(whole_ms) <= noise_ms
    target = f"≤ {TARGET_MS:.0f} ms"
    shutil.rmtree(FOLDER)
    rows = [
        Row("checking, loading and enabling torchspan", f"{min(checks):.1f} ms", target, min(checks) <= TARGET_MS),
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
