# SPDX-License-Identifier: Apache-2.0
"""`make release-check`: what is built, and what a release may not go out with."""

import sys
import tarfile
import zipfile
from functools import partial

import pytest

import registry_changes
import release_check
import versions_tested
from release_check import CheckError, check_changes, check_versions
from torchspan.words.redaction import message_table

CHANGES = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-31\n\n- A new thing.\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of a fresh build, and what the steps printed about it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_check, "DIST", tmp_path_factory.mktemp("dist"))
        assert release_check.main(["build"]) == 0
        yield release_check.DIST


def test_both_distributions_are_built_and_their_metadata_are_accepted(built, capsys):
    assert release_check.main(["metadata"]) == 0
    assert capsys.readouterr().out.startswith("passed  metadata   version ")
    assert sorted(path.suffix for path in built.iterdir()) == [".gz", ".whl"]


def test_both_distributions_have_the_license_and_the_notice(built):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        assert {name.rpartition("/")[2] for name in archive.namelist()} >= {
            "LICENSE",
            "NOTICE",
            "py.typed",
            "entry_points.txt",
        }
    with tarfile.open(sdist) as archive:
        top = {name.split("/")[1] for name in archive.getnames()}
    assert top >= {
        "LICENSE",
        "NOTICE",
        "README.md",
        "CHANGELOG.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
        "src",
        "tests",
        "docs",
    }


def test_the_wheel_has_the_source_of_the_library_that_records_operators(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.endswith((".cpp", ".h"))}
    assert names == {f"torchspan/hooks/native/{name}" for name in ("operators.cpp", "recording.h", "templates.h")}


def test_the_wheel_has_every_file_of_the_table_of_messages(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if "/known_messages/" in name}
    files = (*message_table.FILES, "graph_breaks")
    assert names == {f"torchspan/words/redaction/known_messages/{name}.json" for name in files}


