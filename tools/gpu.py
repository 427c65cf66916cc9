# SPDX-License-Identifier: Apache-2.0
"""Runs the tests and benchmarks that need a GPU on this machine's, and writes docs/reference/gpu.md: `make gpu`.

`gpu.py [--wheels FOLDER] [tests/… …]`: in .venv-gpu, made over the PyTorch of the Python that runs this, with the packages of the folder
and no network, or without a folder from the package index; all tests, or those named. Without a GPU it prints one line and does nothing.
`--rehearse` does the same without one, with the stand-in in its place, and writes the page to a temporary file.
`gpu.py fetch FOLDER`: fill the folder, on a machine with network, for PyTorch 2.11 on Python 3.12 on Linux x86-64.

Needs Python and, for `run`, its PyTorch; nothing of this project has to be installed.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree as ET

import generate_gpu_page
import test_versions

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv-gpu"
REPORTS = ROOT / ".bench" / "gpu"
LIMIT_S = 3600
"""Seconds that a group of tests may take."""

FETCHED_TORCH, FETCHED_PYTHON = "2.11", "3.12"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64")
SOURCES_ONLY = ("tensorrt_rtx", "tensorrt_rtx_cu13")
"""They name the packages that have the libraries. The index has no wheels of them."""
LIBRARIES = ("tensorrt_rtx_cu13_libs", "tensorrt_rtx_cu13_bindings")

DECLARED = (
    "opentelemetry-api",
    "opentelemetry-instrumentation",
    "opentelemetry-semantic-conventions",
    "wrapt",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp",
    "opentelemetry-distro",
    "opentelemetry-configuration",
    "rich",
    "pytest",
    "pytest-xdist",
    "hypothesis",
    "jsonschema",
    "onnx",
    "transformers",
    "hatchling",
)
"""What torchspan and its tests import. The versions are those that pyproject.toml allows."""
OF_TORCH_TENSORRT = ("editables", "dllist", "psutil", "numpy", "packaging", "typing-extensions")
"""What Torch-TensorRT imports besides PyTorch; and what an editable installation needs."""

ALONE = "tests/gpu"
"""Tests that measure: no others run at the same time."""
FOLDERS = (
    "pipeline",
    "plain",
    "testing",
    "device",
    "dynamo",
    "adapters",
    "probes",
    "writer",
    "engine",
    "observers",
    "inputs",
)
"""Folders of tests that the stand-in carries where there is no GPU."""

FACTS = """
import importlib.metadata, json, platform, torch
facts = {"python": platform.python_version(), "torch": torch.__version__, "CUDA of torch": torch.version.cuda}
for each in importlib.metadata.distributions():
    name = each.name.lower().replace("_", "-")
    if name in ("torch-tensorrt", "torch-tensorrt-rtx", "tensorrt", "tensorrt-rtx", "triton", "opentelemetry-sdk"):
        facts[name] = each.version
if torch.cuda.is_available():
    facts["device"] = torch.cuda.get_device_name(0)
    facts["compute capability"] = "%d.%d" % torch.cuda.get_device_capability(0)
