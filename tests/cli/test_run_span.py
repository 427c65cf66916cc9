# SPDX-License-Identifier: Apache-2.0
"""The span `torchspan.run`, and the line about a program that was killed."""

import os
import shlex
import sys

from support import span_file
from support.receiver import Receiver
from torchspan.cli._child import Ended
from torchspan.cli._conclusion import crash_lines
from torchspan.start.launched.crash import Crash
from torchspan.traces import Span, UnfinishedSpan
from torchspan.traces import trees as trees_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = f"00-{TRACE}-b7ad6b7169203331-01"
TRACED = """
import os, signal, sys
from opentelemetry import trace
tracer = trace.get_tracer("torchspan")
with tracer.start_as_current_span("work"):
    pass
"""


def written(shell, program, status, **environ):
    """What is in the file of a run, by name, and the wrapper's stderr."""
    command = ["run", "--quiet", "--output", "x.jsonl", "--", sys.executable, "-c", TRACED + program]
    result = shell(*command, env={**os.environ, **environ})
    assert result.returncode == status
    return {span.name: span for span in span_file.read(shell.folder / "x.jsonl")}, result.stderr


def test_the_run_is_a_span_around_the_programs_and_a_child_of_the_callers(shell):
    program = "print(os.getpid()); sys.exit(3)"
    spans, err = written(shell, program, 3, TRACEPARENT=CALLER, OTEL_RESOURCE_ATTRIBUTES="service.name=app,team=x")
    run, work = spans["torchspan.run"], spans["work"]

    assert err == ""
    assert (run.trace_id, run.parent_id, run.scope) == (TRACE, "b7ad6b7169203331", "torchspan")
    assert (work.trace_id, work.parent_id) == (TRACE, run.span_id)
    assert run.start_ns < work.start_ns <= work.end_ns < run.end_ns
    assert run.attributes == {"process.pid": work.resource["process.pid"], "process.exit.code": 3}
    assert run.resource == {**work.resource, "process.pid": run.resource["process.pid"]}
    assert run.resource["team"] == "x"


def test_a_program_that_a_signal_ended_has_the_signal_instead_of_a_status(shell):
    program = """
with tracer.start_as_current_span("torch_tensorrt.compile", attributes={"torchspan.keep": True}):
    with tracer.start_as_current_span("tensorrt.build_engine", attributes={"torchspan.keep": True}):
        os.kill(os.getpid(), signal.SIGKILL)
"""
    spans, err = written(shell, program, -9, TRACEPARENT="no traceparent")
    run, work = spans["torchspan.run"], spans["work"]

    assert err == "torchspan: SIGKILL in tensorrt.build_engine (torch_tensorrt.compile)\n"
    assert (run.parent_id, work.parent_id, work.trace_id) == ("", run.span_id, run.trace_id)
    assert run.attributes == {
        "process.pid": work.resource["process.pid"],
        "torchspan.run.signal": "SIGKILL",
        "error.type": "SIGKILL",
    }


def test_a_crash_in_native_code_is_one_line_and_not_a_report_on_stderr(shell):
    (shell.folder / "model.py").write_text(f"""{TRACED}
import ctypes
def forward():
    with tracer.start_as_current_span("tensorrt.build_engine", attributes={{"torchspan.keep": True}}):
        ctypes.string_at(0)
forward()
""")
    crashed = shell("run", "--quiet", "--output", "x.jsonl", "--", sys.executable, "model.py")
    below = shell(
        "run",
        "--quiet",
        "--output",
        "y.jsonl",
        "--",
        "sh",
        "-c",
        f"{shlex.quote(sys.executable)} model.py 2>&1; exit 5",
    )

    assert (crashed.returncode, below.returncode) == (-11, 5)
    assert crashed.stderr == "torchspan: SIGSEGV in tensorrt.build_engine at model.py:11 in forward\n"
    assert below.stderr == crashed.stderr
    assert below.stdout.strip().endswith("Segmentation fault")  # the shell's
    assert "File" not in below.stdout


def test_the_span_goes_to_the_exporter_that_the_variable_names(shell):
    with Receiver() as receiver:
        spans, err = written(shell, "", 0, **receiver.environment())

    assert err == ""
    assert sorted(span.name for span in receiver.spans()) == ["torchspan.run", "work"]
    (run,) = (span for span in receiver.spans() if span.name == "torchspan.run")
    assert run.span_id == spans["torchspan.run"].span_id


