# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001
# The multiplication sign is part of the expected output.
"""Files of `torchspan run`: what the program did, its parts, and what had not ended when it was killed."""

import pytest
from opentelemetry.trace import SpanKind, Status, StatusCode

from support.run_recording import RUN, RunRecording, as_process, write_run
from torchspan.words import semconv as s


@pytest.fixture
def run(tmp_path):
    return RunRecording(tmp_path / "run.jsonl")


@pytest.fixture
def show(run, torchspan):
    """What `torchspan show` writes for the run's file, and for others."""

    def call(*words):
        status, out, err = torchspan("show", run.path, *words)
        assert (status, err) == (0, "")
        return out

    return call


def compilation(run, start_ms, **options):
    compiled = run.start("torch_tensorrt.compile", start_ms, {s.MODEL_CLASS: "ConvNet"}, **options)
    run.span("torch_tensorrt.lower", start_ms, start_ms + 200, parent=compiled)
    run.span("tensorrt.build_engine", start_ms + 200, start_ms + 800, parent=compiled)
    run.end(compiled, start_ms + 801)
    return compiled


def a_program_with_imports(run):
    for module, start_ms, end_ms in (("torch", 100, 2100), ("torch_tensorrt", 2100, 3000)):
        imported = run.span("torchspan.import", start_ms, end_ms, {s.IMPORT_MODULE: module}, parent=RUN)
    run.span("torchspan.import", 2900, 2950, {s.IMPORT_MODULE: "tensorrt"}, parent=imported)
    run.span("torch.export", 3000, 3150, {s.NODES_COUNT: 12}, parent=RUN)
    compilation(run, 3200, parent=RUN)
    write_run(run.path, 0, 6000, process_exit_code=0)


FIRST_SCREEN = """\
trace feed0000000000000000000000000001 · 2026-11-21 10:42:40Z · exit 0
   what was compiled times      time
1  ConvNet              ×1    801 ms
   time: build_engine 600 ms, lower 200 ms, compile 1.00 ms
2  torch.export         ×1    150 ms
program 6.00 s: builds 0.60, other compilation 0.35, imports 2.90, rest 2.15
"""
WATERFALL = """\
part 1 · app.py · 2026-11-21 10:42:43Z · 3 spans
torch_tensorrt.compile · ConvNet                      ████████████████    801 ms
├─ torch_tensorrt.lower                               ████                200 ms
└─ tensorrt.build_engine                                 ████████████     600 ms
Own time  build_engine 600 ms 75 %, lower 200 ms 25 %, compile 1.00 ms <1 %
"""


def test_what_was_compiled_and_the_programs_time_come_first_then_the_worst_part(run, show):
    a_program_with_imports(run)
    assert show() == f"{FIRST_SCREEN}\n{WATERFALL}"


WHOLE = f"""\
trace feed0000000000000000000000000001 · 2026-11-21 10:42:40Z · exit 0
   what was compiled                 times      time
1  ConvNet                              ×1    801 ms
   time: build_engine 600 ms, lower 200 ms, compile 1.00 ms
2  torch.export                         ×1    150 ms
3  torchspan.import · torch             ×1    2.00 s
4  torchspan.import · torch_tensorrt    ×1    900 ms
   time: torchspan.import 900 ms
program 6.00 s: builds 0.60, other compilation 0.35, imports 2.90, rest 2.15

{WATERFALL}
part 2 · app.py · 2026-11-21 10:42:43Z · 1 span
torch.export  12 nodes                                ████████████████    150 ms

part 3 · app.py · 2026-11-21 10:42:40Z · 1 span
torchspan.import · torch                              ████████████████    2.00 s

part 4 · app.py · 2026-11-21 10:42:42Z · 2 spans
torchspan.import · torch_tensorrt                     ████████████████    900 ms
└─ torchspan.import · tensorrt                                      █    50.0 ms
"""


def test_all_draws_each_part_and_imports_too(run, show):
    a_program_with_imports(run)
    assert show("--all") == WHOLE