print(json.dumps(facts))
"""


class CannotRunError(Exception):
    """What is missing and how to get it, as one sentence."""


def has_gpu():
    """Whether the driver finds a GPU, asked in a process of its own: this one must not initialize CUDA."""
    asked = "import what_is_missing as here; raise SystemExit(not here.has_gpu())"
    return subprocess.run([sys.executable, "-c", asked], cwd=ROOT / "tools", check=False).returncode == 0


def facts_of(python):
    """Name -> version or name of what is there: Python, PyTorch, TensorRT, the device. Raises CannotRunError without PyTorch."""
    done = subprocess.run([python, "-c", FACTS], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["?"])[-1]
        raise CannotRunError(
            f"{python} cannot import PyTorch ({reason}). Name a Python that can: make gpu PYTHON=/path/to/python3"
        )
    return json.loads(done.stdout)


def requirement(name):
    """The package with its bounds in pyproject.toml; without bounds where it is not named there."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.search(rf'"({re.escape(name)}(?:[\[<>=!~][^";]*)?)[";]', text)
    return re.sub(r"\[.*?\]", "", declared[1]).strip() if declared else name


def tensorrt_for(torch_version):
    """The requirements of Torch-TensorRT and TensorRT-RTX that fit the version of PyTorch, from the rows of test_versions.

    Raises CannotRunError where no row does.
    """
    rows = {row.name: row.packages or (test_versions.RTX,) for row in test_versions.ROWS if row.name[0].isdigit()}
    minor = ".".join(torch_version.split(".")[:2])
    if minor not in rows:
        raise CannotRunError(
            f"PyTorch {torch_version} has no Torch-TensorRT that torchspan is tested with; "
            f"there is one for {', '.join(sorted(rows))}. Name a Python with one of these: make gpu PYTHON=/path/to/python3"
        )
    return rows[minor]


def fetch(folder):
    """Put the wheels for PyTorch 2.11 on Python 3.12 into the folder: no PyTorch and no libraries of CUDA, which machines have."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    target = ["--only-binary=:all:", "--python-version", FETCHED_PYTHON, "--implementation", "cp"]
    target += [word for each in PLATFORMS for word in ("--platform", each)]
    download = [*pip, "download", "--quiet", "--dest", folder, *target]
    torch_tensorrt, tensorrt = tensorrt_for(FETCHED_TORCH)
    version = tensorrt.partition("==")[2]
    for command in (
        [*download, *map(requirement, DECLARED), *OF_TORCH_TENSORRT],
        [*download, "--no-deps", torch_tensorrt, *(f"{name}=={version}" for name in LIBRARIES)],
        [
            *pip,
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            folder,
            *(f"{name}=={version}" for name in SOURCES_ONLY),
        ],
    ):
        if subprocess.run(command, check=False).returncode:
            raise CannotRunError(f"pip could not fetch into {folder}; its message is above")
    wheels = sorted(folder.glob("*.whl"))
    print(f"gpu: {len(wheels)} wheels in {folder}, {sum(each.stat().st_size for each in wheels) / 1e6:.0f} MB")


def prepare(wheels):
    """The Python of .venv-gpu, with the packages in it. Raises CannotRunError where one is missing.

    wheels: the folder, or None for the package index.
    """
    if wheels is not None and not any(wheels.glob("*.whl")):
        raise CannotRunError(
            f"{wheels} has no wheels; fill it on a machine with network: python tools/gpu.py fetch {wheels}"
        )
    there = facts_of(sys.executable)
    tensorrt = () if {"torch-tensorrt", "torch-tensorrt-rtx"} & there.keys() else tensorrt_for(there["torch"])
    shutil.rmtree(VENV, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", VENV], check=True)
    python = VENV / "bin" / "python"
    (site,) = (VENV / "lib").glob("python*/site-packages")
    # The machine's Python may be one of a virtual environment itself, whose packages are not the system's.
    (site / "machine.pth").write_text("\n".join(filter(os.path.isdir, sys.path[1:])) + "\n", encoding="utf-8")
    install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    install += [] if wheels is None else ["--no-index", "--find-links", wheels]
    # First what builds torchspan, so that this needs no network.
    for packages in (
        [*map(requirement, DECLARED), *OF_TORCH_TENSORRT],
        tensorrt,
        ["--no-build-isolation", "--no-deps", "--editable", ROOT],
    ):
        done = subprocess.run([*install, *packages], capture_output=True, text=True, check=False) if packages else None
        if done is not None and done.returncode:
            raise CannotRunError(_what_pip_lacks(done.stderr, wheels))
    _remove_plugin(site)
    return python


def _what_pip_lacks(message, wheels):
    """What pip could not install, and where it looked."""
    lines = [line for line in message.splitlines() if line.startswith("ERROR: ")] or message.splitlines() or ["?"]
    missing = re.search(r"No matching distribution found for (\S+)", message)
    what = f"there is no wheel of {missing[1]}" if missing else lines[-1].removeprefix("ERROR: ")
    where = (
        "on the package index" if wheels is None else f"in {wheels}; fill it again: python tools/gpu.py fetch {wheels}"
    )
    return f"{what} {where}"


def _remove_plugin(site):
    """Take away a package that cannot be imported: Torch-TensorRT 2.11 looks for it and fails (torch_tensorrt/_features.py).

    TensorRT-RTX 1.4 has tensorrt_rtx/plugin, which imports a module of tensorrt_rtx_bindings that its wheel lacks.
    """
    if not (site / "tensorrt_rtx_bindings" / "plugin").exists():
        shutil.rmtree(site / "tensorrt_rtx" / "plugin", ignore_errors=True)


def driver():
    """The version of the NVIDIA driver, from the kernel module's own file."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    version = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", text)
    return version[0] if version else "unknown"


def read_junit(file):
    """(tests, seconds): of each test its name, outcome (passed, failed, skipped) and message's first line."""
    suite = next(iter(ET.parse(file).getroot().iter("testsuite")))
    tests = []
    for case in suite.iter("testcase"):
        not_passed = next((part for part in case if part.tag in {"failure", "error", "skipped"}), None)
        outcome = "passed" if not_passed is None else {"skipped": "skipped"}.get(not_passed.tag, "failed")
        message = "" if not_passed is None else (not_passed.get("message") or not_passed.text or "").strip()
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        tests.append({"name": name, "outcome": outcome, "message": message.partition("\n")[0][:300]})
    return tests, float(suite.get("time", 0))


def run_tests(python, name, paths, options, environment):
    """The group's row in the report: its tests, its seconds, and how pytest ended where that is not an ordinary end."""
    junit = REPORTS / f"{name}.xml"
    # pytest-benchmark, which a machine may have, warns where xdist is active, and warnings are errors.
    always = ["-q", "--no-header", "-m", "not slow", "-p", "no:benchmark"]
    command = [python, "-m", "pytest", *always, f"--junit-xml={junit}", *options, *paths]
    print(f"gpu: {name}", flush=True)
    try:
        status = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False
        ).returncode
        ended = "" if status in {0, 1} else f"pytest ended with status {status}"
    except subprocess.TimeoutExpired:
        ended = f"pytest was stopped after {LIMIT_S} s"
    tests, seconds = read_junit(junit) if junit.is_file() else ([], 0.0)
    return {"name": name, "tests": tests, "seconds": round(seconds), "ended": ended}


def groups(named):
    """(name, paths, options of pytest) of each group of tests that runs."""
    folders = [f"tests/{each}" for each in FOLDERS if (ROOT / "tests" / each).is_dir()]
    paths = [each for each in named or [ALONE, *folders] if each.startswith("tests")]
    alone = [each for each in paths if each.startswith(ALONE)]
    others = [each for each in paths if each not in alone]
    if alone:
        yield "oracles", alone, []
    if others:
        workers = str(max(1, min(8, (os.cpu_count() or 2) // 2)))
        yield "with the stand-in elsewhere", others, ["-n", workers, "--dist", "loadfile"]


def run(wheels, named, *, rehearse):
    """Everything, and the page. Returns the status: 1 where a test failed or a benchmark missed its target."""
    python = prepare(wheels)
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    figures = REPORTS / "figures.jsonl"
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}", "PYTHONUTF8": "1"}
    environment["TEST_GPU_FIGURES"] = str(figures)
    on_gpu = {} if rehearse else {"oracles": {"TEST_GPU": "1"}, "with the stand-in elsewhere": {"TEST_GPU": "suite"}}
    ran = [run_tests(python, *group, {**environment, **on_gpu.get(group[0], {})}) for group in groups(named)]
    print("gpu: benchmarks", flush=True)
    bench = subprocess.run(
        [python, "benchmarks/device.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    print(bench.stdout + bench.stderr)
    report = {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "rehearsal": rehearse,
        "asked": " ".join(named),
        "facts": {**facts_of(python), "driver": driver(), "system": platform.platform()},
        "groups": ran,
        "figures": [json.loads(line) for line in figures.read_text().splitlines()] if figures.is_file() else [],
        "benchmarks": {"status": bench.returncode, "output": (bench.stdout + bench.stderr).strip()},
    }
    if rehearse:
        file = Path(tempfile.mkdtemp(prefix="torchspan-gpu-"), "gpu.md")
    else:
        file = generate_gpu_page.FILE
        generate_gpu_page.REPORT.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    file.write_text(generate_gpu_page.document(report), encoding="utf-8")
    print(f"gpu: {file}")
    return int(generate_gpu_page.has_failures(report))


def main(arguments):
    """Return the exit status: 2 where something is missing."""
    parser = argparse.ArgumentParser(prog="gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--wheels", type=lambda text: Path(text).resolve(), metavar="FOLDER")
    parser.add_argument("--rehearse", action="store_true", help="without a GPU, on the stand-in")
    parser.add_argument("named", nargs="*", metavar="tests/…")
    options = parser.parse_args(arguments)
    try:
        if options.named[:1] == ["fetch"]:
            if len(options.named) != 2:
                parser.error("fetch takes one folder")
            fetch(Path(options.named[1]).resolve())
            return 0
        if not (options.rehearse or has_gpu()):
            print("gpu: the driver finds no NVIDIA GPU here, so nothing was run")
            return 0
        return run(options.wheels, options.named, rehearse=options.rehearse)
    except CannotRunError as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
