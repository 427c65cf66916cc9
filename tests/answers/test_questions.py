# SPDX-License-Identifier: Apache-2.0
"""Questions of users, each answered in the first 18 lines that `torchspan run` and `show` print about a real program."""

import io
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from support import span_file
from support.child import unmeasured
from torchspan import answers, cli
from torchspan.words import phase

TRAIN = """
import json
import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x, step):
        x = self.layers(x)
        if step % 5 == 0:
            print("loss", step)
        return x


def scaled(x, mode):
    return x + ord(mode)


torch._dynamo.config.recompile_limit = 4
model = torch.compile(Net(), backend="aot_eager")
data = torch.randn(70, 8)
clock = 0.0
for step in range(12):
    rows = data[step % 5 * 16 :][:16]  # the last batch is smaller
    start = time.perf_counter()
    model(rows, step).sum().backward()
    clock += time.perf_counter() - start
counters = torch._dynamo.utils.counters
truth = {"clock_s": clock, "frames": counters["frames"]["total"], "breaks": sum(counters["graph_break"].values())}
print("TRUTH", json.dumps(truth))

limited = torch.compile(scaled, backend="eager")
for mode in "abcdef":
    limited(data, mode)
"""

COMPILE = """
import torch
import torch_tensorrt
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        x = self.first(x)
        x = torch.special.i1e(x)
        return self.second(x)


rows = torch.randn(8, 16, device="cuda")
cache = {"immutable_weights": False, "cache_built_engines": True, "reuse_cached_engines": True}
with torch.no_grad():
    model = Net().eval().cuda()
    compiled = torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[rows], min_block_size=1, engine_cache_dir="engines", **cache)
    compiled(rows)
"""


class Ran:
    """A program that ran under `torchspan run`, in a pipe: what was printed, and its file."""

    def __init__(self, folder, text, *options):
        program, self.file = folder / "app.py", folder / "run.jsonl"
        program.write_text(text.lstrip())
        command = [
            sys.executable,
            "-m",
            "torchspan",
            "run",
            *options,
            "--output",
            self.file,
            "--",
            sys.executable,
            program,
        ]
        environment = {**unmeasured(), "COLUMNS": "100"}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
        self.truth = next((json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("TRUTH ")), {})
        self.printed = done.stderr[done.stderr.index("\ntrace ") + 1 :].splitlines()


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    return Ran(tmp_path_factory.mktemp("train"), TRAIN)


@pytest.fixture(scope="module")
def compilation(tmp_path_factory):
    return Ran(tmp_path_factory.mktemp("compile"), COMPILE, "--without-gpu")


def without_figures(line):
    """The line with `T` for times and `S` for sizes, and a space for each run of spaces."""
    line = re.sub(r"\d[\d.]* (s|ms|\N{MICRO SIGN}s)\b", "T", line)
    return " ".join(re.sub(r"\d[\d.]* (B|kB|MB)\b", "S", line).split())


def first_lines(ran):
    """The first 18 lines, without figures and with lines that were broken put together again."""
    return " ".join(map(without_figures, ran.printed[:18]))


OF_TORCH_COMPILE = {
    "how often was it compiled, and with which outcome?": "forward app.py:13 \N{MULTIPLICATION SIGN}4 T compiled",
    "why was it compiled again, and what avoids that?": (
        "Recompiled \N{MULTIPLICATION SIGN}2: several causes: 0/0: value of argument step; 0/1: size of argument x, axis 0 (16, then 6); "
        "0/1, 0/2: (step % ?) != ?"
    ),
    "where did the graph break, and why?": (
        "Graph break at app.py:16: Failed to trace builtin operator print \N{MULTIPLICATION SIGN}2 "
        "Dynamo does not know how to trace builtin operator `print` with argument types ?"
    ),
    "what runs eagerly from now on?": (
        "Recompile limit (4 in this thread) reached: value of argument mode; calls with others run eagerly"
    ),
}

