# SPDX-License-Identifier: Apache-2.0
"""The README does what it says: its programs run as they stand there, in order, in one folder.

A block's info string says what is done with it: `file=` is written to that file, `run` is run by a shell (`tensorrt`: of TensorRT alone), `make` and
`install` are only checked (they would install), `demo` and `bench` are output that somebody pasted.
`ranks` is run by test_examples.py.
"""

import re

import pytest

from support import pages
from support.pages import ROOT
from torchspan import environment_variables, probes

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


def test_every_block_says_what_a_test_does_with_it():
    kinds = {"run", "make", "install", "demo", "bench", "ranks"}
    assert [block.line for block in BLOCKS if not block.file and not kinds & set(block.marks)] == []


def test_the_make_targets_exist():
    for block in marked("make"):
        for line in block.text.splitlines():
            command, target = line.split()
            assert command == "make"
            assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_what_is_to_be_installed_is_an_extra_of_this_package():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for block in marked("install"):
        for line in block.text.splitlines():
            (extra,) = re.fullmatch(r"pip install '\.\[(\w+)\]'", line).groups()
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE)


@pytest.mark.parametrize(
    "block", [b for b in marked("run") if "receiver" not in b.marks], ids=lambda b: f"line {b.line}"
)
def test_the_programs_run(block, reader):
    out = reader.run(block).out

    if "tensorrt" in block.marks:
        assert "tensorrt.build_engine" in out
        assert "onnx_invalid_value" in out
    elif "pytest" in block.text:
        assert "1 passed" in out
    elif "torchspan" in block.text:
        assert "torch_tensorrt.compile" in out
        assert "tensorrt.build_engine" in out


def test_traces_arrive_at_a_receiver(reader):
    (block,) = marked("receiver")

    reader.run(block)

    assert reader.names >= {"torch_tensorrt.compile", "tensorrt.build_engine", "torch_tensorrt.execute"}


def test_the_waterfall_is_the_demos(reader):
    (block,) = marked("demo")

    err = reader.run(pages.Block(0, "shell", ("run",), "torchspan demo")).err

    conv_net = err[err.rindex("\nconv net") :]
    assert SPAN.findall(block.text) == SPAN.findall(conv_net)


def test_the_table_of_settings_is_complete():
    variables = {name for name in vars(environment_variables) if name.startswith("TORCHSPAN_")}
    assert set(re.findall(r"^\| `(TORCHSPAN_\w+)` \|", README, re.MULTILINE)) == variables


def test_the_supported_versions_are_those_of_the_code():
    (oldest, newest) = (".".join(map(str, version)) for version in probes.SUPPORTED)
    rows = re.findall(r"^\| Torch-TensorRT (\d+\.\d+)", README, re.MULTILINE)
    assert {oldest, newest} <= set(rows)


def test_every_link_leads_somewhere():
    for document in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("collector-config/**/README.md"),
        ROOT / "examples/README.md",
    ]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert "://" in target or (document.parent / target).exists(), f"{document.name}: {target}"
