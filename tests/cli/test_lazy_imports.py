# SPDX-License-Identifier: Apache-2.0
"""What `torchspan run` says of a program in which `torch.compile` imports its parts: what took the time, by the program's own clock."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from support import span_file
from support.child import UNMEASURED

PROGRAM = """
from torchspan.base import imports
imports.LONG_NS = 1_000_000  # so that a fast machine has the spans of a slow one

import time
start = time.perf_counter()
import torch
imported = time.perf_counter()
compiled = torch.compile(lambda x: x.sin() + 1, backend="aot_eager")
made = time.perf_counter()
compiled(torch.ones(3))
called = time.perf_counter()
print(imported - start, made - imported, called - made)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The run: the program's clocks in seconds, the spans, and what was printed at the end."""
    folder = tmp_path_factory.mktemp("lazy")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    base = {name: text for name, text in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_", "COLUMNS"))}
    words = ("run", "--output", "trace.jsonl", "--", sys.executable, "program.py")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())", *words],
        cwd=folder,
        env={**base, **UNMEASURED},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(
        clocks=[float(text) for text in done.stdout.split()],
        spans=span_file.read(folder / "trace.jsonl"),
        last=re.search(r"^program .*", done.stderr, re.MULTILINE)[0],
    )


def name(span):
    return span.attributes.get("torchspan.import.module", span.name)


def below(ran, parent):
    """The spans whose parent has this name."""
    ids = {each.span_id for each in ran.spans if each.name == parent}
    return [each for each in ran.spans if each.parent_id in ids and each.name != "torchspan.progress"]


def seconds(spans):
    return sum(each.end_ns - each.start_ns for each in spans) / 1e9


def test_what_torch_compile_imports_is_a_span_below_the_run(ran):
    outermost = [name(each) for each in below(ran, "torchspan.run")]
    assert outermost[0] == "torch"
    assert outermost[-1] == "torch.compile_frame"
    assert {"torch._dynamo", "torch._inductor"} & set(outermost[1:-1])


def test_what_a_frame_imports_is_a_span_below_the_phase_that_imports_it(ran):
    in_frame = [each for each in below(ran, "torch.compile_phase backend_compile") if each.name == "torchspan.import"]
    assert {name(each) for each in in_frame} <= {"torch._dynamo", "torch._inductor"}
    assert in_frame


def test_the_imports_and_the_frame_add_up_to_the_clock_of_the_first_step(ran):
    _, *step = ran.clocks
    share = seconds(below(ran, "torchspan.run")[1:]) / sum(step)
    assert 0.95 < share <= 1.001


def test_the_last_line_has_them_as_imports_and_adds_up_to_the_clock_of_the_program(ran):
    imports, compiling = (float(re.search(rf"{key} ([\d.]+)", ran.last)[1]) for key in ("imports", "other compilation"))
    # The rest is the SDK, which torchspan imports after PyTorch.
    assert 0.9 < (imports + compiling) / sum(ran.clocks) <= 1.01
    ids = {each.span_id for each in ran.spans if each.name == "torchspan.import"}
    outermost = [each for each in ran.spans if each.span_id in ids and each.parent_id not in ids]
    assert imports == pytest.approx(seconds(outermost), abs=0.02)
