# SPDX-License-Identifier: Apache-2.0
"""The time of a row: each moment counts once, and only while the row's own spans are open."""

import json
import random

import pytest

from support.recording import Recording
from torchspan import traces
from torchspan.answers import read
from torchspan.cli import main
from torchspan.comparison import compare
from torchspan.reading.answers._stages import covered_ns
from torchspan.words import semconv as s


def test_a_run_on_the_stand_in_that_outlives_its_request_takes_nothing_off_it(tmp_path, capsys):
    recording = Recording(tmp_path / "late.jsonl")
    request = recording.span("request", 0, 10)
    recording.span("torch_tensorrt.execute", 5, 900, {s.STAND_IN: True}, parent=request)
    assert main(["show", "--json", str(tmp_path / "late.jsonl")]) == 0
    assert json.loads(capsys.readouterr().out)["stages"][0]["s"] == 0.005


@pytest.mark.parametrize("command", [["show"], ["show", "--json"], ["show", "--markdown"], ["show", "--all"]])
def test_a_span_that_ends_before_it_starts_breaks_no_view(tmp_path, capsys, command):
    recording = Recording(tmp_path / "back.jsonl")
    compile_ = recording.span("torch_tensorrt.compile", 0, 10)
    recording.span("torch_tensorrt.lower", 5, -900, parent=compile_)
    recording.span("torch_tensorrt.execute", 5, 900, {s.STAND_IN: True}, parent=compile_)
    assert main([*command, str(tmp_path / "back.jsonl")]) == 0


def test_compare_has_the_same_time_of_a_stage_as_show(tmp_path):
    for name, end_ms in (("before", 100), ("after", 400)):
        recording = Recording(tmp_path / f"{name}.jsonl")
        compile_ = recording.span("torch_tensorrt.compile", 0, end_ms, {s.MODEL_CLASS: "Net"})
        recording.span("torch_tensorrt.lower", 0, end_ms, parent=compile_)
        recording.span("torch_tensorrt.partition", 0, 100, parent=compile_)
    paths = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    assert [{stage.name: stage.s for stage in read(path).answers.stages} for path in paths] == [
        {"lower": 0.1, "partition": 0.1},
        {"lower": 0.4, "partition": 0.1},
    ]
    ((row, *_),) = [pair.parts for pair in compare(*paths).pairs]
    assert (row.path, row.base_s, row.new_s) == (("lower",), 0.1, 0.4)


@pytest.mark.parametrize("seed", range(30))
def test_work_in_several_roots_takes_the_moments_in_which_one_of_them_ran(tmp_path, seed):
    chance, recording = random.Random(seed), Recording(tmp_path / "roots.jsonl")
    tops = [sorted(chance.sample(range(1_000), 2)) for _ in range(chance.randint(1, 3))]
    spans = [recording.span("top", start, end) for start, end in tops]
    for number in range(chance.randint(0, 60)):
        spans.append(
            recording.span(
                f"s{number % 7}", chance.randint(0, 1_000), chance.randint(0, 1_000), parent=chance.choice(spans)
            )
        )
    nodes = [node for trace in traces.read(tmp_path / "roots.jsonl").traces for node in trace.nodes()]
    assert covered_ns(nodes) == len({moment for start, end in tops for moment in range(start, end)}) * 1_000_000
