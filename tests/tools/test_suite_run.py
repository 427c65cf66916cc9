# SPDX-License-Identifier: Apache-2.0
"""What a run of the tests leaves, and what is read from it: in a small suite of its own, with workers and without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import suite_times
import what_is_missing
from suite_run import SuiteRun

TESTS = Path(__file__).resolve().parents[1]
CONFTEST = """
from support.run_log import RunLog, write

def pytest_configure(config):
    config.pluginmanager.register(RunLog(config))
"""
FIRST = """
import pytest
from support.run_log import write

def test_writes():
    write("span", name="first")

@pytest.mark.skip(reason="not here")
def test_is_skipped():
    pass

def test_fails():
    assert False
"""
SECOND = """
import pytest
from support.run_log import write

def test_writes():
    write("span", name="second")

@pytest.mark.slow
def test_is_slow():
    pass
"""


@pytest.fixture
def suite(tmp_path):
    """Runs a suite of two files, whose folder has a space and a letter beyond ASCII; returns what the run left."""
    folder, log = tmp_path / "my süite", tmp_path / "log of the rün"
    (folder / "inner").mkdir(parents=True)
    log.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n", encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "inner" / "test_first.py").write_text(FIRST, encoding="utf-8")
    (folder / "test_second.py").write_text(SECOND, encoding="utf-8")

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(TESTS), "TEST_RUN_LOG": str(log), "PYTEST_ADDOPTS": ""}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stdout + done.stderr
        return SuiteRun.read(log)

    return run


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_rows_of_all_workers_are_one_run(suite, workers):
    run = suite("-n", workers, "--dist", "loadfile", "-m", "not slow")
    assert sorted(row["name"] for row in run["span"]) == ["first", "second"]
    assert run["ended"] == [{"status": 1}]
    assert run["skipped"] == [{"test": "inner/test_first.py::test_is_skipped", "reason": "not here"}]
    assert run.deselected == ["test_second.py::test_is_slow"]
    assert {row["tests"] for row in run["collected"]} == {4}
    assert set(suite_times.seconds_by_file(run)) == {"inner/test_first.py", "test_second.py"}


def test_without_a_folder_nothing_is_written(suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TEST_RUN_LOG", raising=False)
    from support import run_log

    run_log.write("span", name="lost")
    assert [each.name for each in tmp_path.rglob("*.jsonl")] == []


def test_tests_that_did_not_run_are_listed_by_name_below_the_reason():
    run = SuiteRun()
    run.rows["deselected"] = [{"test": "tests/a.py::slow"}, {"test": "tests/a.py::slow"}]
    run.rows["skipped"] = [
        {"test": "tests/b.py::two", "reason": "needs a GPU"},
        {"test": "tests/b.py::one", "reason": "needs a GPU"},
    ]
    assert list(what_is_missing.tests(run)) == [
        "Tests that were left out (1); `make test ALL=1` runs them:",
        "  tests/a.py::slow",
        "Tests that were skipped (2): needs a GPU",
        "  tests/b.py::one",
        "  tests/b.py::two",
    ]


def test_a_folder_that_takes_half_as_much_again_of_the_processor_time_is_warned_of():
    committed = {"pipeline": 0.5, "cli": 0.1, "engine": 0.002}
    assert list(suite_times.warnings({"pipeline": 0.74, "cli": 0.15, "engine": 0.014}, committed)) == []
    (sentence,) = suite_times.warnings({"pipeline": 0.7, "cli": 0.16, "engine": 0.01}, committed)
    assert sentence.startswith("cli took 16.0% of the processor time, shares.json says 10.0%")


def test_a_folder_that_the_table_does_not_have_is_warned_of():
    (sentence,) = suite_times.warnings({"new": 0.05}, {})
    assert sentence.startswith("new took 5.0% of the processor time, shares.json says 0.0%")


def test_seconds_are_added_by_file_over_workers_and_by_folder_over_files():
    run = SuiteRun()
    run.rows["seconds"] = [
        {"file": "tests/cli/test_a.py", "wall": 2.0, "cpu": 1.0},
        {"file": "tests/cli/test_a.py", "wall": 1.0, "cpu": 0.5},
        {"file": "tests/cli/test_b.py", "wall": 1.0, "cpu": 0.5},
        {"file": "tests/test_c.py", "wall": 4.0, "cpu": 2.0},
    ]
    folders = suite_times.seconds_by_folder(suite_times.seconds_by_file(run))
    assert folders == {"cli": (4.0, 2.0), "test_c.py": (4.0, 2.0)}
    assert suite_times.shares(folders) == {"cli": 0.5, "test_c.py": 0.5}


def test_the_committed_shares_are_a_whole():
    table = json.loads(suite_times.SHARES.read_text(encoding="utf-8"))
    assert sum(table["folders"].values()) == pytest.approx(1, abs=0.01)
