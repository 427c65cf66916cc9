# SPDX-License-Identifier: Apache-2.0
"""docs/reference/compatibility.md names the versions that the code and the metadata support, and no others."""

import json
import re

import test_versions
import versions_tested
from support.pages import ROOT
from torchspan import probes

PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_first_table_has_the_supported_versions_of_torch_tensorrt():
    table = PAGE[PAGE.index("| version | TensorRT-RTX |") : PAGE.index("## TensorRT\n")]
    minors = list(dict.fromkeys(re.findall(r"^\| (\d+\.\d+)\.\d+ \|", table, re.MULTILINE)))
    (oldest, newest) = (".".join(map(str, version)) for version in probes.SUPPORTED)
    assert minors == ["2.14", "2.13", "2.12", "2.11"]
    assert (minors[-1], minors[0]) == (oldest, newest)
    assert f"torchspan supports Torch-TensorRT {oldest} to {newest}" in PAGE


def test_every_python_of_the_metadata_has_a_row():
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)
    rows = PAGE[PAGE.index("## Python") : PAGE.index("## OpenTelemetry")]
    assert sorted(set(re.findall(r"\b3\.1\d\b", rows))) == sorted(pythons)


def test_the_oldest_opentelemetry_is_that_of_the_metadata():
    (api,) = re.findall(r'"opentelemetry-api>=([\d.]+)', PROJECT)
    (sdk,) = re.findall(r'"opentelemetry-sdk>=([\d.]+)', PROJECT)
    assert f"OpenTelemetry's API {api} or newer, and its extras the SDK {sdk} or newer" in PAGE


def test_each_result_is_of_a_row_of_make_test_versions():
    assert {row["row"] for row in versions_tested.read()} == {row.name for row in test_versions.ROWS}


def test_a_new_result_takes_the_place_of_the_old_one_and_its_note(tmp_path, monkeypatch):
    monkeypatch.setattr(versions_tested, "FILE", tmp_path / "results.json")
    versions_tested.FILE.write_text("[]", encoding="utf-8")
    counts = {"passed": 3, "failed": 0, "skipped": 1}
    for row, tests in (("2.13", "tests"), ("2.12", "tests"), ("2.13", "tests/dynamo")):
        versions_tested.record(row, tests, {"python": "3.11.7"}, **counts)
    rows = versions_tested.read()
    assert [(each["row"], each["tests"]) for each in rows] == [
        ("2.13", "tests"),
        ("2.13", "tests/dynamo"),
        ("2.12", "tests"),
    ]
    rows[0]["note"] = "one was slow"
    versions_tested.FILE.write_text(json.dumps(rows), encoding="utf-8")
    versions_tested.record("2.13", "tests", {"python": "3.11.8"}, **{**counts, "passed": 4})
    first = versions_tested.read()[0]
    assert (first["passed"], first["note"], first["installed"]) == (4, "", {"python": "3.11.8"})


def test_the_readme_says_no_more_than_the_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("## Compatibility") : readme.index("## Limits")]
    versions = set(re.findall(r"\b\d+\.\d+\b", table))
    assert sorted(versions - set(re.findall(r"\b\d+\.\d+", PAGE))) == []