def test_the_source_distribution_has_what_its_tests_need_and_nothing_that_git_ignores(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        top = {name.split("/")[1] for name in archive.getnames()}
    assert top >= {"tests", "tools", "benchmarks", "examples", "collector-config", "Makefile", "pyproject.toml"}
    assert top & {".venv", ".venvs", ".reports", ".bench", ".site", "dist"} == set()


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel(built, capsys):
    assert release_check.main(["demo"]) == 0, capsys.readouterr().err


def test_a_python_that_is_not_here_is_named_and_the_others_are_used(monkeypatch, capsys):
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    used = []
    monkeypatch.setattr(release_check, "PYTHONS", ("3.99", here))
    monkeypatch.setattr(release_check, "_install_and_use", used.append)
    assert release_check.main(["install"]) == 0
    assert capsys.readouterr().out == (
        f"passed  install    core and [cli], a program traced, on Python {here}; not on Python 3.99, which is not here\n"
    )
    assert len(used) == 1
    assert release_check._run([used[0], "--version"]).startswith(f"Python {here}.")


def test_a_machine_without_any_of_the_pythons_fails(monkeypatch, capsys):
    monkeypatch.setattr(release_check, "PYTHONS", ("3.98", "3.99"))
    assert release_check.main(["install"]) == 1
    assert capsys.readouterr().err == (
        "FAILED  install    none of Python 3.98, 3.99 is here: install one that uv finds\n"
    )


def test_a_version_with_a_dated_section_may_be_released():
    check_changes(CHANGES, "0.2.0")


@pytest.mark.parametrize("heading", ["## [0.2.0]", "## [0.2.0] - soon", "## [0.1.9] - 2027-01-31"])
def test_a_version_without_a_dated_section_is_refused(heading):
    with pytest.raises(CheckError, match=r"no section “## \[0\.2\.0\] - YYYY-MM-DD”: write what changed, and the date"):
        check_changes(CHANGES.replace("## [0.2.0] - 2027-01-31", heading), "0.2.0")


def test_entries_that_are_left_below_unreleased_are_refused():
    with pytest.raises(CheckError, match=r"move them to the section of 0\.2\.0"):
        check_changes(CHANGES.replace("[Unreleased]\n", "[Unreleased]\n\n- Forgotten.\n"), "0.2.0")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results of two rows of one commit."""
    monkeypatch.setattr(versions_tested, "FILE", tmp_path / "results.json")
    versions_tested.FILE.write_text("[]", encoding="utf-8")
    for name, torch in (("2.14", "2.14.1"), ("2.13", "2.13.0")):
        versions_tested.record(name, "1" * 40, installed={"torch": torch}, passed=3, failed=0, skipped=0)


def test_results_of_one_commit_on_the_newest_releases_are_accepted(results):
    check_versions({"torch": "2.14.1"})


def test_results_of_two_commits_are_refused(results):
    versions_tested.record("2.13", "2" * 40, installed={"torch": "2.13.0"}, passed=3, failed=0, skipped=0)
    with pytest.raises(CheckError, match=r"the rows are of 2 commits: 111111111111, 222222222222$"):
        check_versions({"torch": "2.14.1"})


def test_results_that_are_older_than_the_newest_release_are_refused(results):
    with pytest.raises(CheckError, match=r"(?s)run `make test-versions`.*\ntorch 2\.15\.0 is not tested; "):
        check_versions({"torch": "2.15.0"})


def test_failures_without_a_note_are_refused(results):
    versions_tested.record("2.13", "1" * 40, installed={"torch": "2.13.0"}, passed=2, failed=1, skipped=0)
    with pytest.raises(CheckError, match=r"row 2\.13 has failures and no note"):
        check_versions({"torch": "2.14.1"})


def test_files_that_are_not_committed_are_named(monkeypatch, tmp_path, capsys):
    release_check._run(["git", "init", "--quiet", tmp_path])
    (tmp_path / "notes.txt").touch()
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    assert release_check.main(["committed"]) == 1
    assert capsys.readouterr().err.endswith("commit or remove them:\n?? notes.txt\n\n")


def test_a_step_without_a_build_says_which_step_to_run_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(release_check, "DIST", tmp_path)
    assert release_check.main(["metadata"]) == 1
    assert "dist/ has 0 files torchspan-*.tar.gz, expected 1: run the step build first" in capsys.readouterr().err


def test_a_command_that_fails_is_named_with_what_it_printed(tmp_path):
    with pytest.raises(CheckError, match=r"(?s)ended with status 3:\nwhy"):
        release_check._run(["sh", "-c", "echo why; exit 3"])


def test_nothing_of_the_checkout_is_on_the_path_of_a_command(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/a/checkout/src")
    monkeypatch.setenv("TORCHSPAN_DETAIL", "passes")
    assert release_check._run(["env"]).count("PYTHONPATH=") == release_check._run(["env"]).count("TORCHSPAN_") == 0


def test_the_wheel_has_the_registry(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("torchspan/registry/")}
    files = ("attributes.yaml", "events.yaml", "manifest.yaml", "metrics.yaml", "released.json", "spans.yaml")
    assert names == {f"torchspan/registry/{name}" for name in files}


@pytest.fixture
def released(tmp_path, monkeypatch):
    """Where the names of the last release are, instead of in registry/."""
    path = tmp_path / "released.json"
    monkeypatch.setattr(release_check.registry_changes, "read_released", partial(registry_changes.read_released, path))
    monkeypatch.setattr(
        release_check.registry_changes, "write_released", partial(registry_changes.write_released, path=path)
    )
    return path


write_released = registry_changes.write_released
FACTS = registry_changes.facts_of(registry_changes.documents())


def test_the_names_of_the_first_release_are_written_to_be_committed(released, capsys):
    assert release_check.main(["registry"]) == 1
    assert "commit it, and run this again" in capsys.readouterr().err
    assert release_check.main(["registry"]) == 0


def test_a_stable_name_that_went_stops_the_release(released, capsys):
    metrics = FACTS["metrics"] | {"lib.runs": {"stability": "stable", "unit": "s", "attributes": []}}
    write_released("0.0.1", FACTS | {"metrics": metrics}, released)
    assert release_check.main(["registry"]) == 1
    assert "metric lib.runs is gone, but it is stable" in capsys.readouterr().err


def test_other_names_under_the_version_of_the_last_release_stop_the_release(released, capsys):
    attributes = dict(FACTS["attributes"])
    del attributes["torchspan.keep"]
    write_released(release_check._version(), FACTS | {"attributes": attributes}, released)
    assert release_check.main(["registry"]) == 1
    assert "raise the version" in capsys.readouterr().err