OF_TORCH_TENSORRT = {
    "what fell back, why, and at which line?": (
        "in PyTorch: aten.special_i1e \N{MULTIPLICATION SIGN}1 at app.py:14: no converter"
    ),
    "how much runs in TensorRT?": "1 Net \N{MULTIPLICATION SIGN}1 T 5 of 6 ops in TensorRT",
    "which engine took longest?": re.compile(
        r"slowest of 2 engines: (first\.0 … first\.1|second\.0 … second\.2): T, S"
    ),
    "what did the engine cache do?": "engine cache: 2 inserted, 2 misses",
    "where did the time go?": re.compile(r"program T: builds [\d.]+, other compilation [\d.]+, imports [\d.]+, 2 runs"),
}


def is_in(answer, text):
    return answer in text if isinstance(answer, str) else answer.search(text) is not None


@pytest.mark.parametrize("question", OF_TORCH_COMPILE)
def test_a_question_about_torch_compile_is_answered_in_the_first_lines(training, question):
    assert is_in(OF_TORCH_COMPILE[question], first_lines(training))


def own_times(file, function):
    """The stages in the frames of a function by the time in which nothing inside them ran: names, longest first.

    Reports of progress are left out. On a slow machine, some are children of open spans.
    """
    spans, children, times = span_file.read(file), defaultdict(list), Counter()
    spans = [span for span in spans if span.name != phase.PROGRESS.name]
    for span in spans:
        children[span.parent_id].append(span)
    open_spans = [span for span in spans if function in span.attributes.get("code.function.name", "")]
    while open_spans:
        span = open_spans.pop()
        inside = children[span.span_id]
        name = span.name.removeprefix("torch.compile_phase ")
        times[name] += span.end_ns - span.start_ns - sum(child.end_ns - child.start_ns for child in inside)
        open_spans += inside
    return [name for name, _ in times.most_common()]


def test_what_took_the_first_step_is_answered_by_the_three_stages_that_took_longest(training):
    slowest = own_times(training.file, "forward")[:3]
    assert f"time: {', '.join(f'{name} T' for name in slowest)} " in first_lines(training)


@pytest.mark.parametrize("question", OF_TORCH_TENSORRT)
def test_a_question_about_torch_tensorrt_is_answered_in_the_first_lines(compilation, question):
    assert is_in(OF_TORCH_TENSORRT[question], first_lines(compilation))


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_answers_are_the_same_in_each_width_and_encoding(training, compilation, monkeypatch, columns, encoding):
    monkeypatch.setenv("COLUMNS", str(columns))
    for ran, questions in ((training, OF_TORCH_COMPILE), (compilation, OF_TORCH_TENSORRT)):
        lines = show(ran.file, monkeypatch, encoding)
        text = " ".join(map(without_figures, lines[: next(i for i, line in enumerate(lines) if not line)]))
        text = text.replace(" x", " \N{MULTIPLICATION SIGN}") if encoding == "ascii" else text
        for answer in (answer for answer in questions.values() if isinstance(answer, str)):
            assert answer.replace(" x", " \N{MULTIPLICATION SIGN}") in text if encoding == "ascii" else answer in text
        assert [line for line in lines if len(line) > columns] == []


def show(file, monkeypatch, encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.main(["show", str(file)]) == 0
    return stream.buffer.getvalue().decode(encoding).splitlines()


def test_the_figures_of_the_table_are_those_of_the_programs_own_clock_and_of_dynamos_counters(training):
    row = next(row for row in answers.read(training.file).answers.compiled if row.name == "forward")
    assert training.truth["frames"] == 5
    assert (row.count, row.outcome) == (4, "compiled")
    breaks = [finding for finding in row.findings if isinstance(finding, answers.Break)]
    assert sum(graph_break.count for graph_break in breaks) == training.truth["breaks"] == 2
    assert 0.8 * training.truth["clock_s"] < row.ns / 1e9 < training.truth["clock_s"]


def test_the_parts_of_the_time_add_up_to_the_wall_time_of_the_program(training, compilation):
    for ran in (training, compilation):
        report = answers.read(ran.file)
        time = report.answers.time
        assert sum(time.parts.values()) == pytest.approx(report.one(phase.RUN.name).duration_ns / 1e9)
        assert min(time.parts.values()) >= 0
