# SPDX-License-Identifier: Apache-2.0
"""Runs the checks one after the other, all of them even when one fails, and says at the end what happened to each.

`check.py [--all] [--build-backends] [name …]`: all checks, or those named. Without `--all` the tests marked `slow` are left
out, and coverage is not measured. With `--build-backends` the programs that tests run are built alongside the checks.
"""

import argparse
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import contract
import suite_run
import suite_times
import what_is_missing

ROOT = Path(__file__).resolve().parents[1]
PYTHON = (sys.executable, "-m")
MEMORY_OF_A_WORKER = 1_200_000_000
"""Bytes that a process of the tests takes at most, without its children."""

LONGEST_S = {False: 600, True: 1500}
"""Seconds that the tests may take on two idle cores, without and with the slow ones. A later change that needs more raises them."""

NAMES = ("format", "lint", "types", "docs", "tests", "contract")
"""The checks, in their order. `tests` runs the README and the examples too; `contract` looks at what `tests` left."""


def commands(name, *, everything):
    """Commands of a check; the first that fails ends it."""
    pytest = ("pytest", "-n", str(workers()), "--dist", "loadfile", "--no-loadscope-reorder")
    return {
        "format": [(*PYTHON, "ruff", "format", "--check")],
        "lint": [(*PYTHON, "ruff", "check"), (sys.executable, "tools/size.py", "--check")],
        "types": [(*PYTHON, "mypy", "--strict", "src")],
        "docs": [(sys.executable, "tools/generate.py", "--check")],
        "tests": [
            (*PYTHON, "coverage", "erase"),
            (*PYTHON, "coverage", "run", "-m", *pytest),
            (*PYTHON, "coverage", "combine", "--quiet"),
            (*PYTHON, "coverage", "report"),
        ]
        if everything
        else [(*PYTHON, *pytest, "-m", "not slow")],
        "contract": [(sys.executable, "tools/contract.py")],
    }[name]


def workers():
    """How many processes run tests: one a core, fewer where memory would not do, 0 for none but pytest's own."""
    by_memory = available_memory() // MEMORY_OF_A_WORKER
    count = min(os.cpu_count() or 1, by_memory)
    return count if count > 1 else 0


def available_memory():
    """Bytes that new processes can have."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def main(arguments):
    """Run the checks that are asked for and return the exit status."""
    parser = argparse.ArgumentParser(prog="check", description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="slow tests too, and coverage with its lower bound")
    parser.add_argument(
        "--build-backends", action="store_true", help="build the programs that tests run, where not there"
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NAMES))
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(NAMES)
    if unknown:
        print(f"check: no such check: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    # A background job has SIGINT ignored, and so would every program below, which tests send it to.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = options.names or NAMES
    with ExitStack() as at_the_end:
        building = at_the_end.enter_context(_Building()) if options.build_backends else None
        results = [(name, *_run(name, everything=options.all)) for name in names]
        if building:
            results.append(("backends", *building.outcome()))
    if "tests" in names:
        suite_times.main()
    print()
    for name, outcome, seconds in results:
        print(f"{outcome:<6}  {name:<8} {seconds:5.0f} s{_too_long(name, seconds, everything=options.all)}")
    if "tests" in names:
        what_is_missing.main()
    return int(any(outcome == "FAILED" for _, outcome, _ in results))


def _too_long(name, seconds, *, everything):
    """What is said of tests that took longer than they may."""
    longest = LONGEST_S[everything]
    return f", longer than the {longest} s that they may take" if name == "tests" and seconds > longest else ""


def _run(name, *, everything):
    """What happened to the check (passed, partly, FAILED), and the seconds that it took."""
    start = time.monotonic()
    environment = dict(os.environ)
    if name == "tests":
        contract.REPORT.unlink(missing_ok=True)
        environment["TEST_RUN_LOG"] = str(suite_run.emptied())
    for command in commands(name, everything=everything):
        shown = " ".join(("python", *command[1:]) if command[0] == sys.executable else command)
        print(f"\n--- {name}: {shown}", flush=True)
        status = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment, check=False).returncode
        if status:
            outcome = "partly" if name == "contract" and status == contract.ONLY_A_PART else "FAILED"
            return outcome, time.monotonic() - start
    return "passed", time.monotonic() - start


class _Building:
    """Builds the programs that tests run, alongside the checks: tests that need none do not wait for it.

    Tests wait for a program for as long as a file is locked, which the build holds open: it is free however the build ends.
    """

    LOCK = ROOT / ".reports" / "backends.lock"

    def __enter__(self):
        self.LOCK.parent.mkdir(exist_ok=True)
        os.environ["TEST_BACKENDS_LOCK"] = str(self.LOCK)
        self._begun = time.monotonic()
        with self.LOCK.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Tests come first: they have limits, and there are enough that need no program.
            command = ("nice", "-n", "10", sys.executable, "tools/backends.py")
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[file.fileno()], start_new_session=True
            )
        # The checks continue after its end, which would otherwise be seen at theirs.
        self._waiting = threading.Thread(target=self._wait, daemon=True)
        self._waiting.start()
        return self

    def _wait(self):
        self._process.wait()
        self._ended = time.monotonic()

    def outcome(self):
        """Wait for its end. Returns passed or FAILED, and the seconds that it took."""
        self._waiting.join()
        return "FAILED" if self._process.returncode else "passed", self._ended - self._begun

    def __exit__(self, *_):
        if self._waiting.is_alive():
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._process.pid, signal.SIGTERM)
            self._waiting.join()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
