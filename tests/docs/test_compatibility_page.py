# SPDX-License-Identifier: Apache-2.0
"""docs/reference/compatibility.md names the versions that the code and the metadata support, and no others."""

import json
import re

import test_versions
import versions_tested
from generate_compatibility_page import table
from support.pages import ROOT
from torchspan.hooks import probes

PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_first_table_has_the_supported_versions_of_torch_tensorrt():
    rows = PAGE[PAGE.index("| version | TensorRT-RTX |") : PAGE.index("## TensorRT\n")]
    minors = re.findall(r"^\| (\d+\.\d+)[.\d]* \|", rows, re.MULTILINE)
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


def test_there_is_one_result_for_each_row_of_make_test_versions():
    results = json.loads(versions_tested.FILE.read_text(encoding="utf-8"))
    assert sorted(result["row"] for result in results) == sorted(row.name for row in test_versions.ROWS)


def test_every_result_names_its_commit():
    results = versions_tested.read().values()
    assert [result["row"] for result in results if not re.fullmatch("[0-9a-f]{40}", result["commit"])] == []


def test_a_row_that_did_not_run_says_why():
    rows = [{"row": "py3.15", "commit": "1" * 40, "not_run": "no Python 3.15 here", "date": "2026-11-27", "note": ""}]
    assert table(rows, {"version": "python"}).splitlines()[-1] == (
        "| py3.15 |  |  |  | `111111111111` | 2026-11-27 | no Python 3.15 here |"
    )


def test_the_readme_says_no_more_than_the_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("## Compatibility") : readme.index("## Limits")]
    versions = set(re.findall(r"\b\d+\.\d+\b", table))
    assert sorted(versions - set(re.findall(r"\b\d+\.\d+", PAGE))) == []
