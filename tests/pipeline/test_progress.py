# SPDX-License-Identifier: Apache-2.0
"""What is seen of a real compilation while it runs, and after it was killed."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch_tensorrt

from support import models
from support.fake_time import FakeTime
from support.receiver import Receiver
from support.tree import named
from torchspan import TorchspanInstrumentor
from torchspan.engine import ActiveWork
from torchspan.start import bridge
from torchspan.traces import read

SLOW = Path(__file__).parent / "slow_program.py"
OPERATOR = torch.ops.aten.special_i1e.default
PATIENCE_S = 180
NAME = "torchspan-heartbeats"


# --- a program of its own, and a receiver ------------------------------------------------------------------------


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


def launch(command, *arguments, **variables):
    """Starts the slow program below a command, with variables."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), base.get("PATH", "")])
    common = {"PATH": path, "TORCHSPAN_WITHOUT_GPU": "1", "TORCHSPAN_HEARTBEAT": "0.5"}
    return subprocess.Popen(
        [*command, sys.executable, str(SLOW), *arguments],
        env={**base, **common, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )


def end(program):
    """It has ended afterwards."""
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)
    program.communicate()


@pytest.fixture
def start():
    """Launches a program that has ended after the test."""
    started = []

    def call(command, *arguments, **variables):
        started.append(launch(command, *arguments, **variables))
        return started[-1]

    yield call
    for each in started:
        end(each)


