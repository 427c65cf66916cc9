# SPDX-License-Identifier: Apache-2.0
"""Runs the tests on Torch-TensorRT's versions, on other Pythons and on the oldest OpenTelemetry; prints and records the results.

`test_versions.py [--again] [row …] [tests/…]`: all rows, or those named. A row that was run on what is checked out is not run again,
unless it is named or with `--again`: a command that was stopped continues with the row that was running. Rows run all
tests that do not have the mark `once`. The first row runs in this environment. Each other row has one of its own in .venvs,
made when it is missing yet and kept; uv must be on the path or in .venv.

The result of a row is recorded in tools/versions_tested.json with the commit. It is printed alone where src, tests or
pyproject.toml have changes that are not committed, and where files and folders of tests are named (`2.13 tests/dynamo`).
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import check
import contract
import suite_run
import versions_tested
from tests_by_row import WITHOUT_TORCH

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / ".bench"
SOURCES = ("src", "tests", "pyproject.toml")
"""What decides the result of a row, in addition to the installed versions."""


@dataclass(frozen=True)
class Row:
    """name: also of the environment. packages: installed with the project; none: it runs in this environment.

    without: a package of the extras that is left out. tests: what pytest is given.
    """

    name: str
    what: str
    packages: tuple[str, ...]
    python: str = f"3.{sys.version_info.minor}"
    extras: str = "demo,dev"
    without: str = ""
    tests: tuple[str, ...] = ("tests",)


def oldest(*names):
    """The oldest version of each package that pyproject.toml allows, as `name==version`; the last bound named counts."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    bounds = dict(re.findall(r'"([\w-]+)>=([\w.]+)', text))
    return tuple(f"{name}=={bounds[name]}" for name in names)


CORE = oldest("opentelemetry-api", "opentelemetry-instrumentation", "opentelemetry-semantic-conventions", "wrapt")
EXTRAS = oldest(
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp",
    "opentelemetry-exporter-otlp-json-common",
    "opentelemetry-distro",
)
RTX = "torch-tensorrt-rtx==2.14.*"
ROWS = (
    Row("2.14", "Torch-TensorRT 2.14", ()),
    Row("2.13", "Torch-TensorRT 2.13", ("torch-tensorrt-rtx==2.13.0",)),
    Row("2.12", "Torch-TensorRT 2.12", ("torch-tensorrt-rtx==2.12.1",)),
    # It names no upper bound for TensorRT-RTX and cannot be imported with 1.7.
    Row("2.11", "Torch-TensorRT 2.11", ("torch-tensorrt-rtx==2.11.0", "tensorrt_rtx==1.4.0.76")),
    *(
        Row(f"py{python}", f"Torch-TensorRT 2.14, Python {python}", (RTX,), python)
        for python in ("3.10", "3.12", "3.13", "3.14")
    ),
    # Released less often than the SDK, and needs the instrumentation package of its own version.
    Row("otel-newest", "newest OpenTelemetry", (RTX,), without="opentelemetry-instrumentation-threading"),
    Row("otel-extras", "oldest OpenTelemetry of the extras", (RTX, *EXTRAS)),
    Row(
        "otel-api",
        "oldest OpenTelemetry of the bridge",
        # The extra `dev` needs a newer one; these are what tests import.
        (*CORE, f"opentelemetry-sdk=={CORE[0].partition('==')[2]}", "hypothesis", "jsonschema", "pytest-xdist"),
        extras="test",
        tests=tuple(f"tests/{name}" for name in WITHOUT_TORCH),
    ),
)


