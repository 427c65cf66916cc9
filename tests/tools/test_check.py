# SPDX-License-Identifier: Apache-2.0
"""Which commands the checks are, how many workers run tests, and what a run counts as."""

import fcntl
from pathlib import Path
from types import SimpleNamespace

import pytest

import check
import contract
from support import run_log
from support.otlp import wait_until

GB = 1_000_000_000


@pytest.mark.parametrize(
    ("cores", "memory", "workers"),
    [
        (2, 16 * GB, 2),
        (8, 64 * GB, 8),
        (8, 4 * GB, 3),
        (8, 2 * GB, 0),
        (1, 16 * GB, 0),
        (None, 16 * GB, 0),
    ],
)
def test_there_is_a_worker_for_each_core_that_memory_allows(monkeypatch, cores, memory, workers):
    monkeypatch.setattr(check.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(check, "available_memory", lambda: memory)
    assert check.workers() == workers


def test_the_memory_that_is_there_is_a_number_of_bytes():
    assert check.available_memory() > 100_000_000


def test_only_the_whole_run_measures_coverage_and_runs_slow_tests():
    (part,) = check.commands("tests", everything=False)
    assert part[-2:] == ("-m", "not slow")
    assert "coverage" not in part
    erase, run, combine, report = check.commands("tests", everything=True)
    assert (erase[2:], combine[2:], report[2:]) == (
        ("coverage", "erase"),
        ("coverage", "combine", "--quiet"),
        ("coverage", "report"),
    )
    assert run[2:6] == ("coverage", "run", "-m", "pytest")
    assert "not slow" not in run


@pytest.mark.parametrize(("seconds", "everything"), [(601, False), (1501, True)])
def test_tests_that_take_longer_than_they_may_are_said_to(seconds, everything):
    assert (
        check._too_long("tests", seconds, everything=everything)
        == f", longer than the {seconds - 1} s that they may take"
    )
    assert check._too_long("tests", seconds - 2, everything=everything) == ""
    assert check._too_long("types", seconds, everything=everything) == ""


def test_an_unknown_check_is_a_usage_error(capsys):
    assert check.main(["nonsense"]) == 2
    assert "no such check: nonsense; there are format, lint, types, docs, tests, contract" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "outcome"), [(0, "passed"), (1, "FAILED"), (contract.ONLY_A_PART, "partly")])
def test_a_contract_that_only_a_part_of_the_suite_met_is_said_to_be_partly_met(monkeypatch, capsys, status, outcome):
    monkeypatch.setattr(check.subprocess, "run", lambda *_args, **_kwargs: SimpleNamespace(returncode=status))
    assert check.main(["contract"]) == (outcome == "FAILED")
    assert f"{outcome:<6}  contract" in capsys.readouterr().out


def config(*arguments, ignore=None):
    """As pytest has it when it was started in the root with these paths."""
    return SimpleNamespace(
        args=arguments,
        invocation_params=SimpleNamespace(dir=Path(run_log.TESTS).parent),
        getoption=lambda name: ignore if name == "ignore" else None,
    )


def test_a_run_of_the_folder_of_tests_asks_for_everything_and_one_of_less_does_not():
    assert run_log._asks_for_everything(config("tests"))
    assert run_log._asks_for_everything(config(str(run_log.TESTS)))
    assert not run_log._asks_for_everything(config("tests/cli"))
    assert not run_log._asks_for_everything(config("tests/cli/test_run.py::test_x"))
    assert not run_log._asks_for_everything(config("tests", ignore=["tests/docs"]))


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Makes the build of programs a script, which ends with a status when the file that is returned is there."""
    monkeypatch.setenv("TEST_BACKENDS_LOCK", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(check._Building, "LOCK", tmp_path / "reports" / "backends.lock")

    def build(status):
        (tmp_path / "bin").mkdir()
        script = tmp_path / "bin" / "nice"
        script.write_text(f"#!/bin/sh\nwhile [ ! -e {tmp_path}/may-end ]; do sleep 0.05; done; exit {status}\n")
        script.chmod(0o755)
        return tmp_path / "may-end"

    return build


def locked():
    with check._Building.LOCK.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@pytest.mark.parametrize(("status", "outcome"), [(0, "passed"), (1, "FAILED")])
def test_programs_are_built_alongside_the_checks_and_a_build_that_fails_is_a_check_that_fails(
    build, monkeypatch, capsys, status, outcome
):
    may_end, during = build(status), []

    def checked(*_args, **_kwargs):
        during.append(locked())
        may_end.touch()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(check.subprocess, "run", checked)
    assert check.main(["--build-backends", "format"]) == status
    assert during == [True]
    assert not locked()
    assert f"{outcome:<6}  backends" in capsys.readouterr().out


def test_checks_that_are_interrupted_end_the_build(build, monkeypatch):
    build(0)

    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(check.subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check.main(["--build-backends", "lint"])
    # What the build started has the file open as well, and ends a moment after it.
    wait_until(lambda: not locked())
