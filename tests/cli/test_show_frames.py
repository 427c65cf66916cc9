# SPDX-License-Identifier: Apache-2.0
"""Frames of torch.compile in the waterfall."""

from torchspan import semconv as s


def test_the_line_of_a_frame_names_the_function_and_why_it_was_compiled_again(recording, shown):
    facts = {s.CODE_FUNCTION: "forward", s.COMPILE_ID: "0/1", s.FRAME_OUTCOME: "compiled"}
    reason = "tensor 'x' size mismatch at index 0. expected 3, actual 4"
    frame = recording.span(
        "torch.compile_frame", 0, 100, {**facts, s.RECOMPILE_CLASS: "size", s.RECOMPILE_REASON: reason}
    )
    phase = {s.COMPILE_PHASE_NAME: "backend_compile"}
    backend = recording.span("torch.compile_phase backend_compile", 0, 60, phase, parent=frame)
    inside = {s.COMPILE_PHASE_NAME: "inductor_compile"}
    recording.span("torch.compile_phase inductor_compile", 0, 40, inside, parent=backend)
    assert shown(recording.path).waterfalls.splitlines()[1:] == [
        "torch.compile_frame · forward 0/1                     ████████████████    100 ms",
        "│  recompiled: tensor 'x' size mismatch at index 0. expected 3, actual 4",
        "└─ torch.compile_phase backend_compile                ██████████         60.0 ms",
        "   └─ inductor_compile                                ██████             40.0 ms",
        "Own time  compile_frame 40.0 ms 40 %, inductor_compile 40.0 ms 40 %,",
        "          backend_compile 20.0 ms 20 %",
        "          phases: docs/reference/compile-phases.md",
        "          40 % of this frame is Dynamo itself",
    ]


def test_the_rest_of_a_function_after_a_graph_break_is_named_by_the_function_and_its_line(recording, shown):
    facts = {s.CODE_FUNCTION: "torch_dynamo_resume_in_forward_at_19", s.COMPILE_ID: "1/0"}
    recording.span("torch.compile_frame", 0, 100, {**facts, s.FRAME_OUTCOME: "compiled"})
    assert shown(recording.path).waterfalls.splitlines()[1] == (
        "torch.compile_frame · forward from line 19 1/0        ████████████████    100 ms"
    )


def test_a_wait_says_for_which_frames_another_thread_was_waited(recording, shown):
    recording.span("torch.compile_wait", 0, 100, {s.WAIT_IDS: ["0/0", "1/0"]})
    recording.span("torch.compile_wait", 200, 300, {s.WAIT_IDS: "0/0"})
    out = shown(recording.path, "--trace", "abc").waterfalls.splitlines()
    assert [line.partition("  ")[0] for line in out if "compile_wait" in line] == [
        "torch.compile_wait · for 0/0, 1/0",
        "torch.compile_wait",
    ]
