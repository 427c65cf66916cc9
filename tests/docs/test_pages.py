# SPDX-License-Identifier: Apache-2.0
"""The README, tutorials and how-to guides do what they say: their programs run as printed, and print what is below them."""

import re
import xml.etree.ElementTree as ET

import pytest

from support import pages

PAGES = {
    str(path.relative_to(pages.ROOT)): pages.blocks(path.read_text(encoding="utf-8"))
    for pattern in ("README.md", "docs/tutorial/*.md", "docs/how-to/*.md")
    for path in sorted(pages.ROOT.glob(pattern))
}
SPAN = re.compile(r"(?:torch_tensorrt|tensorrt|torch)\.[a-z_.]+")
RUN = {name: page for name, page in PAGES.items() if any(each.file or "run" in each.marks for each in page)}
_ENGINE = {"torch_tensorrt.compile", "tensorrt.build_engine", "torch_tensorrt.execute"}
SENT = {
    "README.md": _ENGINE,
    "docs/tutorial/first-trace.md": _ENGINE,
    "docs/how-to/serving.md": {"torch.compile_frame"},
}
"""Page -> spans that arrive at the endpoints that it names."""
QUICK = ("README.md",)
"""The page whose programs `make test` runs; those of the other pages take longer."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Follows all pages in one folder, so that they share programs, and the trace of the same program."""
    followed = pages.Reader(tmp_path_factory.mktemp("pages"), pages.environment())
    for page in RUN.values():
        followed.save(page)
    return followed


@pytest.mark.parametrize("name", RUN)
def test_every_program_has_a_mark(name):
    assert pages.unmarked(RUN[name]) == []


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RUN]
)
def test_the_programs_run_and_print_what_is_below_them(name, reader):
    for block in RUN[name]:
        if "run" in block.marks:
            reader.run(block)
    for block, below in pages.outputs(RUN[name]):
        printed = reader.run(block)
        left_out = pages.missing(below.text, printed)
        assert left_out is None, f"line {below.line}: {left_out!r}\n{printed.out}\n{printed.err}"
    assert reader.names >= SENT.get(name, set())


def test_the_spans_of_every_page_that_sends_some_are_known():
    assert SENT.keys() == {name for name in RUN if any("receiver" in block.marks for block in RUN[name])}


def test_the_picture_of_the_readme_has_the_row_and_the_spans_of_the_demo(reader):
    (demo,) = (block for block in RUN["README.md"] if "torchspan demo" in block.text)
    err = reader.run(demo).err
    picture = ET.parse(pages.ROOT / "docs/images/waterfall.svg").getroot()
    drawn = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text") if text.attrib["class"] == "strong"]
    assert drawn[0] == "ConvNetWithBessel"
    assert "\n1  ConvNetWithBessel  " in err

    conv_net = err[err.rindex("\nconv net") :].partition("\nOwn time")[0]
    spans = [name for name in drawn if SPAN.fullmatch(name)]
    assert spans == [name for name in SPAN.findall(conv_net) if name != "tensorrt.build_phase"]
    assert len(spans) == 22


PRINTED = pages.Printed(
    "trace 0123456789abcdef0123456789abcdef · 47 spans\n├─ compile  ███   2.77 s\n│  8 of 9 ops\n└─ run  █  12 µs\n"
    "slowest of 2 engines: head: 90 ms, 12 kB\n",
    "warning\n",
)


@pytest.mark.parametrize(
    "shown",
    [
        "├─ compile  █  3.1 ms\n└─ run  ▏ 1 s\n",
        "│  7 of 9 …\n",
        "├─ compile  7 of 9 ops  █  3 s\n└─ run  ▏ 1 s\n",
        "trace fedcba9876543210fedcba9876543210 · 50 spans\n",
        "slowest of 3 engines: deep.0 … deep.11: 1 s, 2 MB\n",
        "warning\n",
        "",
    ],
    ids=[
        "lines left out",
        "the rest of a line left out",
        "a detail on the line itself",
        "other figures",
        "another slowest engine",
        "the other stream",
        "nothing",
    ],
)
def test_output_may_be_trimmed_and_have_other_figures(shown):
    assert pages.missing(shown, PRINTED) is None


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        ("├─ build  █  3.1 ms\n", "├─ build  █  3.1 ms"),
        ("└─ run  █  1 µs\n├─ compile  █  2 s\n", "├─ compile  █  2 s"),
        ("│  8 of 9\n", "│  8 of 9"),
        ("│  8 of 9 ops\nwarning\n", "warning"),
    ],
    ids=["another name", "another order", "a shorter line", "lines of both streams"],
)
def test_a_line_that_was_not_printed_is_found(shown, line):
    assert pages.missing(shown, PRINTED) == line


def test_a_program_that_ends_with_another_status_than_the_page_promises_fails(tmp_path):
    reader = pages.Reader(tmp_path, pages.environment())
    assert reader.run(pages.Block(1, "shell", ("run", "status=3"), "echo out; exit 3\n")).out == "out\n"
    with pytest.raises(AssertionError, match="line 7 ended with 1\nno"):
        reader.run(pages.Block(7, "python", ("run",), "raise SystemExit('no')\n"))


def test_a_block_that_two_pages_have_runs_once(tmp_path):
    reader = pages.Reader(tmp_path, pages.environment())
    for line in (1, 90):
        reader.run(pages.Block(line, "shell", ("run",), "echo once >> log\n"))
    assert (tmp_path / "log").read_text() == "once\n"


def test_a_file_with_another_text_on_another_page_fails(tmp_path):
    reader = pages.Reader(tmp_path, pages.environment())
    reader.save([pages.Block(1, "python", ("file=app.py",), "one\n")])
    with pytest.raises(AssertionError, match=r"app\.py has another text on another page"):
        reader.save([pages.Block(1, "python", ("file=app.py",), "two\n")])


def test_an_output_belongs_to_the_last_block_that_ran_before_it():
    page = pages.blocks(
        "```shell run\none\n```\n```python file=a.py\n```\n```text output\n1\n```\n```shell run\ntwo\n```\n```text output\n2\n```\n"
    )
    assert [(ran.text, below.text) for ran, below in pages.outputs(page)] == [("one\n", "1\n"), ("two\n", "2\n")]


def test_a_program_that_a_signal_ends_has_the_status_that_its_reader_sees(tmp_path):
    reader = pages.Reader(tmp_path, pages.environment())
    reader.run(pages.Block(1, "shell", ("run", "status=139"), "kill -SEGV $$\n"))
    reader.run(pages.Block(1, "shell", ("run", "status=139"), "bash -c 'kill -SEGV $$' || exit $?\n"))
