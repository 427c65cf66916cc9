# SPDX-License-Identifier: Apache-2.0
"""Runs the checks one after the other, all of them even when one fails, and says at the end what became of each.

`check.py [name …]`: all, or those named.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import what_is_missing

ROOT = Path(__file__).resolve().parents[1]
PYTHON = (sys.executable, "-m")

CHECKS = {
    "format": [(*PYTHON, "ruff", "format", "--check")],
    "lint": [(*PYTHON, "ruff", "check")],
    "types": [(*PYTHON, "mypy", "--strict", "src")],
    "docs": [
        (sys.executable, "tools/generate_semantic_conventions.py", "--check"),
        (sys.executable, "tools/generate_settings_table.py", "--check"),
    ],
    "tests": [
        (*PYTHON, "coverage", "erase"),
        (*PYTHON, "coverage", "run", "-m", "pytest"),
        (*PYTHON, "coverage", "combine", "--quiet"),
        (*PYTHON, "coverage", "report"),
    ],
}
"""Commands of each check; the first that fails ends it. `tests` runs the README and the examples too."""


def main(names):
    """Run the checks called `names` and return the exit status."""
    unknown = set(names) - set(CHECKS)
    if unknown:
        print(f"check: no such check: {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    # A background job has SIGINT ignored, and so would every program below, which tests send it to.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results = [(name, *_run(name)) for name in names or CHECKS]
    print()
    for name, passed, seconds in results:
        print(f"{'passed' if passed else 'FAILED'}  {name:<7} {seconds:5.0f} s")
    if "tests" in (names or CHECKS):
        what_is_missing.main()
    return int(not all(passed for _, passed, _ in results))


def _run(name):
    """Whether the check passed, and the seconds that it took."""
    start = time.monotonic()
    for command in CHECKS[name]:
        shown = " ".join(("python", *command[1:]) if command[0] == sys.executable else command)
        print(f"\n--- {name}: {shown}", flush=True)
        if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode:
            return False, time.monotonic() - start
    return True, time.monotonic() - start


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
