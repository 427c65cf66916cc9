# SPDX-License-Identifier: Apache-2.0
"""What the README says holds. test_pages.py runs its programs."""

import re
import subprocess

import pytest

from support import pages
from support.pages import ROOT
from torchspan.hooks import probes
from torchspan.words import phase

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = pages.blocks(README)


def marked(mark):
    return [block for block in BLOCKS if mark in block.marks]


def test_it_has_at_most_200_lines():
    assert README.count("\n") <= 200


def test_every_block_says_what_a_test_does_with_it():
    assert pages.unmarked(BLOCKS) == []


def test_the_make_targets_exist():
    targets = set(re.findall(r"`make ([a-z-]+)`", README))
    assert targets == {"demo", "test", "up"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("opentelemetry-instrument", "python", "app.py"), 0),
        (("python", "-c", "import torchspan; torchspan.instrument(); import app"), 0),
        (("python", "app.py"), 1),
    ],
    ids=["opentelemetry-instrument", "torchspan.instrument()", "python app.py"],
)
def test_the_variable_for_no_gpu_works_with_what_the_page_names_and_with_nothing_else(
    command, status, request, tmp_path
):
    (sentence,) = re.findall(r"`TORCHSPAN_WITHOUT_GPU=1` [^.]*\.[^.]*\.[^.]*\.", README)
    works, _, does_not = sentence.partition(";")
    assert f"`{request.node.callspec.id}`" in (does_not if status else works)
    (tmp_path / "app.py").write_text("import torch\n\ntorch.ones(1).cuda()\n", encoding="utf-8")
    # No GPU on any machine.
    environment = {**pages.environment(), "CUDA_VISIBLE_DEVICES": "", "OTEL_TRACES_EXPORTER": "none"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert ("cuda" in done.stderr) is bool(status)


def test_what_is_to_be_installed_is_an_extra_of_this_package():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for block in marked("install"):
        for line in block.text.splitlines():
            (extra,) = re.fullmatch(r"pip install '\.\[(\w+)\]'", line).groups()
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE)


def test_every_span_of_the_table_is_one_that_torchspan_has():
    names = {
        name for row in re.findall(r"^\| (`t.*?) \|", README, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)
    }
    assert len(names) >= 10
    assert sorted(names - {each.name for each in phase.SPANS}) == []


def test_the_supported_versions_are_those_of_the_code():
    (oldest, newest) = (".".join(map(str, version)) for version in probes.SUPPORTED)
    (row,) = re.findall(r"^\| Torch-TensorRT \| (.*?) \|", README, re.MULTILINE)
    assert (row.split(", ")[0], row.split(", ")[-1]) == (newest, oldest)


def test_every_link_leads_somewhere():
    for document in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("collector-config/**/README.md"),
        ROOT / "examples/README.md",
    ]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert "://" in target or (document.parent / target).exists(), f"{document.name}: {target}"