def test_traces_of_a_provider_of_the_programs_own_are_parts_of_the_run_too(run, show):
    exported = run.span("torch.export", 0, 150)
    main = run.start("main", 200)
    compilation(run, 200, parent=main, links=[exported.get_span_context()])
    run.end(main, 1200)
    write_run(run.path, 0, 1250, process_exit_code=3)

    assert (
        show()
        == """\
trace feed0000000000000000000000000001 · 2026-11-21 10:42:40Z · exit 3
   what was compiled times      time
1  ConvNet              ×1    801 ms
   time: build_engine 600 ms, lower 200 ms, compile 1.00 ms
2  torch.export         ×1    150 ms
program 1.25 s: builds 0.60, other compilation 0.35, rest 0.30

trace abc00000000000000000000000000003 · 2026-11-21 10:42:40Z · 4 spans
main                                                  ████████████████    1.00 s
└─ torch_tensorrt.compile · ConvNet                   █████████████       801 ms
   │  exported in torch.export of trace abc00000000000000000000000000001
   ├─ torch_tensorrt.lower                            ███                 200 ms
   └─ tensorrt.build_engine                              ██████████       600 ms
Own time  build_engine 600 ms 60 %, lower 200 ms 20 %, main 199 ms 20 %
"""
    )


def test_a_run_with_one_short_piece_of_work_is_one_row(run, show):
    run.span("work", 100, 200)
    write_run(run.path, 0, 400, process_exit_code=0)

    assert (
        show()
        == """\
trace feed0000000000000000000000000001 · 2026-11-21 10:42:40Z · exit 0
   what was recorded times      time
1  work                 ×1    100 ms
program 0.400 s

trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span
work                                                  ████████████████    100 ms
"""
    )


def test_a_name_that_the_sdk_gave_for_want_of_one_is_not_drawn(tmp_path, torchspan):
    unnamed = RunRecording(tmp_path / "unnamed.jsonl", service="unknown_service:python")
    unnamed.span("work", 100, 200, parent=RUN)
    write_run(unnamed.path, 0, 400, process_exit_code=0)

    _, out, _ = torchspan("show", unnamed.path, "--all")

    assert "unknown" not in out
    assert "\npart 1 · 2026-11-21 10:42:40Z · 1 span\n" in out


def test_the_hundredth_request_is_drawn_as_the_first(run, show):
    traces = []
    for number in range(100):
        request = run.start("GET /predict", 100 * number, kind=SpanKind.SERVER)
        for step in range(8):
            run.span("torch_tensorrt.execute", 100 * number + step, 100 * number + step + 1, parent=request)
        run.end(request, 100 * number + 10)
        traces.append(f"{request.get_span_context().trace_id:032x}")
    write_run(run.path, 0, 10_000, process_exit_code=0)

    first, last = (show("--trace", trace).partition("\n\n")[2].partition("\n")[2] for trace in (traces[0], traces[-1]))
    assert first == last
    assert (
        show()
        == f"""\
trace feed0000000000000000000000000001 · 2026-11-21 10:42:40Z · exit 0
   what was recorded times      time
1  GET /predict       ×100    1.00 s
   time: execute 800 ms, GET /predict 200 ms
program 10.00 s

trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 9 spans
{first}
99 more traces of part 1; show FILE 1 draws all
"""
    )


def frame(run, number, start_ms, end_ms, attributes, **names):
    attributes = {s.COMPILE_ID: f"0/{number}", s.CODE_FUNCTION: "step", **attributes}
    return run.span("torch.compile_frame", start_ms, end_ms, attributes, parent=RUN, **names)


