# SPDX-License-Identifier: Apache-2.0
"""`torchspan show --markdown`: the answers for a comment or the summary of a job."""

import pytest

from support.device_times import engine_run, layer_table
from support.run_recording import RunRecording
from torchspan.words import semconv

TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture
def printed(torchspan):
    """The lines that are printed for a file."""

    def printed(path, *words):
        status, out, err = torchspan("show", "--markdown", path, *words)
        assert (status, err) == (0, "")
        return out.splitlines()

    return printed


def test_the_answers_are_a_table_and_a_list(recording, printed):
    frame = {semconv.CODE_FUNCTION: "forward", semconv.CODE_FILE: "model.py", semconv.CODE_LINE: 3}
    again = {**frame, semconv.RECOMPILE_REASON: "tensor 'x' size mismatch at index 0. expected 4, actual 7"}
    again |= {semconv.RECOMPILE_CLASS: "size", semconv.OPEN_SIZES_ARGUMENTS: ["x"], semconv.OPEN_SIZES_AXES: [0]}
    recording.span("torch.compile_frame", 0, 100, {**frame, semconv.FRAME_OUTCOME: "compiled"})
    recording.span("torch.compile_frame", 200, 300, {**again, semconv.FRAME_OUTCOME: "compiled"})
    assert printed(recording.path) == [
        "",
        "| | what was compiled | times | time | outcome |",
        "|---|---|---|---|---|",
        f"| 1 | **forward** model.py:3 | {TIMES}2 | 200 ms | compiled |",
        "",
        "- 1: Recompiled: size of argument x, axis 0 (4, then 7): `torch._dynamo.maybe_mark_dynamic(x, 0)` before each call",
        "",
    ]


def test_runs_have_their_times_on_the_device_and_the_host_and_the_slowest_layer(recording, printed):
    engine_run(recording, 0, 4, gpu_ms=12, attributes=layer_table(("conv1", 6), ("fc", 2)))
    assert printed(recording.path)[5:7] == [
        "- 1: Net · \\_run\\_on\\_acc\\_0: device 12.0 ms, host 4.00 ms, 1 run; 1 ended before the device did",
        "- 1: slowest layer: conv1 in Net · \\_run\\_on\\_acc\\_0: 6.00 ms 75 %",
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", "a\\|b"),
        ("<img src=x>", "\\<img src=x\\>"),
        ("[x](http://a.example)", "\\[x\\](http\\://a.example)"),
        ("**x** `y` _z_", "\\*\\*x\\*\\* \\`y\\` \\_z\\_"),
        ("@everyone fixes #1", "@<!-- -->everyone fixes #<!-- -->1"),
        ("www.example.org", "www<!-- -->.example.org"),
        ("&lt; $x$ ~~y~~", "\\&lt; \\$x\\$ \\~\\~y\\~\\~"),
        ("two\nlines", "two\\\\nlines"),
    ],
)
def test_a_name_is_neither_markup_nor_a_link_nor_a_mention(recording, printed, name, shown):
    recording.span("torch_tensorrt.compile", 0, 100, {semconv.MODEL_CLASS: name})
    assert printed(recording.path)[3].startswith(f"| 1 | **{shown}** |")


def test_it_has_at_most_sixty_lines(recording, printed):
    for number in range(40):
        parent = recording.span("torch_tensorrt.compile", number, number + 1, {semconv.MODEL_CLASS: f"Net{number}"})
        reasons = {semconv.FALLBACK_REASON_CLASSES: ["no_converter"], semconv.FALLBACK_OPERATOR_COUNTS: [1]}
        for operator in range(12):
            facts = {**reasons, semconv.FALLBACK_OPERATOR_NAMES: [f"aten.op{operator}.default"]}
            recording.span("torch_tensorrt.partition", number, number + 1, facts, parent=parent)
    lines = printed(recording.path)
    assert len(lines) <= 60


def test_a_run_has_its_head_and_the_split_of_its_time(tmp_path, printed):
    recording = RunRecording(tmp_path / "trace.jsonl")
    recording.span("torchspan.run", 0, 1000, {semconv.PROCESS_EXIT_CODE: 0})
    first, *_, last, _ = printed(recording.path)
    assert first.startswith("**trace abc") and first.endswith("exit 0**")
    assert last.startswith("program 1.00 s")
