# SPDX-License-Identifier: Apache-2.0
"""Tests that need programs: run with what is there, skipped with a reason, and held back while one is being built."""

import fcntl
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import backends
import what_is_missing
from suite_run import SuiteRun

TESTS = Path(__file__).resolve().parents[1]
CONFTEST = """
from support.needs import Needs
from support.run_log import RunLog

def pytest_configure(config):
    config.pluginmanager.register(RunLog(config))
    config.pluginmanager.register(Needs(config))
"""
FIRST = """
import pytest
from support.needs import program

@pytest.fixture(scope="module")
def takes_long():
    program("jaeger")

def test_needs_none():
    pass

@pytest.mark.needs("jaeger")
def test_needs_jaeger(takes_long):
    assert program("jaeger").endswith("jaeger")

@pytest.mark.needs("jaeger", "tempo")
def test_needs_two():
    pass
"""
SECOND = """
import pytest
from support.needs import program

def test_is_not_marked():
    with pytest.raises(LookupError, match=r'the test runs jaeger and is not marked: pytest.mark.needs\\("jaeger"\\)'):
        program("jaeger")
"""


@pytest.fixture
def suite(tmp_path):
    """Starts a suite of two files, the first of which needs programs. `finish` returns its output and what it left."""
    folder, log = tmp_path / "suite", tmp_path / "log"
    folder.mkdir()
    log.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = needs\n", encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_first.py").write_text(FIRST, encoding="utf-8")
    (folder / "test_second.py").write_text(SECOND, encoding="utf-8")

    def start(*arguments, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHSPAN_")}
        environment |= {
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "tools"), os.environ.get("PYTHONPATH", "")]),
            "TEST_RUN_LOG": str(log),
            "PYTEST_ADDOPTS": "",  # more of `-v` would break the lines that are read here
            "TORCHSPAN_BACKENDS": str(tmp_path / "cache"),
            **variables,
        }
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *arguments]
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)

    def finish(process):
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return output, SuiteRun.read(log)

    start.finish = finish
    return start


def program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_test_without_its_program_is_skipped_and_listed_below_it(suite):
    _, run = suite.finish(suite())
    jaeger = "jaeger is not here: `make backends` builds it, and TORCHSPAN_TEST_JAEGER=/path/to/jaeger names another"
    tempo = "tempo is not here: TORCHSPAN_TEST_TEMPO=/path/to/tempo, or the address of one that runs"
    assert list(what_is_missing.tests(run)) == [
        f"Tests that were skipped (1): {jaeger}",
        "  test_first.py::test_needs_jaeger",
        f"Tests that were skipped (1): {jaeger}; {tempo}",
        "  test_first.py::test_needs_two",
    ]
    assert run["program"] == []


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_program_that_is_there_is_used_and_named_at_the_end(suite, tmp_path, workers):
    jaeger = program(tmp_path / "bin" / "jaeger")
    _, run = suite.finish(suite("-n", workers))
    assert list(what_is_missing.programs(run)) == [f"jaeger: {jaeger}"]
    assert [(row["test"], row["reason"]) for row in run["skipped"]] == [
        (
            "test_first.py::test_needs_two",
            "tempo is not here: TORCHSPAN_TEST_TEMPO=/path/to/tempo, or the address of one that runs",
        )
    ]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_while_programs_are_being_built_files_that_need_one_come_last_and_wait(suite, tmp_path, workers):
    lock, log = tmp_path / "lock", tmp_path / "log"
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = suite("-n", workers, TEST_BACKENDS_LOCK=str(lock))
        while "collected" not in "".join(each.read_text() for each in log.glob("*.jsonl")):
            time.sleep(0.05)
        program(tmp_path / "cache" / f"jaeger-{backends.BY_NAME['jaeger'].key()}" / "jaeger")
    output, run = suite.finish(process)
    ended = [name for line in output.splitlines() if "%]" in line for name in re.findall(r"::(\w+)", line)]
    assert ended == ["test_is_not_marked", "test_needs_none", "test_needs_jaeger", "test_needs_two"]
    assert [row["test"] for row in run["skipped"]] == ["test_first.py::test_needs_two"]
    assert [row["name"] for row in run["program"]] == ["jaeger", "jaeger"]