def test_of_many_frames_the_longest_with_news_is_drawn_and_all_have_one_row(run, show):
    size = "tensor 'x' size mismatch at index 0. expected 4, actual "
    for number in range(14):
        again = {s.RECOMPILE_CLASS: "size", s.RECOMPILE_REASON: f"{size}{min(number, 12)}"} if number else {}
        limit = {s.FRAME_OUTCOME: "limit", s.RECOMPILE_LIMIT: "recompile_limit"} if number == 13 else {}
        frame(run, number, 1000 * number, 1000 * number + 500 - number, {**again, **limit})
    for number in (12, 14):
        frame(
            run,
            number,
            1000 * number + 600,
            1000 * number + 700,
            {s.RECOMPILE_CLASS: "size", s.RECOMPILE_REASON: f"{size}12"},
        )
    write_run(run.path, 0, 15_000, process_exit_code=0)

    assert (
        show()
        == """\
trace feed0000000000000000000000000001 · 2026-11-21 10:42:40Z · exit 0
   what was compiled times      time
1  step                ×16    7.11 s  runs eagerly
   Recompile limit reached: size of argument x, axis 0 (4, then 12); calls with
   others run eagerly
   Recompiled ×14: size of argument x, axis 0 (4, then 1, 2, 3, 5, …)
program 15.00 s: other compilation 7.11, rest 7.89

part 1 · app.py · 2026-11-21 10:42:41Z · 1 span
torch.compile_frame · step 0/1                        ████████████████    499 ms
   recompiled: tensor 'x' size mismatch at index 0. expected 4, actual 1

15 more traces of part 1; show FILE 1 draws all
"""
    )
    assert """
torch.compile_frame · step 0/13                       ████████████████    487 ms
   not compiled: tensor 'x' size mismatch at index 0. expected 4, actual 12
   runs eagerly from now on: the recompile limit is reached
""" in show(1, "--all")


def test_of_several_runs_in_a_file_the_newest_is_drawn_and_the_others_are_counted(run, show, tmp_path):
    compilation(run, 0, parent=RUN)
    write_run(run.path, 0, 1000, process_exit_code=1)
    newer = tmp_path / "newer.jsonl"
    RunRecording(newer, run_id="newer", first_id=1000).span("work", 5000, 5100, parent=RUN)
    write_run(newer, 5000, 5200, run_id="newer", process_exit_code=0)
    newer.write_text(newer.read_text().replace("feed0000000", "feed0000001"))
    with open(run.path, "a") as file:
        file.write(newer.read_text())

    assert (
        show()
        == """\
trace feed0000001000000000000000000001 · 2026-11-21 10:42:45Z · exit 0
   what was recorded times      time
1  work                 ×1    100 ms
program 0.200 s

part 1 · app.py · 2026-11-21 10:42:45Z · 1 span
work                                                  ████████████████    100 ms

1 older run in the file; show --all draws everything
"""
    )


def test_all_draws_each_run_of_a_file_with_its_own_table_and_numbers_continue(run, show, tmp_path):
    run.span("first work", 0, 100, parent=RUN)
    write_run(run.path, 0, 1000, process_exit_code=1)
    newer = tmp_path / "newer.jsonl"
    RunRecording(newer, run_id="newer", first_id=1000).span("work", 5000, 5100, parent=RUN)
    write_run(newer, 5000, 5200, run_id="newer", process_exit_code=0)
    newer.write_text(newer.read_text().replace("feed0000000", "feed0000001"))
    both = """\
trace feed0000000000000000000000000001 · 2026-11-21 10:42:40Z · exit 1
   what was recorded times      time
1  first work           ×1    100 ms
program 1.00 s

part 1 · app.py · 2026-11-21 10:42:40Z · 1 span
first work                                            ████████████████    100 ms

trace feed0000001000000000000000000001 · 2026-11-21 10:42:45Z · exit 0
   what was recorded times      time
2  work                 ×1    100 ms
program 0.200 s

part 2 · app.py · 2026-11-21 10:42:45Z · 1 span
work                                                  ████████████████    100 ms
"""

    assert show(newer) == both, "several files are all drawn"
    with open(run.path, "a") as file:
        file.write(newer.read_text())
    assert show("--all") == both


