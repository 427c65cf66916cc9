# SPDX-License-Identifier: Apache-2.0
"""Names the programs that tests ran, what this machine lacks, and what was therefore not checked. Prints plain lines."""

import ctypes
import importlib.util
import subprocess
import sys
from pathlib import Path

import versions_tested
from suite_run import SuiteRun

VERSIONS = ("2.13", "2.12", "2.11")
NEWEST_PYTHON = 14
ROOT = Path(__file__).resolve().parents[1]
ROUTES = ROOT / ".reports" / "routes.md"
"""What the check `contract` writes: which hooks fired, and which cells this machine cannot show."""
NOT_HERE = "not here: needs "


def has_gpu():
    """Whether the CUDA driver is there and finds a GPU. Asks the driver, not torch: this must stay quick."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def has_python(version):
    """Whether `python3.x` starts; a name on the path may be a version manager's, without that version behind it."""
    try:
        return subprocess.run([f"python{version}", "-c", ""], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def missing():
    """One sentence for each thing that is not here."""
    if not has_gpu():
        yield (
            "No GPU: engines were built for real, but run by a stand-in on the CPU. Not checked: durations on a GPU, the "
            "C++ runtime, CUDA graphs."
        )
    if importlib.util.find_spec("tensorrt") is None:
        yield (
            "No TensorRT (only TensorRT-RTX): the wheel torch-tensorrt ran over TensorRT-RTX's libraries. Not checked: "
            "TensorRT's own builder, its timing cache and its progress phases."
        )
    yield from routes()
    not_here = [version for version in VERSIONS if not (ROOT / ".venvs" / version).exists()]
    yield (
        f"Torch-TensorRT {', '.join(VERSIONS)}: not part of this run; `make test-versions` checks them"
        + (" and installs them first." if not_here else " (installed).")
    )
    yield from (f"{sentence}." for sentence in versions_tested.not_tested(versions_tested.versions(sys.executable)))
    others = [f"3.{minor}" for minor in range(10, NEWEST_PYTHON + 1) if minor != sys.version_info.minor]
    found = [version for version in others if has_python(version)]
    yield (
        f"Python {', '.join(others)}: not part of this run, which was Python 3.{sys.version_info.minor}"
        + (f"; {', '.join(found)} can be tried here: make test-versions ONLY=py{found[0]}." if found else ".")
    )


def routes():
    """The cells of the reachability table that need more than is here, by what they need."""
    if not ROUTES.is_file():
        yield "Routes: not all of them ran, so it is not known which hooks fired."
        return
    rows = [line.strip("| ").split(" | ") for line in ROUTES.read_text(encoding="utf-8").splitlines()]
    needs = {}
    for row in rows:
        if row[-1].startswith(NOT_HERE):
            needs.setdefault(row[-1].removeprefix(NOT_HERE), []).append(f"{row[0]} ({row[1]})")
    for need, cells in needs.items():
        yield f"Routes, with the hook that did not fire: {', '.join(cells)}. Needed: {need}."


def tests(run):
    """Lines: each test that did not run, below what kept it from running."""
    if run.deselected:
        yield f"Tests that were left out ({len(run.deselected)}); `make test ALL=1` runs them:"
        yield from (f"  {test}" for test in run.deselected)
    skipped = {}
    for row in run["skipped"]:
        skipped.setdefault(row["reason"], set()).add(row["test"])
    for reason, names in skipped.items():
        yield f"Tests that were skipped ({len(names)}): {reason}"
        yield from (f"  {test}" for test in sorted(names))


def programs(run):
    """Lines: the programs of `tools/backends.py` that tests ran, and where each came from."""
    used = sorted({(row["name"], row["used"]) for row in run["program"]})
    yield from (f"{name}: {where}" for name, where in used)


def main():
    """Print them."""
    run = SuiteRun.read()
    if run["program"]:
        print("\nPrograms that tests ran:")
        for line in programs(run):
            print(f"- {line}")
    print("\nNot checked on this machine:")
    for sentence in missing():
        print(f"- {sentence}")
    for line in tests(run):
        print(line if line.startswith(" ") else f"- {line}")


if __name__ == "__main__":
    main()