INSTRUMENTED = ("opentelemetry-instrument",)
HOUR = str(3_600_000)  # milliseconds: only the end of the program sends anything
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "200"}
TO_THE_END = {
    "3 seconds": (["3"], SOON),
    "with metrics": (["2"], {**SOON, "OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "400"}),
    "with a fork": (["2", "fork"], {"OTEL_BSP_SCHEDULE_DELAY": HOUR}),
}
"""Programs that run to their end: their arguments and variables."""


@pytest.fixture(scope="module")
def ended():
    """`ended(name)`: the receiver of one of TO_THE_END, which runs when it is asked for."""
    receivers, programs = {}, {}
    try:

        def wait(name):
            arguments, variables = TO_THE_END[name]
            receivers[name] = Receiver()
            environment = {**receivers[name].environment(), **variables}
            programs[name] = launch(INSTRUMENTED, *arguments, **environment)
            out, err = programs[name].communicate(timeout=PATIENCE_S)
            assert (programs[name].returncode, out) == (0, "compiling\ncompiled\n"), err
            return receivers[name]

        yield wait
    finally:
        for program in programs.values():
            end(program)
        for receiver in receivers.values():
            receiver.stop()


def reported(receiver):
    return [span for span in receiver.spans() if span.name == "torchspan.progress"]


@pytest.mark.slow
def test_a_compilation_of_3_seconds_is_reported_at_least_4_times_before_its_span_arrives(ended):
    spans = ended("3 seconds").spans()
    whole = named(spans, "torch_tensorrt.compile")
    before = [span for span in spans[: spans.index(whole)] if span.name == "torchspan.progress"]
    assert len(before) >= 4
    assert [span.attributes["torchspan.progress.number"] for span in before] == list(range(1, len(before) + 1))
    assert {(span.trace_id, span.parent_id) for span in before} == {(whole.trace_id, whole.span_id)}
    assert {span.scope for span in before} == {"torchspan"}
    assert all(whole.start_ns <= span.start_ns < span.end_ns <= whole.end_ns for span in before)
    elapsed = [span.attributes["torchspan.progress.elapsed"] for span in before]
    assert elapsed == pytest.approx([(span.start_ns - whole.start_ns) / 1e9 for span in before], abs=1e-6)
    slow = [span for span in before if span.attributes["torchspan.progress.running"].endswith("construct_network")]
    assert len(slow) >= 3
    assert slow[-1].attributes == {
        "torchspan.keep": True,
        "torchspan.progress.work": "torch_tensorrt.compile",
        "torchspan.progress.elapsed": slow[-1].attributes["torchspan.progress.elapsed"],
        "torchspan.progress.running": "torch_tensorrt.construct_network",
        "torchspan.progress.running_elapsed": slow[-1].attributes["torchspan.progress.running_elapsed"],
        "torchspan.progress.number": slow[-1].attributes["torchspan.progress.number"],
        "torch_tensorrt.engine.name": "_run_on_acc_0",
        "torch.model.class": "Slow",
        "torch_tensorrt.entry_point": "torch_tensorrt.compile",
        "code.file.path": "slow_program.py",
        "code.line.number": 39,
        "code.function.name": "<module>",
    }
    assert 1 < slow[-1].attributes["torchspan.progress.running_elapsed"] < elapsed[-1]


def active_builds(receiver):
    """Every value of the gauge that arrived, in order."""
    return [
        point.as_int
        for request in receiver.metrics()
        for of_resource in request.resource_metrics
        for of_scope in of_resource.scope_metrics
        for metric in of_scope.metrics
        if metric.name == "torch_tensorrt.build.active"
        for point in metric.sum.data_points
    ]


def test_the_gauge_of_active_builds_is_1_at_each_export_meanwhile_and_0_at_the_end(ended):
    values = active_builds(ended("with metrics"))
    before, ones = values.index(1), values.count(1)
    assert ones >= 2
    assert values == [0] * before + [1] * ones + [0] * (len(values) - before - ones), "it rises and falls once"
    assert values[-1] == 0


@pytest.mark.slow
def test_heartbeats_export_nothing_of_their_own_accord(ended):
    receiver = ended("with a fork")
    assert len(reported(receiver)) >= 3
    assert receiver.requests == 1


@pytest.mark.slow
def test_a_program_killed_2_seconds_into_a_compilation_has_left_at_least_2_at_the_receiver(receiver, start):
    program = start(INSTRUMENTED, "600", **receiver.environment(), **SOON)
    receiver.wait_for(lambda receiver: reported(receiver), PATIENCE_S)
    time.sleep(2)
    program.kill()
    program.wait()

    assert len(reported(receiver)) >= 2
    assert "torch_tensorrt.compile" not in {span.name for span in receiver.spans()}


@pytest.mark.slow
def test_a_program_killed_2_seconds_into_a_compilation_is_in_the_file_and_in_the_waterfall(start, tmp_path):
    file = tmp_path / "x.jsonl"
    torchspan = (sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())")
    program = start((*torchspan, "run", "--output", str(file), "--", sys.executable, "-c", KILLS_ITSELF), "600")
    _, err = program.communicate(timeout=PATIENCE_S)

    assert program.returncode == -signal.SIGKILL
    assert sum(span.name == "torchspan.progress" for span in read(str(file)).records) >= 2
    screen, drawn = err[err.index("\ntrace ") :].split("\n\n", 1)
    assert re.search(
        r"^1  Slow +\N{MULTIPLICATION SIGN}1 +≥ [\d.]+ m?s  did not end, called at slow_program.py:39$",
        screen,
        re.MULTILINE,
    )
    unfinished = [re.sub(r" *[│└├─█▏▎▍▌▋▊▉ ]+", " ", line) for line in drawn.splitlines() if "≥" in line]
    assert [re.sub(r"[\d.]+ m?s\b", "TIME", line).strip() for line in unfinished] == [
        "torch_tensorrt.compile · Slow did not end ≥ TIME",
        "torch_tensorrt.convert · _run_on_acc_0 ≥ TIME",
        "torch_tensorrt.construct_network did not end ≥ TIME",
    ]
    assert (
        "torchspan: SIGKILL in torch_tensorrt.construct_network (torch_tensorrt.compile · slow_program.py:39 · Slow)\n"
        in err
    )
    assert "torchspan.progress" not in drawn
    assert "├─ torch_tensorrt.trace " in drawn


KILLS_ITSELF = """
import json, os, pathlib, runpy, signal, sys, threading, time
def kill():
    time.sleep(2)
    file = pathlib.Path(json.loads(os.environ["TORCHSPAN_RUN"])["file"])
    while '"torchspan.progress.running","value":{"stringValue":"torch_tensorrt.construct_network"}' not in file.read_text():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)
import torch_tensorrt
compile_ = torch_tensorrt.compile
def compile(*args, **kwargs):
    threading.Thread(target=kill, daemon=True).start()
    return compile_(*args, **kwargs)
torch_tensorrt.compile = compile
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0])
"""
"""Runs the program that its arguments name, and kills itself two seconds after that began to compile, or on a slow machine
when it has come as far as in two seconds on another."""


@pytest.mark.slow
def test_a_receiver_that_never_answers_does_not_hold_up_the_compilation(start):
    with Receiver(answers=False) as receiver:
        program = start(INSTRUMENTED, "1", **receiver.environment(), **SOON, OTEL_EXPORTER_OTLP_TIMEOUT="3")
        receiver.wait_for(lambda receiver: receiver.requests, PATIENCE_S)
        assert [program.stdout.readline() for _ in range(2)] == ["compiling\n", "compiled\n"]
        program.wait(timeout=PATIENCE_S)
        assert program.returncode == 0


def test_a_child_forked_during_a_compilation_tells_nothing_of_it(ended):
    receiver = ended("with a fork")
    numbers = [span.attributes["torchspan.progress.number"] for span in reported(receiver)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 3
    assert len({span.resource["service.instance.id"] for span in receiver.spans()}) == 1


# --- in this process ---------------------------------------------------------------------------------------------


@pytest.fixture
def active(monkeypatch):
    """What the session that a test begins keeps of active work, in a list: of long work, and of builds."""
    made = []

    class Kept(ActiveWork):
        def __init__(self, *which):
            super().__init__(*which)
            made.append(self)

    monkeypatch.setattr(bridge.engine, "ActiveWork", Kept)
    return made


def threads():
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def compiled(model_class=models.Mlp, x=None):
    x = torch.ones(2, 16) if x is None else x
    return torch_tensorrt.compile(models.seeded(model_class), ir="dynamo", inputs=[x], min_block_size=1)


def wait_for_spans(exporter, count):
    deadline = time.monotonic() + 60
    while sum(span.name == "torchspan.progress" for span in exporter.get_finished_spans()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_compilation_shorter_than_the_first_interval_is_not_reported(instrument, exporter, active, monkeypatch):
    FakeTime(monkeypatch)  # stands still
    instrument(heartbeat=600)
    compiled()

    assert [len(each) for each in active] == [0]
    assert "torchspan.progress" not in {span.name for span in exporter.get_finished_spans()}


def test_disabled_nothing_is_reported_and_there_is_no_thread(instrument, exporter):
    instrument(heartbeat=0)
    compiled()
    assert "torchspan.progress" not in {span.name for span in exporter.get_finished_spans()}
    assert threads() == []


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, also where the suite runs in a shell's background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("how", [ValueError, KeyboardInterrupt, SystemExit])
def test_after_an_exception_control_c_or_an_exit_nothing_is_active_or_reported(
    instrument, exporter, active, converter, how
):
    """The compilation ends after two heartbeats, in the converter."""

    def fails():
        (work,) = active[0].events()
        assert work.name == "torch_tensorrt.compile"
        wait_for_spans(exporter, 2)
        if how is KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        if how is SystemExit:
            sys.exit(3)
        raise ValueError("boom")

    instrument(heartbeat=0.1)
    converter(fails)
    with pytest.raises(how):
        compiled(models.Fallback, models.image())

    assert len(active[0]) == 0
    whole = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    assert whole.attributes["error.type"] == how.__name__
    time.sleep(0.3)
    reported = [span for span in exporter.get_finished_spans() if span.name == "torchspan.progress"]
    assert all(whole.start_time <= span.start_time < span.end_time <= whole.end_time for span in reported)
    (thread,) = threads()
    TorchspanInstrumentor().uninstrument()
    thread.join(60)
    assert threads() == []


def test_the_thread_runs_while_tensorrt_builds(instrument, exporter, converter):
    """The builder lets other threads of Python run: what is reported during a build is not only its start."""
    instrument(heartbeat=0.1)
    x = torch.ones(1, 16, dtype=torch.int64)
    program = torch_tensorrt.dynamo.trace(models.bert(), arg_inputs=[x])
    torch_tensorrt.dynamo.compile(program, arg_inputs=[x], min_block_size=1)
    spans = exporter.get_finished_spans()
    builds = [span for span in spans if span.name == "tensorrt.build_engine"]  # 2.11 makes several engines of it
    build = max(builds, key=lambda span: span.end_time - span.start_time)
    inside = [
        span
        for span in spans
        if span.name == "torchspan.progress" and build.start_time < span.start_time < build.end_time
    ]
    assert len(inside) >= (build.end_time - build.start_time) / 0.1e9 / 3