def test_what_compile_workers_did_is_work_and_no_share_of_the_frame(run, show):
    compiled = run.start("torch.compile_frame", 0, {s.COMPILE_ID: "0/0"}, parent=RUN)
    backend = run.start(
        "torch.compile_phase backend_compile", 100, {s.COMPILE_PHASE_NAME: "backend_compile"}, parent=compiled
    )
    named = {s.COMPILE_PHASE_NAME: "async_compile.wait"}
    run.span("torch.compile_phase async_compile.wait", 500, 1000, named, parent=backend)
    run.end(backend, 1000)
    for _ in range(3):
        worker = run.start("torch.compile_worker", 100, {s.WORKER_KIND: "thread"}, parent=compiled)
        run.span("torch.compile_phase compile_file", 100, 900, {s.COMPILE_PHASE_NAME: "compile_file"}, parent=worker)
        run.end(worker, 900)
    run.end(compiled, 1000)
    write_run(run.path, 0, 1100, process_exit_code=0)

    assert (
        show().partition("Own time")[2]
        == """\
  backend_compile 400 ms 40 %, compile_frame 100 ms 10 %
          in workers: compile_file 2.40 s in 3 calls
          10 % is Dynamo itself, not its backend
"""
    )


def test_a_part_of_a_run_is_drawn_by_its_number_with_all_of_its_traces(run, show, torchspan):
    compilation(run, 0, parent=RUN)
    compilation(run, 2000, parent=RUN)
    run.span("torch.export", 3000, 3150, parent=RUN)
    write_run(run.path, 0, 4000, process_exit_code=0)
    row = """\
   what was compiled times      time
1  ConvNet              ×2    1.60 s
   slowest of 2 engines: tensorrt.build_engine: 600 ms
   time: build_engine 1.20 s, lower 400 ms, compile 2.00 ms
"""

    assert (
        show(1)
        == f"{row}\n{WATERFALL.replace('10:42:43Z', '10:42:40Z')}\n{WATERFALL.replace('10:42:43Z', '10:42:42Z')}"
    )
    assert (
        show(2)
        == """\
   what was compiled times      time
2  torch.export         ×1    150 ms

part 2 · app.py · 2026-11-21 10:42:43Z · 1 span
torch.export                                          ████████████████    150 ms
"""
    )
    for number in (0, 3):
        assert torchspan("show", run.path, number) == (
            2,
            "",
            f"torchspan show: no part {number} in {run.path}; it has parts 1 to 2\n",
        )


def test_a_program_that_died_is_drawn_with_its_signal_and_with_what_did_not_end(run, show):
    main = run.start("main", 0, parent=RUN)
    compiled = run.start("torch_tensorrt.compile", 10, {s.MODEL_CLASS: "ConvNet"}, parent=main)
    run.span("torch_tensorrt.lower", 10, 210, parent=compiled)
    convert = run.start("torch_tensorrt.convert", 210, {s.ENGINE_NAME: "_run_on_acc_0"}, parent=compiled)
    build = run.start("tensorrt.build_engine", 220, parent=convert)
    run.heartbeat(build, 7000, "tensorrt.build_engine", 6780, ENGINE_NAME="_run_on_acc_0")
    write_run(run.path, 0, 7100, torchspan_run_signal="SIGSEGV", error_type="SIGSEGV")

    assert (
        show()
        == """\
trace feed0000000000000000000000000001 · 2026-11-21 10:42:40Z · died of SIGSEGV
   what was compiled times      time
1  ConvNet              ×1  ≥ 6.99 s  did not end
   time: build_engine 6.78 s, lower 200 ms, convert 10.0 ms
program 7.10 s: builds 6.78, other compilation 0.21, rest 0.11

part 1 · app.py · 2026-11-21 10:42:40Z · 5 spans
main  did not end                                     ████████████████  ≥ 7.00 s
└─ torch_tensorrt.compile · ConvNet  did not end      ████████████████  ≥ 6.99 s
   ├─ torch_tensorrt.lower                            ▏                   200 ms
   └─ torch_tensorrt.convert · _run_on_acc_0          ████████████████  ≥ 6.79 s
      │  did not end
      └─ tensorrt.build_engine  did not end           ███████████████   ≥ 6.78 s
Own time  build_engine 6.78 s 97 %, lower 200 ms 3 %, main 10.0 ms <1 %
"""
    )