def test_an_exporter_that_does_not_take_it_is_named_and_not_waited_for(shell):
    variables = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "TORCHSPAN_RUN_EXIT_TIMEOUT": "0.1",
    }
    _, err = written(shell, "os.kill(os.getpid(), signal.SIGKILL)", -9, **variables)

    assert (
        err == "torchspan: the exporter otlp_proto_http did not deliver the span torchspan.run; the file contains it\n"
    )


def test_a_provider_of_the_programs_own_keeps_the_span_out_of_the_exporter(shell):
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
trace.get_tracer("app").start_span("own").end()
"""
    with Receiver() as receiver:
        command = ["run", "--quiet", "--output", "x.jsonl", "--", sys.executable, "-c", program]
        shell(*command, env={**os.environ, **receiver.environment()})

    assert sorted(span.name for span in span_file.read(shell.folder / "x.jsonl")) == ["own", "torchspan.run"]
    assert receiver.spans() == []


# --- the line about a crash ----------------------------------------------------------------------------------------
PID = 7
SEGFAULT = Crash(PID, "Segmentation fault", "model.py", 21, "forward")
KILLED, LEFT = Ended(-11, PID, 0), Ended(1, PID, 0)


def opened(name, span_id, parent_id="", *, pid=PID, **attributes):
    return UnfinishedSpan(
        TRACE, span_id, parent_id, name, 0, 1, attributes, scope="torchspan", resource={"process.pid": pid}
    )


COMPILE = opened("torch_tensorrt.compile", "01", **{"torch.model.class": "Sequential"})
BUILD = opened("tensorrt.build_engine", "02", "01")


def lines(ended, crashes, spans):
    return list(crash_lines(ended, crashes, trees_of(spans)))


def test_a_crash_is_its_signal_the_stage_the_outermost_work_and_the_users_frame():
    assert lines(KILLED, [SEGFAULT], [COMPILE, BUILD]) == [
        "SIGSEGV in tensorrt.build_engine (torch_tensorrt.compile · Sequential) at model.py:21 in forward"
    ]
    assert lines(KILLED, [SEGFAULT], [COMPILE]) == [
        "SIGSEGV in torch_tensorrt.compile · Sequential at model.py:21 in forward"
    ]


def test_what_is_not_known_of_a_crash_is_left_out():
    assert lines(KILLED, [Crash(PID, "Segmentation fault")], [COMPILE, BUILD]) == [
        "SIGSEGV in tensorrt.build_engine (torch_tensorrt.compile · Sequential)"
    ]
    assert lines(KILLED, [SEGFAULT], []) == ["SIGSEGV at model.py:21 in forward"]
    assert lines(KILLED, [Crash(PID, "Segmentation fault", "<stdin>", None, "<module>")], []) == [
        "SIGSEGV at <stdin> in <module>"
    ]
    assert lines(KILLED, [], []) == []


def test_work_that_ended_and_work_that_may_have_ended_are_not_the_stage():
    ended = Span(TRACE, "01", "", "torch_tensorrt.compile", 0, 1, {}, scope="torchspan", resource={"process.pid": PID})
    maybe = opened("torch_tensorrt.compile", "01", **{"torchspan.incomplete": True})

    assert lines(KILLED, [], [ended]) == []
    assert lines(KILLED, [], [maybe]) == []


def test_processes_below_the_program_have_a_line_each_up_to_three():
    crashes = [Crash(pid, "Aborted", "worker.py", pid, "main") for pid in (21, 22, 23, 24)]

    assert lines(LEFT, crashes, [opened("torch_tensorrt.compile", "01", pid=22)]) == [
        "SIGABRT at worker.py:21 in main",
        "SIGABRT in torch_tensorrt.compile at worker.py:22 in main",
        "SIGABRT at worker.py:23 in main",
        "1 more process crashed",
    ]


def test_the_stage_of_another_process_is_not_the_programs():
    assert lines(KILLED, [SEGFAULT], [opened("torch_tensorrt.compile", "01", pid=8)]) == [
        "SIGSEGV at model.py:21 in forward"
    ]


def test_names_in_the_line_cannot_act_on_a_terminal():
    crash = Crash(PID, "Segmentation fault", "a\x1b[2J.py", 1, "f")

    assert lines(KILLED, [crash], []) == ["SIGSEGV at a\\x1b[2J.py:1 in f"]
