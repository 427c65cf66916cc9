# SPDX-License-Identifier: Apache-2.0
"""How a program ends below `run` whose exporters do not answer. Without a limit these programs would not end at all."""

import os
import time

import pytest

HANGING = """
import threading
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult

class Hanging(SpanExporter):
    def export(self, spans):
        threading.Event().wait()
    def shutdown(self):
        threading.Event().wait()

class HangingMetrics(MetricExporter):
    def export(self, data, *args, **kwargs):
        threading.Event().wait()
    def force_flush(self, *args, **kwargs):
        threading.Event().wait()
    def shutdown(self, *args, **kwargs):
        threading.Event().wait()

class Failing(SpanExporter):
    def export(self, spans):
        return SpanExportResult.FAILURE

class Unmakable(SpanExporter):
    def __init__(self):
        raise OSError("no such collector")
"""

ENTRY_POINTS = """
[opentelemetry_traces_exporter]
hanging = hanging:Hanging
failing = hanging:Failing
unmakable = hanging:Unmakable

[opentelemetry_metrics_exporter]
hanging = hanging:HangingMetrics
"""


@pytest.fixture
def exporters(tmp_path):
    """The variable with which programs find the exporters above."""
    folder = tmp_path / "installed"
    information = folder / "hanging-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "hanging.py").write_text(HANGING)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))}


ENDS = """
import os, sys
from opentelemetry import trace
for number in range(3):
    with trace.get_tracer("app").start_as_current_span(f"span {number}"):
        pass
print("done")
sys.exit(4)
"""

FILED = [(f"span {number}", "torchspan.run") for number in range(3)]


@pytest.mark.fault(
    "exporters",
    "fails, or hangs in its export and at the shutdown",
    lost="3 spans",
    counted="the last line of torchspan run",
)
@pytest.mark.parametrize("name", ["hanging", "failing"])
def test_a_program_ends_whatever_an_exporter_does_and_what_it_did_not_deliver_is_counted(program, exporters, name):
    below = program(ENDS).below_run(exit_s=0.5, OTEL_TRACES_EXPORTER=name, **exporters)

    assert (below.status, below.out) == (4, "done\n")
    assert below.filed == FILED
    assert [report.undelivered for report in below.reports] == [{name: 3}]


@pytest.mark.fault(
    "exporters", "cannot be made", lost="its spans; the file has them", counted="the last line of torchspan run"
)
def test_an_exporter_that_cannot_be_made_is_reported(program, exporters):
    below = program(ENDS).below_run(OTEL_TRACES_EXPORTER="unmakable,console", **exporters)

    assert (below.status, below.filed) == (4, FILED)
    assert [report.errors for report in below.reports] == [
        ["OTEL_TRACES_EXPORTER=unmakable,console: no such collector; to check the exporters: torchspan doctor"],
    ]


def test_a_program_ends_whatever_an_exporter_of_metrics_does(program, exporters):
    text = "from torchspan import observers\n@observers.observable()\ndef work(): pass\nwork()\nprint('done')\n"
    below = program(text).below_run(exit_s=0.5, OTEL_METRICS_EXPORTER="hanging", **exporters)

    assert (below.status, below.out) == (0, "done\n")
    assert below.filed == [("torchspan.observed work", "torchspan.run")]


FORKS = """
import multiprocessing
from opentelemetry import trace
tracer = trace.get_tracer("app")
def work():
    with tracer.start_as_current_span("in a fork"):
        pass
with tracer.start_as_current_span("main"):
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
print(process.exitcode)
"""


@pytest.mark.fault(
    "exporters", "hangs in a forked child", lost="a span in each process", counted="the last line of torchspan run"
)
def test_forked_processes_end_too_and_count_their_own_spans(program, exporters):
    below = program(FORKS).below_run(exit_s=0.5, OTEL_TRACES_EXPORTER="hanging", **exporters)

    assert (below.status, below.out) == (0, "0\n")
    assert below.filed == [("in a fork", "main"), ("main", "torchspan.run")]
    assert [report.undelivered for report in below.reports] == [{"hanging": 1}, {"hanging": 1}]


DAY_S = 86_400
NOT_TAKEN = "an exporter of metrics or of the program's own did not take all that was recorded before a process ended"