def test_processes_are_distinguished_where_there_are_several(run, show, tmp_path):
    main = run.start("main", 0, parent=RUN)
    compilation(run, 0, parent=main)
    run.end(main, 1000)
    other = tmp_path / "other.jsonl"
    compilation(RunRecording(other, first_id=1000), 100, parent=RUN)
    as_process(other, 4242)
    as_process(tmp_path / "run.jsonl", 17)
    write_run(run.path, 0, 1000, process_exit_code=0)

    first, second = show(other, 1).split("\n\n")[1:]
    assert first.splitlines()[:3] == [
        "part 1 · app.py · 2026-11-21 10:42:40Z · 4 spans",
        "main  process 17                                      ████████████████    1.00 s",
        "└─ torch_tensorrt.compile · ConvNet                   █████████████       801 ms",
    ]
    assert second.splitlines()[:2] == [
        "part 1 · app.py · 2026-11-21 10:42:40Z · 3 spans",
        "torch_tensorrt.compile · ConvNet  process 4242        ████████████████    801 ms",
    ]
    assert (
        show(other)
        .partition("\n\n")[0]
        .endswith(
            "\nprogram 1.00 s: builds 0.60, other compilation 0.20, rest 0.20"
            "\nother threads and processes 0.801 s: builds 0.600, other compilation 0.201"
        )
    )


def test_threads_are_distinguished_where_there_are_several(run, shown):
    main = run.start("main", 0, {"thread.id": 1, "thread.name": "MainThread"})
    run.span("same", 0, 10, {"thread.id": 1, "thread.name": "MainThread"}, parent=main)
    run.span("other", 10, 20, {"thread.id": 2, "thread.name": "worker-1"}, parent=main)
    run.end(main, 20)

    assert shown(run.path).waterfalls.splitlines()[1:4] == [
        "main  thread MainThread                               ████████████████   20.0 ms",
        "├─ same                                               ████████           10.0 ms",
        "└─ other  thread worker-1                                     ████████   10.0 ms",
    ]


def test_a_compilation_in_a_request_is_marked_and_one_that_outlived_it_names_it(run, show):
    request = run.span("GET /predict", 0, 100, kind=SpanKind.SERVER)
    run.span("torch_tensorrt.compile", 150, 200, {s.WHILE_SERVING: True}, links=[request.get_span_context()])
    run.span("torch_tensorrt.compile", 50, 200, links=[request.get_span_context()])
    out = " ".join(show(1).split())

    trace_id = f"{request.get_span_context().trace_id:032x}"
    assert f"outlived GET /predict of trace {trace_id} while serving" in out
    assert f"started in GET /predict of trace {trace_id}" in out


def test_a_link_to_what_is_not_in_the_file_names_the_trace(run, show):
    run.span("work", 0, 10, links=[RUN.get_span_context()])
    assert "linked to trace feed0000000000000000000000000001" in show()


