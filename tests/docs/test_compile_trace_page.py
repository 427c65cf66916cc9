# SPDX-License-Identifier: Apache-2.0
"""The page "Reading a compile trace": its programs print what stands below them, and its table has the APIs that spans name.

tests/cli/test_compile_run.py has the waterfalls of its model.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support import pages
from support.child import unmeasured
from torchspan.words.semconv.torch import Declared

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "reading-a-compile-trace.md").read_text(
    encoding="utf-8"
)
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def test_every_program_of_the_page_has_its_output_below():
    assert len(PROGRAMS) == PAGE.count("```python\n") == 4


@pytest.mark.skipif(VERSION < (2, 14), reason="the page shows what torch 2.14 prints")
@pytest.mark.parametrize(
    ("program", "output"),
    [
        pytest.param(*pair, id=name, marks=() if name == "Dynamo and AOTAutograd" else pytest.mark.slow)
        for name, pair in zip(("declared", "Dynamo and AOTAutograd", "asked", "exports"), PROGRAMS, strict=True)
    ],
)
def test_a_program_prints_what_stands_below_it(program, output):
    clean = {name: value for name, value in unmeasured().items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


@pytest.mark.slow
@pytest.mark.skipif(VERSION < (2, 14), reason="the page shows what torch 2.14 leads to")
def test_the_row_of_the_model_has_what_stands_below_it(tmp_path):
    model, screen = (
        next(each.text for each in pages.blocks(PAGE) if mark in each.marks) for mark in ("model.py", "screen")
    )
    (tmp_path / "model.py").write_text(model, encoding="utf-8")
    reader = pages.Reader(tmp_path, pages.environment())
    commands = "torchspan run --quiet --output trace.jsonl -- python model.py\ntorchspan show trace.jsonl 1\n"
    printed = reader.run(pages.Block(1, "shell", ("run",), commands))
    assert pages.missing(screen, printed) is None, printed.out


def test_the_table_has_every_api_that_a_span_may_name():
    (table,) = re.findall(r"^\| API \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    apis = [value.rpartition(".")[2] for name, value in vars(Declared).items() if name.isupper()]
    assert [name for name in apis if name not in table] == []
