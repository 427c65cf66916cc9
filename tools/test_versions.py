# SPDX-License-Identifier: Apache-2.0
"""Runs the test suite on Torch-TensorRT's versions, on the oldest OpenTelemetry and on other Pythons; prints and records the results.

`test_versions.py [row …] [tests/…]`: all rows, or those named, with all of their tests, or those in the files and folders named
(`2.13 2.12 tests/dynamo tests/pipeline`). The first row runs in this environment. Each other row has one of its own in .venvs, made when it is missing yet and kept; uv must be on the path or in .venv. A row that cannot be installed is marked in the table.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import suite_run
import versions_tested

ROOT = Path(__file__).resolve().parents[1]
REPORTS = ROOT / ".bench"


@dataclass(frozen=True)
class Row:
    """name: also of the environment. packages: installed with the project; none: it runs in this environment. tests: what pytest is given."""

    name: str
    what: str
    packages: tuple[str, ...]
    tests: tuple[str, ...]
    python: str = f"3.{sys.version_info.minor}"
    extras: str = "demo,dev"


def oldest(*names):
    """The oldest version of each package that pyproject.toml allows, as `name==version`; the last bound named counts."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    bounds = dict(re.findall(r'"([\w-]+)>=([\w.]+)', text))
    return tuple(f"{name}=={bounds[name]}" for name in names)


# The README's programs belong to the newest version; every other row runs what torchspan itself is.
ALL = ("tests", "--ignore=tests/docs", "--ignore=tests/tools")
BRIDGE = tuple(f"tests/{each}" for each in ("engine", "probes", "adapters", "writer", "test_settings.py"))
COMMANDS = (*BRIDGE, "tests/_base", "tests/propagation", "tests/sdk", "tests/cli")
CORE = oldest("opentelemetry-api", "opentelemetry-instrumentation", "opentelemetry-semantic-conventions", "wrapt")
EXTRAS = oldest(
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp",
    "opentelemetry-exporter-otlp-json-common",
    "opentelemetry-distro",
)
RTX = "torch-tensorrt-rtx==2.14.*"
PACKAGES = ("torch-tensorrt-rtx", "torch", "tensorrt-rtx", "opentelemetry-sdk", "wrapt")
"""The packages whose versions are recorded with each row."""
ROWS = (
    Row("2.14", "Torch-TensorRT 2.14", (), ALL),
    Row("2.13", "Torch-TensorRT 2.13", ("torch-tensorrt-rtx==2.13.0",), ALL),
    Row("2.12", "Torch-TensorRT 2.12", ("torch-tensorrt-rtx==2.12.1",), ALL),
    # It names no upper bound for TensorRT-RTX and cannot be imported with 1.7.
    Row("2.11", "Torch-TensorRT 2.11", ("torch-tensorrt-rtx==2.11.0", "tensorrt_rtx==1.4.0.76"), ALL),
    Row("otel-extras", "oldest OpenTelemetry of the extras", (RTX, *EXTRAS), COMMANDS),
    Row(
        "otel-api",
        "oldest OpenTelemetry of the bridge",
        (*CORE, f"opentelemetry-sdk=={CORE[0].partition('==')[2]}"),
        BRIDGE,
        extras="test",
    ),
    Row("py3.10", "Torch-TensorRT 2.14, Python 3.10", (RTX,), ALL, "3.10"),
    Row("py3.12", "Torch-TensorRT 2.14, Python 3.12", (RTX,), ALL, "3.12"),
    Row("py3.13", "Torch-TensorRT 2.14, Python 3.13", (RTX,), ALL, "3.13"),
)


def uv():
    """The command. Raises SystemExit when there is none."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        raise SystemExit("test_versions: needs uv; `make setup` installs it")
    return found


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
    # Nothing to download when all is there already.
    if subprocess.run([*install, "--offline"], cwd=ROOT, capture_output=True, check=False).returncode:
        print(f"{row.what}: installing into .venvs/{row.name} (up to 3 GB to download)", flush=True)
        done = subprocess.run(install, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return "cannot be installed: " + (done.stderr.strip().splitlines() or ["?"])[-1].strip()
    return python


def run(row):
    """The line of the table: passed, failed, skipped, seconds; or why not."""
    python = prepare(row)
    if isinstance(python, str):
        return (row.what, python)
    print(f"\n--- {row.what}", flush=True)
    REPORTS.mkdir(exist_ok=True)
    report = REPORTS / f"tests-{row.name}.xml"
    report.unlink(missing_ok=True)
    start = time.monotonic()
    command = [python, "-m", "pytest", "-q", "--no-header", f"--junit-xml={report}", *row.tests]
    # Tests start programs such as `opentelemetry-instrument` by name: those of the row.
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "TEST_RUN_LOG": str(suite_run.emptied())}
    status = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment, check=False).returncode
    if not report.exists():
        return (row.what, f"pytest ended with status {status}")
    suite = next(iter(ET.parse(report).getroot().iter("testsuite")))
    tests, failed, skipped = (
        sum(int(suite.get(name)) for name in names) for names in (["tests"], ["failures", "errors"], ["skipped"])
    )
    if row.tests == ALL and subprocess.run([python, "tools/contract.py", "--whole"], cwd=ROOT, check=False).returncode:
        failed += 1
    installed = versions(python)
    counts = {"passed": tests - failed - skipped, "failed": failed, "skipped": skipped}
    versions_tested.record(row.name, " ".join(row.tests), installed, **counts)
    result = ", ".join(f"{number} {name}" for name, number in counts.items())
    there = ", ".join(f"{name} {version}" for name, version in installed.items())
    return (row.what, f"{result} in {time.monotonic() - start:.0f} s; {there}")


def versions(python):
    """Package -> version, of what was really there; and `python`."""
    script = (
        "import importlib.metadata as m, json, platform; "
        f"names = {PACKAGES!r}; "
        "found = {d.name.replace('_', '-'): d.version for d in m.distributions()}; "
        "print(json.dumps({'python': platform.python_version(), **{name: found[name] for name in names if name in found}}))"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main(arguments):
    """Run the rows and print the table; the status is 1 when one of them has failures or could not run."""
    paths = tuple(each for each in arguments if each.startswith("tests"))
    names = set(arguments) - set(paths)
    unknown = names - {row.name for row in ROWS}
    if unknown:
        raise SystemExit(f"test_versions: no row {', '.join(unknown)}; there are {', '.join(row.name for row in ROWS)}")
    table = [run(replace(row, tests=paths or row.tests)) for row in ROWS if not names or row.name in names]
    width = max(len(what) for what, _ in table)
    print()
    for what, result in table:
        print(f"{what:<{width}}  {result}")
    print("\nWritten to tools/versions_tested.json. Add a note on what failed; `make docs` writes the page.")
    return int(not all(" 0 failed" in result for _, result in table))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
