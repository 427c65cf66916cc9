# SPDX-License-Identifier: Apache-2.0
"""The checks pass wherever the clone lies: in a folder called torchspan, in a path with spaces and letters beyond ASCII."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.child import unmeasured

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    ".ci",
    "src",
    "tests",
    "tools",
    "docs",
    "Makefile",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
)
FOLDER_DEPENDENT = (
    "tests/test_architecture.py::test_uninstrumenting_before_the_library_is_imported_leaves_it_untouched",
    "tests/test_architecture.py::test_importing_us_imports_neither_torch_nor_tensorrt_nor_the_sdk",
    "tests/cli/test_show.py::test_a_reader_that_has_seen_enough_is_not_an_error",
    "tests/cli/test_run.py::test_output_input_arguments_and_status_are_the_programs_own",
    "tests/cli/test_run.py::test_children_inherit_and_a_file_for_each_process_is_read_as_well",
    "tests/propagation/test_start_up.py::test_a_child_started_outside_of_spans_is_in_the_trace_too",
    "tests/tools/test_tools.py",
)
"""Tests that start programs, write files, or ask where code comes from."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The sources in such a folder, with this environment as its `.venv`, so that torch lies below `torchspan` too."""
    folder = tmp_path_factory.mktemp("clone") / "x y ü" / "torchspan"
    folder.mkdir(parents=True)
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    return folder


def run(clone, *command):
    """Run it in the clone, with the clone's sources, as a user would who has set up nothing else."""
    left_out = ("TEST_RUN_LOG", "PYTEST_", "TORCHSPAN_", "OTEL_", "MAKE")
    environment = {name: value for name, value in unmeasured().items() if not name.startswith(left_out)}
    done = subprocess.run(
        command,
        cwd=clone,
        env={**environment, "PYTHONPATH": str(clone / "src")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_torch_lies_below_the_folder_called_torchspan(clone):
    program = "import importlib.util, torchspan; print(importlib.util.find_spec('torch').origin, torchspan.__file__)"
    out = run(clone, ".venv/bin/python", "-c", program)
    assert out.count("/x y ü/torchspan/") == 2


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_runs_its_programs(clone):
    # Without `setup`: what this environment lacks is not to be installed by a test.
    run(clone, "make", "-o", "setup", "docs")
    run(clone, "make", "-o", "setup", "format")
    assert "make test" in run(clone, "make")


def test_the_checks_write_and_read_their_reports(clone):
    assert "passed  docs" in run(clone, ".venv/bin/python", "tools/check.py", "docs")


@pytest.mark.slow
def test_what_depends_on_the_folder_passes(clone):
    run(clone, ".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *FOLDER_DEPENDENT)
