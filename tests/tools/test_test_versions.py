# SPDX-License-Identifier: Apache-2.0
"""`make test-versions`: which tests a row runs, when its result is recorded, and when it is run again."""

import importlib.metadata
import json
import platform
import subprocess
import sys

import pytest

import check
import suite_run
import test_versions
import versions_tested
import what_is_missing
from support.run_log import TESTS
from test_versions import Row
from tests_by_row import ONCE, WITH_TORCH, WITHOUT_TORCH

ROWS = (Row("a", "version a", (), tests=("tests/own",)), Row("b", "version b", (), tests=("tests/own",)))
PROGRAM = """
import pytest

def test_passes(): pass
def test_passes_too(): pass
def test_fails(): assert 0
@pytest.mark.skip(reason="why")
def test_is_skipped(): pass
@pytest.mark.once("why")
def test_runs_once(): pass
"""


def git(*arguments):
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments],
        cwd=test_versions.ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A repository with one file of tests, two rows that run it in this environment, and no result yet. Its folder."""
    monkeypatch.setattr(test_versions, "ROOT", tmp_path)
    monkeypatch.setattr(test_versions, "REPORTS", tmp_path / ".bench")
    monkeypatch.setattr(suite_run, "FOLDER", tmp_path / ".reports")
    monkeypatch.setattr(versions_tested, "FILE", tmp_path / "results.json")
    monkeypatch.setattr(test_versions, "ROWS", ROWS)
    monkeypatch.setattr(check, "workers", lambda: 0)
    versions_tested.FILE.write_text("[]", encoding="utf-8")
    own = tmp_path / "tests" / "own"
    own.mkdir(parents=True)
    (own / "test_it.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['once(reason)']\n", "utf-8")
    (tmp_path / ".gitignore").write_text("__pycache__\n", encoding="utf-8")
    git("init", "--quiet")
    git("add", "tests", "pyproject.toml", ".gitignore")
    git("commit", "--quiet", "-m", "A")
    return tmp_path


@pytest.fixture
def ran(monkeypatch):
    """The names of the rows that were run, as if all of their tests passed."""
    names = []

    def run(row, _tests=()):
        names.append(row.name)
        versions_tested.record(row.name, test_versions.commit(), installed={}, passed=1, failed=0, skipped=0)
        return "1 passed", True

    monkeypatch.setattr(test_versions, "run", run)
    return names


def test_of_every_folder_of_tests_it_is_said_which_rows_run_it():
    folders = [path.name for path in TESTS.iterdir() if path.is_dir() and [*path.rglob("test_*.py")]]
    files = [path.name for path in TESTS.glob("test_*.py")]
    assert sorted([*ONCE, *WITH_TORCH, *WITHOUT_TORCH]) == sorted([*folders, *files])


def test_the_tests_of_a_folder_that_runs_once_have_the_mark(request):
    assert request.node.get_closest_marker("once").args == ("the commands of the Makefile are the subject",)


def test_a_row_is_recorded_with_its_commit_its_versions_and_how_many_tests_passed(clone, capsys):
    assert test_versions.main(["a"]) == 1
    row = versions_tested.read()["a"]
    assert {name: row[name] for name in ("commit", "passed", "failed", "skipped", "note")} == {
        "commit": git("rev-parse", "HEAD"),
        "passed": 2,
        "failed": 1,
        "skipped": 1,
        "note": "",
    }
    assert row["installed"]["python"] == platform.python_version()
    assert "version a  2 passed, 1 failed, 1 skipped in " in capsys.readouterr().out


@pytest.mark.parametrize("changed", ["tests/own/test_it.py", "tests/own/new.py", "src/new.py", "pyproject.toml"])
def test_files_that_are_not_committed_have_no_commit(clone, changed):
    (clone / "notes.txt").touch()
    assert test_versions.commit() == git("rev-parse", "HEAD")
    (clone / changed).parent.mkdir(exist_ok=True)
    with (clone / changed).open("a", encoding="utf-8") as file:
        file.write("\n")
    assert test_versions.commit() is None


def test_a_folder_outside_of_git_has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(test_versions, "ROOT", tmp_path)
    assert test_versions.commit() is None


def test_a_file_that_changes_while_the_row_runs_keeps_it_from_being_recorded(clone, capsys):
    own = clone / "tests" / "own" / "test_it.py"
    own.write_text("import pathlib\ndef test_writes(): pathlib.Path(__file__).write_text('')\n", encoding="utf-8")
    git("commit", "--quiet", "-am", "B")
    test_versions.main(["a"])
    assert versions_tested.read() == {}
    assert "; not recorded: src, tests, pyproject.toml are not as committed\n" in capsys.readouterr().out


def test_the_result_of_some_tests_is_printed_alone(clone, capsys):
    assert test_versions.main(["a", "tests/own/test_it.py::test_passes"]) == 0
    assert versions_tested.read() == {}
    assert "1 passed, 0 failed, 0 skipped in " in capsys.readouterr().out


def test_a_row_whose_tests_cannot_be_collected_is_not_recorded(clone, capsys):
    (clone / "tests" / "own" / "test_it.py").write_text("import no_such_module", encoding="utf-8")
    git("commit", "--quiet", "-am", "B")
    assert test_versions.main(["a"]) == 1
    assert versions_tested.read() == {}
    assert "version a  pytest ended with status 2; not recorded" in capsys.readouterr().out


def test_a_row_that_cannot_be_installed_is_recorded_with_the_reason_and_tried_again(clone, monkeypatch):
    tried = []
    monkeypatch.setattr(test_versions, "prepare", lambda row: tried.append(row.name) or "no Python 3.15 here")
    assert [test_versions.main([]), test_versions.main([])] == [1, 1]
    assert tried == ["a", "b", "a", "b"]
    row = versions_tested.read()["a"]
    assert (row["not_run"], row["commit"]) == ("no Python 3.15 here", git("rev-parse", "HEAD"))
    assert "passed" not in row


def test_a_row_that_was_run_on_this_commit_is_run_again_only_when_it_is_named_or_all_are(clone, ran, capsys):
    assert test_versions.main([]) == 0
    assert test_versions.main([]) == 0
    assert ran == ["a", "b"]
    assert f"for this commit, {git('rev-parse', 'HEAD')[:12]}\n" in capsys.readouterr().out
    test_versions.main(["b"])
    test_versions.main(["--again"])
    assert ran == ["a", "b", "b", "a", "b"]


def test_a_failure_that_was_recorded_for_this_commit_is_still_one(clone, ran):
    for name in ("a", "b"):
        versions_tested.record(name, git("rev-parse", "HEAD"), installed={}, passed=1, failed=1, skipped=0)
    assert test_versions.main([]) == 1
    assert ran == []


@pytest.mark.parametrize("changed", ["tests/own/test_it.py", "tests/own/new.py", "src/new.py", "pyproject.toml"])
def test_a_row_is_run_again_on_a_commit_with_other_sources(clone, ran, changed):
    test_versions.main([])
    (clone / changed).parent.mkdir(exist_ok=True)
    with (clone / changed).open("a", encoding="utf-8") as file:
        file.write("\n")
    git("add", changed)
    git("commit", "--quiet", "-m", "B")
    test_versions.main([])
    assert ran == ["a", "b", "a", "b"]


def test_a_commit_that_changes_other_files_leaves_the_results(clone, ran):
    test_versions.main([])
    git("add", "results.json")
    git("commit", "--quiet", "-m", "B")
    test_versions.main([])
    assert ran == ["a", "b"]


def test_a_row_of_a_commit_that_is_not_in_the_clone_is_run_again(clone, ran):
    test_versions.main([])
    rows = versions_tested.read()
    rows["a"]["commit"] = "1" * 40
    versions_tested.FILE.write_text(json.dumps([*rows.values()]), encoding="utf-8")
    test_versions.main([])
    assert ran == ["a", "b", "a"]


def test_a_command_that_was_stopped_continues_with_the_row_that_was_running(clone, ran, monkeypatch, capsys):
    run = test_versions.run

    def stopped(row, tests):
        if row.name == "b":
            raise KeyboardInterrupt
        return run(row, tests)

    monkeypatch.setattr(test_versions, "run", stopped)
    assert test_versions.main([]) == 130
    assert capsys.readouterr().out.endswith(
        "Stopped during version b, which is not recorded. The same command continues with it.\n"
    )
    monkeypatch.setattr(test_versions, "run", run)
    test_versions.main([])
    assert ran == ["a", "b"]


def test_an_unknown_row_is_a_usage_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        test_versions.main(["2.10"])
    assert "no row 2.10; there are 2.14, 2.13, 2.12, 2.11, py3.10" in capsys.readouterr().err


def test_the_note_of_a_row_stays_while_as_many_tests_fail(clone):
    counts = {"installed": {}, "passed": 3, "failed": 1, "skipped": 1}
    versions_tested.record("a", "0" * 40, **counts)
    (row,) = json.loads(versions_tested.FILE.read_text(encoding="utf-8"))
    versions_tested.FILE.write_text(json.dumps([{**row, "note": "one was slow"}]), encoding="utf-8")
    versions_tested.record("a", "1" * 40, **{**counts, "passed": 4})
    assert versions_tested.read()["a"]["note"] == "one was slow"
    versions_tested.record("a", "2" * 40, **{**counts, "failed": 0})
    assert versions_tested.read()["a"]["note"] == ""


def test_a_version_that_is_newer_than_that_of_every_row_is_named(clone):
    for name, torch in (("a", "2.9.1"), ("b", "2.14.1")):
        installed = {"torch": torch, "python": "3.11.7"}
        versions_tested.record(name, "0" * 40, installed=installed, passed=1, failed=0, skipped=0)
    versions_tested.record("c", "0" * 40, not_run="no Python 3.15 here")
    assert [*versions_tested.not_tested({"torch": "2.14.1", "python": "3.10.13"})] == []
    assert [*versions_tested.not_tested({"torch": "2.15.0", "wrapt": "2.5.2"})] == [
        "torch 2.15.0 is not tested; the newest that `make test-versions` ran on is 2.14.1",
        "wrapt 2.5.2 is not tested; the newest that `make test-versions` ran on is none",
    ]


def test_what_is_installed_and_newer_than_every_row_is_named_at_the_end_of_make_test(clone, monkeypatch):
    monkeypatch.setattr(versions_tested, "versions", lambda _python: {"torch": "2.15.0"})
    sentence = "torch 2.15.0 is not tested; the newest that `make test-versions` ran on is none."
    assert sentence in [*what_is_missing.missing()]


def test_the_versions_of_an_environment_are_those_that_are_installed_there():
    found = versions_tested.versions(sys.executable)
    assert found["python"] == platform.python_version()
    assert found["wrapt"] == importlib.metadata.version("wrapt")