def test_what_tensorrt_logged_is_counted_and_the_first_lines_are_shown(run, shown):
    build = run.start("tensorrt.build_engine", 0)
    for severity, message, count in (
        ("WARNING", "Tactic is slow", 12),
        ("WARNING", "Another one", 1),
        ("INTERNAL_ERROR", "Assertion failed", 2),
        ("ERROR", "Cannot find binding of given name", 1),
    ):
        attributes = {s.LOG_SEVERITY: severity, s.LOG_MESSAGE: message, s.LOG_COUNT: count}
        build.add_event("tensorrt.log", attributes)
    build.set_attribute(s.LOG_OMITTED, 5)
    run.end(build, 100)

    assert (
        shown(run.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 1 span
tensorrt.build_engine                                 ████████████████    100 ms
   TensorRT internal error ×2: Assertion failed
   TensorRT error: Cannot find binding of given name
   18 more lines of TensorRT's log
"""
    )


def test_what_the_span_failed_with_is_not_repeated_from_the_log(run, show):
    build = run.start("tensorrt.build_engine", 0, {s.ERROR_TYPE: "engine_build_failed"})
    build.add_event("tensorrt.log", {s.LOG_SEVERITY: "ERROR", s.LOG_MESSAGE: "no profile", s.LOG_COUNT: 1})
    build.set_status(Status(StatusCode.ERROR, "no profile"))
    run.end(build, 100)

    assert "TensorRT error" not in show()
    assert "engine_build_failed: no profile" in show()


def test_shapes_and_ranges_of_inputs_are_drawn_and_not_repeated_below(run, shown):
    shapes = {s.INPUT_SHAPES: ["[1..4..8, 16]", "[16]", "[3]", "[4]", "[5]"]}
    traced = run.start("torch_tensorrt.trace", 0, shapes)
    run.span("torch_tensorrt.execute", 0, 10, {s.INPUT_SHAPES: ["[2, 16]"]}, parent=traced)
    run.span("torch_tensorrt.convert", 10, 20, shapes, parent=traced)
    run.end(traced, 20)

    assert shown(run.path).waterfalls.splitlines()[1:5] == [
        "torch_tensorrt.trace                                  ████████████████   20.0 ms",
        "│  inputs [1..4..8, 16], [16], [3] and 2 more",
        "├─ torch_tensorrt.execute  input [2, 16]              ████████           10.0 ms",
        "└─ torch_tensorrt.convert                                     ████████   10.0 ms",
    ]


def test_an_exception_of_the_users_is_reported_where_it_was_raised_and_its_first_line_alone(run, shown, findings):
    error = ValueError("the first line\nthe second line")
    spans = [run.start("outer", 0)]
    for name in ("middle", "inner"):
        spans.append(run.start(name, 0, parent=spans[-1]))
    for number, span in enumerate(reversed(spans)):
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, f"ValueError: {error}"))
        run.end(span, 10 + number)

    assert (
        shown(run.path).waterfalls
        == """\
trace abc00000000000000000000000000001 · 2026-11-21 10:42:40Z · 3 spans
outer  ValueError                                     ████████████████   12.0 ms
└─ middle  ValueError                                 ███████████████    11.0 ms
   └─ inner  ValueError: the first line               █████████████      10.0 ms
Own time  inner 10.0 ms 83 %, outer 1.00 ms 8 %, middle 1.00 ms 8 %
"""
    )
    assert findings(run.path) == ["ValueError in inner: the first line"]


def test_each_pass_has_a_line_and_the_shortest_share_one(run, shown):
    lower = run.start("torch_tensorrt.lower", 0)
    begin = 0
    for number, us in enumerate([900, 5, 6, 7, *[100] * 14]):
        name = f"pass_{number}"
        run.span(f"torch_tensorrt.pass {name}", begin, begin + us / 1000, {s.PASS_NAME: name}, parent=lower)
        begin += us / 1000
    run.end(lower, begin)

    lines = shown(run.path).waterfalls.splitlines()
    assert lines[2:5] == [
        "├─ torch_tensorrt.pass pass_0                         ██████              900 µs",
        "├─ torch_tensorrt.pass ×3  5.00 µs to 7.00 µs each          ▏            18.0 µs",
        "├─ torch_tensorrt.pass pass_4                               █             100 µs",
    ]
    assert [line.split()[2] for line in lines[4:18]] == [f"pass_{number}" for number in range(4, 18)]


def test_build_phases_of_microseconds_share_a_line_in_a_short_build_too(run, shown):
    build = run.start("tensorrt.build_engine", 0)
    for number in range(12):
        name = f"Phase {number}"
        run.span(f"tensorrt.build_phase {name}", number / 2, number / 2 + 0.1, {s.BUILD_PHASE_NAME: name}, parent=build)
    run.end(build, 10)

    assert shown(run.path).waterfalls.splitlines()[1:3] == [
        "tensorrt.build_engine                                 ████████████████   10.0 ms",
        "└─ tensorrt.build_phase ×12  100 µs each              █████████          1.20 ms",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(run, show, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    parent = run.start("service.with.a.long.name.of_a_main_function", 0, parent=RUN)
    first = parent
    for _ in range(12):
        parent = run.start("torch_tensorrt.convert_to_engine", 0, {s.MODEL_CLASS: "AModel"}, parent=parent)
    details = {s.INPUT_SHAPES: ["[1..4..8, 3, 224, 224]"] * 4, s.FALLBACK_REASON_CLASSES: ["no_converter"]}
    run.span("torch_tensorrt.engine_cache.lookup", 0, 10, {**details, s.CACHE_RESULT: "miss"}, parent=parent)
    for number in range(12):
        run.span(f"a long name of a request number {number}", number, number + 1)
        compilation(run, 1000 * number)
    run.span("last", 0, 86_000_000_000, parent=first)
    write_run(run.path, 0, 100_000_000_000, process_exit_code=0)
    outputs = [show(*words) for words in ([], ["2"], ["--all"], ["--errors"], ["--slowest", "9"])]

    assert [max(len(line) for line in out.splitlines()) <= width for out in outputs] == [True] * 5
    assert outputs[1].endswith(" draws all\n")


NARROW = """\
trace abc00000000000000000000000000001
  2026-11-21 10:42:40Z · 7 spans
…compile · Net        ████████    200 ms
├─ …lower             ████        100 ms
│  ├─ …constant_fold  ██         60.0 ms
│  └─ …replace_fused_rms_norm    40.0 ms
└─ …convert               ████    100 ms
   │  _run_on_acc_0
   └─ …build_engine       ████    100 ms
      │  4 layers
      └─ Determinin…t engines     100 ms
Own time  Determining refit engines
          100 ms 50 %,
          constant_fold 60.0 ms 30 %,
          replace_fused_rms_norm 40.0 ms
          20 %
"""


def test_a_tree_that_is_deep_for_its_width_has_a_column_for_each_level(run, shown, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    parent = None
    for number in range(7):
        parent = run.span(f"level {number}", number, 20 - number, {s.NODES_COUNT: 9 - number}, parent=parent)

    assert shown(run.path).waterfalls.splitlines()[2:9] == [
        "level 0  9 nodes                      ████████████   20.0 ms",
        "└ level 1  8 nodes                    ███████████    18.0 ms",
        " └ level 2  7 nodes                    ██████████    16.0 ms",
        "  └ level 3  6 nodes                   ████████      14.0 ms",
        "   └ level 4  5 nodes                   ███████      12.0 ms",
        "    └ level 5  4 nodes                   ██████      10.0 ms",
        "     └ level 6  3 nodes                  █████       8.00 ms",
    ]


def test_at_40_columns_names_and_the_tree_can_still_be_read(run, shown, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    compiled = run.start("torch_tensorrt.compile", 0, {s.MODEL_CLASS: "Net"})
    lower = run.start("torch_tensorrt.lower", 0, parent=compiled)
    for name, start_ms, end_ms in (("constant_fold", 0, 60), ("replace_fused_rms_norm", 60, 100)):
        run.span(f"torch_tensorrt.pass {name}", start_ms, end_ms, {s.PASS_NAME: name}, parent=lower)
    run.end(lower, 100)
    convert = run.start("torch_tensorrt.convert", 100, {s.ENGINE_NAME: "_run_on_acc_0"}, parent=compiled)
    build = run.start("tensorrt.build_engine", 100, {s.NETWORK_LAYERS: 4}, parent=convert)
    name = "Determining refit engines"
    run.span(f"tensorrt.build_phase {name}", 100, 200, {s.BUILD_PHASE_NAME: name}, parent=build)
    run.end(build, 200)
    run.end(convert, 200)
    run.end(compiled, 200)

    assert shown(run.path).waterfalls == NARROW
