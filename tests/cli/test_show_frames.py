# SPDX-License-Identifier: Apache-2.0
"""Frames of torch.compile in the waterfall, and Dynamo's own share of the time below it."""

from torchspan.words import semconv as s

FORWARD = {s.CODE_FUNCTION: "forward", s.COMPILE_ID: "0/0", s.FRAME_OUTCOME: "compiled"}
SIZE = "tensor 'x' size mismatch at index 0. expected 3, actual 4"


def test_the_line_of_a_frame_names_the_function_and_why_it_was_compiled_again(recording, shown, findings):
    again = {s.COMPILE_ID: "0/1", s.RECOMPILE_CLASS: "size", s.RECOMPILE_REASON: SIZE}
    frame = recording.span("torch.compile_frame", 0, 100, {**FORWARD, **again})
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
        "          40 % is Dynamo itself, not its backend",
    ]
    assert findings(recording.path) == [
        "Recompiled: size of argument x, axis 0 (3, then 4)",
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


# --- Dynamo's own share -----------------------------------------------------------------------------------------------
def call(recording, *, frame_ms, backend_ms, **more):
    """A request of 100 ms with one frame."""
    root = recording.span("GET /", 0, 100)
    frame = recording.span("torch.compile_frame", 0, frame_ms, {**FORWARD, **more}, parent=root)
    tracing = {s.COMPILE_PHASE_NAME: "bytecode_tracing"}
    recording.span("torch.compile_phase bytecode_tracing", 0, 20, tracing, parent=frame)
    backend = {s.COMPILE_PHASE_NAME: "backend_compile"}
    span = recording.span("torch.compile_phase backend_compile", 20, 20 + backend_ms, backend, parent=frame)
    inside = {s.COMPILE_PHASE_NAME: "inductor_compile"}
    recording.span("torch.compile_phase inductor_compile", 20, 20 + backend_ms, inside, parent=span)


def test_what_of_a_call_is_not_the_backends_is_dynamo_itself(recording, torchspan):
    call(recording, frame_ms=95, backend_ms=50)
    assert "          45 % is Dynamo itself, not its backend" in torchspan("show", recording.path)[1].splitlines()


def test_a_small_share_is_not_said(recording, torchspan):
    root = recording.span("GET /", 0, 100)
    recording.span("torch.compile_frame", 0, 9, FORWARD, parent=root)
    assert "Dynamo" not in torchspan("show", recording.path)[1]
