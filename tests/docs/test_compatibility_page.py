# SPDX-License-Identifier: Apache-2.0
"""docs/reference/compatibility.md names the versions that the code and the metadata support, and no others."""

import re

from support.pages import ROOT
from torchspan import probes

PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_first_table_has_the_supported_versions_of_torch_tensorrt():
    table = PAGE[PAGE.index("| version | TensorRT-RTX |") : PAGE.index("## TensorRT\n")]
    minors = re.findall(r"^\| (\d+\.\d+)\.\d+ \|", table, re.MULTILINE)
    (oldest, newest) = (".".join(map(str, version)) for version in probes.SUPPORTED)
    assert minors == ["2.14", "2.13", "2.12", "2.11"]
    assert (minors[-1], minors[0]) == (oldest, newest)
    assert f"torchspan supports Torch-TensorRT {oldest} to {newest}" in PAGE


def test_every_python_of_the_metadata_has_a_row():
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)
    rows = PAGE[PAGE.index("## Python") : PAGE.index("## OpenTelemetry")]
    assert sorted(re.findall(r"\b3\.1\d\b", rows)) == sorted(pythons)


def test_the_oldest_opentelemetry_is_that_of_the_metadata():
    (api,) = re.findall(r'"opentelemetry-api>=([\d.]+)', PROJECT)
    (sdk,) = re.findall(r'"opentelemetry-sdk>=([\d.]+)', PROJECT)
    assert f"API {api} (the oldest allowed)" in PAGE
    assert f"SDK {sdk} (the oldest that the extras allow)" in PAGE


def test_the_readme_says_no_more_than_the_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("## Compatibility") : readme.index("## Limits")]
    versions = set(re.findall(r"\b\d+\.\d+\b", table))
    assert sorted(versions - set(re.findall(r"\b\d+\.\d+", PAGE))) == []