def uv():
    """The command. Raises SystemExit when there is none."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        raise SystemExit("test_versions: needs uv; `make setup` installs it")
    return found


def environment_on_top(name):
    """The Python of the environment .venvs/name, made when it is missing. It has what the one that runs this has, and may have more."""
    folder = ROOT / ".venvs" / name
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([uv(), "venv", "--quiet", "--python", sys.executable, folder], check=True)
        (site_packages,) = (folder / "lib").glob("python*/site-packages")
        below = next(path for path in map(Path, sys.path) if path.name == "site-packages")
        (site_packages / "below.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n", encoding="utf-8")
    return python


def prepare(row):
    """The Python of the row's environment, or a clause that says why there is none."""
    if not row.packages:
        return Path(sys.executable)
    folder = ROOT / ".venvs" / row.name
    python = folder / "bin" / "python"
    if (
        not python.exists()
        and subprocess.run(
            [uv(), "venv", "--quiet", "--no-python-downloads", "--python", row.python, folder], check=False
        ).returncode
    ):
        return f"no Python {row.python} here"
    install = [uv(), "pip", "install", "--quiet", "--python", python, "--editable", f".[{row.extras}]", *row.packages]
    if row.without:
        left_out = folder / "left_out.txt"
        left_out.write_text(row.without, encoding="utf-8")
        install += ["--excludes", left_out]
    # Nothing to download when all is there already.
    if subprocess.run([*install, "--offline"], cwd=ROOT, capture_output=True, check=False).returncode:
        print(f"{row.what}: installing into .venvs/{row.name} (up to 3 GB to download)", flush=True)
        done = subprocess.run(install, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return "cannot be installed: " + (done.stderr.strip().splitlines() or ["?"])[-1].strip()
    return python


def commit():
    """The hash of the commit that is checked out, or None where a file of SOURCES differs from it."""
    changed = _git("status", "--porcelain", "--", *SOURCES)
    return _git("rev-parse", "HEAD") or None if changed == "" else None


def _git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def run(row, tests=()):
    """Run the row and record its result, unless `tests` names some of them. Returns the line of the table, and whether all passed."""
    begun_on = commit()
    python = prepare(row)
    if isinstance(python, str):
        if begun_on and not tests:
            versions_tested.record(row.name, begun_on, not_run=python)
        return python, False
    REPORTS.mkdir(exist_ok=True)
    report = REPORTS / f"tests-{row.name}.xml"
    report.unlink(missing_ok=True)
    start = time.monotonic()
    command = [python, "-m", "pytest", "-q", "--no-header", "-m", "not once", f"--junit-xml={report}"]
    command += ["-n", str(check.workers()), "--dist", "loadfile", "--no-loadscope-reorder", *(tests or row.tests)]
    # Tests start programs such as `opentelemetry-instrument` by name: those of the row.
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "TEST_RUN_LOG": str(suite_run.emptied())}
    status = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment, check=False).returncode
    if status not in suite_run.RAN_TO_ITS_END or not report.exists():
        return f"pytest ended with status {status}; not recorded", False
    counts = counts_of(report)
    if not tests and row.tests == ("tests",):
        # Older versions do not emit everything; what they emit has to be in the tables.
        status = subprocess.run([python, "tools/contract.py"], cwd=ROOT, check=False).returncode
        counts["failed"] += status not in {0, contract.ONLY_A_PART}
    line = f"{', '.join(f'{number} {name}' for name, number in counts.items())} in {time.monotonic() - start:.0f} s"
    if tests:
        line += "; not recorded: only these tests"
    elif begun_on is None or commit() != begun_on:
        line += f"; not recorded: {', '.join(SOURCES)} are not as committed"
    else:
        versions_tested.record(row.name, begun_on, installed=versions_tested.versions(python), **counts)
    return line, not counts["failed"]


def counts_of(report):
    """passed, failed, skipped: how many tests of a report in JUnit's format."""
    suite = next(iter(ET.parse(report).getroot().iter("testsuite")))
    tests, failed, skipped = (
        sum(int(suite.get(name)) for name in names) for names in (["tests"], ["failures", "errors"], ["skipped"])
    )
    return {"passed": tests - failed - skipped, "failed": failed, "skipped": skipped}


def is_recorded(row):
    """Whether the row was run on a commit from which SOURCES do not differ."""
    recorded = versions_tested.read().get(row.name, {})
    return "passed" in recorded and commit() is not None and _git("diff", recorded["commit"], "--", *SOURCES) == ""


def main(arguments):
    """Run the rows and print the table; the status is 1 when one of them has failures or did not run, 130 when it was stopped."""
    parser = argparse.ArgumentParser(prog="test_versions", description=__doc__.partition("\n")[0])
    parser.add_argument("--again", action="store_true", help="also the rows that were run on this commit")
    parser.add_argument("names", nargs="*", metavar="row", help=f"{', '.join(row.name for row in ROWS)}; or tests/…")
    options = parser.parse_args(arguments)
    tests = tuple(name for name in options.names if name.startswith("tests"))
    names = set(options.names) - set(tests)
    if unknown := names - {row.name for row in ROWS}:
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in ROWS)}")
    # A background job has SIGINT ignored, and so would every program below, which tests send it to.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rows = [row for row in ROWS if not names or row.name in names]
    table, everything_passed = [], True
    try:
        for number, row in enumerate(rows, 1):
            print(f"\n--- {number} of {len(rows)}: {row.what}", flush=True)
            if not (names or tests or options.again) and is_recorded(row):
                line, passed = versions_tested.line(row.name), versions_tested.read()[row.name]["failed"] == 0
            else:
                line, passed = run(row, tests)
            print(line, flush=True)
            table.append((row.what, line))
            everything_passed &= passed
    except KeyboardInterrupt:
        print(f"\nStopped during {row.what}, which is not recorded. The same command continues with it.")
        return 130
    width = max(len(what) for what, _ in table)
    print()
    for what, line in table:
        print(f"{what:<{width}}  {line}")
    print("\nResults are in tools/versions_tested.json. Add a note on what failed; `make docs` writes the page.")
    return int(not everything_passed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
