# SPDX-License-Identifier: Apache-2.0
"""The README does what it says: its programs run as printed, in order, in one folder. `support.pages` explains the marks."""

import re
import xml.etree.ElementTree as ET

import pytest

from support import pages
from support.pages import ROOT
from torchspan import phase, probes

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = pages.blocks(README)
SPAN = re.compile(r"(?:torch_tensorrt|tensorrt|torch)\.[a-z_.]+")


def marked(mark):
    return [block for block in BLOCKS if mark in block.marks]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Follows the README in one folder; every file of it is there."""
    reader = pages.Reader(tmp_path_factory.mktemp("readme"), pages.environment())
    reader.save(BLOCKS)
    return reader


def test_it_has_at_most_200_lines():
    assert README.count("\n") <= 200


def test_every_block_says_what_a_test_does_with_it():
    assert pages.unmarked(BLOCKS) == []


def test_the_make_targets_exist():
    targets = set(re.findall(r"`make ([a-z-]+)`", README))
    assert targets == {"demo", "up"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_what_is_to_be_installed_is_an_extra_of_this_package():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for block in marked("install"):
        for line in block.text.splitlines():
            (extra,) = re.fullmatch(r"pip install '\.\[(\w+)\]'", line).groups()
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE)


@pytest.mark.parametrize("block", marked("run"), ids=lambda block: f"line {block.line}")
def test_the_programs_run_and_print_what_is_below_them(block, reader):
    printed = reader.run(block)

    below = dict(pages.outputs(BLOCKS)).get(block)
    if below:
        assert pages.missing(below.text, printed) is None, printed
    if "torchspan show" in block.text:
        assert "torch_tensorrt.compile" in printed.out
        assert "tensorrt.build_engine" in printed.out
    if "pytest" in block.text:
        assert "1 passed" in printed.out
    if "receiver" in block.marks:
        assert reader.names >= {"torch_tensorrt.compile", "tensorrt.build_engine", "torch_tensorrt.execute"}


def test_the_picture_has_the_spans_of_the_demo(reader):
    demo = next(block for block in marked("run") if "torchspan demo" in block.text)
    err = reader.run(demo).err
    picture = ET.parse(ROOT / "docs/images/waterfall.svg").getroot()
    drawn = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text") if text.attrib["class"] == "strong"]
    conv_net = err[err.rindex("\nconv net") :]

    spans = [name for name in drawn if SPAN.fullmatch(name)]
    assert spans == [name for name in SPAN.findall(conv_net) if name != "tensorrt.build_phase"]
    assert len(spans) == 22


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