def test_a_process_that_gave_up_waiting_leaves_word_for_the_others_of_the_run(program, exporters, tmp_path):
    program(ENDS).below_run(exit_s=0.1, OTEL_TRACES_EXPORTER="hanging", **exporters)

    assert 0 < float((tmp_path / "reports" / "gave-up").read_text()) <= time.monotonic()


def test_a_process_that_delivers_leaves_no_word(program, tmp_path):
    program(ENDS).below_run(OTEL_TRACES_EXPORTER="console")

    assert not (tmp_path / "reports" / "gave-up").exists()


@pytest.mark.parametrize("text", [ENDS, FORKS], ids=["main", "fork"])
def test_a_process_does_not_wait_where_another_one_has_just_given_up(program, exporters, tmp_path, text):
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "gave-up").write_text(str(time.monotonic()))
    variables = {"OTEL_TRACES_EXPORTER": "hanging", "OTEL_METRICS_EXPORTER": "hanging"}
    below = program(text).below_run(exit_s=DAY_S, **variables, **exporters)  # does not end if it waits

    assert {"hanging"} == {name for report in below.reports for name in report.undelivered}


IDLE = """
import multiprocessing, os
from opentelemetry import trace
from torchspan import observers
@observers.observable()
def work(): pass
work()
def nothing(): pass
for _ in range(3):
    process = multiprocessing.get_context("fork").Process(target=nothing)
    process.start()
    process.join()
print(process.exitcode, flush=True)
os._exit(0)  # it would wait for a day
"""


def test_a_forked_process_that_records_nothing_neither_waits_nor_counts_its_parents_spans(program, exporters):
    variables = {"OTEL_TRACES_EXPORTER": "hanging", "OTEL_METRICS_EXPORTER": "hanging"}
    below = program(IDLE).below_run(exit_s=DAY_S, **variables, **exporters)

    assert (below.status, below.out) == (0, "0\n")
    assert [report.undelivered for report in below.reports] == [{}] * 4


def test_metrics_that_are_not_delivered_are_reported(program, exporters):
    text = "from torchspan import observers\n@observers.observable()\ndef work(): pass\nwork()\n"
    below = program(text).below_run(exit_s=0.1, OTEL_METRICS_EXPORTER="hanging", **exporters)

    assert [report.errors for report in below.reports] == [[NOT_TAKEN]]


OUTLIVES = """
import threading
from opentelemetry import trace
def late():
    threading.main_thread().join()
    with trace.get_tracer("app").start_as_current_span("late"):
        import tensorrt
threading.Thread(target=late).start()
"""


@pytest.mark.fault("threads", "one outlives the main thread")
def test_a_thread_that_outlives_the_main_thread_is_recorded(program, tmp_path):
    (tmp_path / "tensorrt.py").write_text("")
    below = program(OUTLIVES).below_run()

    assert (below.status, below.out, below.err) == (0, "", "")
    assert below.filed == [("late", "torchspan.run"), ("torchspan.import", "late")]
    assert [report.errors for report in below.reports] == [[]]


@pytest.mark.fault("exporters", "of the program's own is slow")
def test_an_exporter_of_the_programs_own_has_the_time_that_it_has_without_run(program):
    text = """
import time
from receiver import *
from opentelemetry.sdk.trace.export import BatchSpanProcessor
class Slow(Receiver):
    def export(self, spans):
        time.sleep(1)
        return super().export(spans)
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(Slow()))
trace.set_tracer_provider(provider)
with trace.get_tracer("app").start_as_current_span("root"):
    pass
"""
    app = program(text)
    alone, below = app.alone(), app.below_run(exit_s=0.1)

    assert below.received == alone.received
    assert below.names() == ["root"]


def test_a_span_that_ended_is_in_the_file_when_the_process_is_killed(program):
    text = """
import os, signal
from opentelemetry import trace
tracer = trace.get_tracer("app")
with tracer.start_as_current_span("open"):
    with tracer.start_as_current_span("ended"):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
"""
    below = program(text).below_run()

    assert [name for name, _ in below.filed] == ["ended"]


def test_spans_of_exit_handlers_that_the_program_registered_are_recorded(program):
    text = """
import atexit
from opentelemetry import trace
def span(name):
    with trace.get_tracer("app").start_as_current_span(name):
        pass
atexit.register(span, "at exit")
span("before")
"""
    assert program(text).below_run().filed == [("at exit", "torchspan.run"), ("before", "torchspan.run")]
