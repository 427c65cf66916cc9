# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a program: spans of what ended are where they can be, and nothing of the program fails."""

import os
import signal

import pytest

from support import span_file
from torchspan.traces import UnfinishedSpan, read

needs_signals = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no signals")


def by_name(spans):
    return {span.name: span for span in spans}


def names(receiver):
    """Those of the spans that arrived, without progress, whose number depends on the machine."""
    return [span.name for span in receiver.spans() if span.name != "torchspan.progress"]


# --- ends that Python notices: all spans arrive --------------------------------------------------------------------

LEAVES = """
import sys, time
from compiling import working, phase
from opentelemetry import metrics
metrics.get_meter("program").create_counter("work").add(1)
with working():
    with working(phase.LOWER):
        pass
    with working(phase.BUILD_ENGINE):
        time.sleep(0.5)
        {end}
print("not reached")
"""


@pytest.mark.fault("interpreter", "an exit in the middle of a build")
def test_an_exit_in_the_middle_of_a_build_sends_everything_once(ends, receiver):
    done = ends(LEAVES.format(end="sys.exit(3)"), **{**receiver.environment(), "OTEL_METRICS_EXPORTER": "otlp"})

    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    assert names(receiver) == ["torch_tensorrt.lower", "tensorrt.build_engine", "torch_tensorrt.compile"]
    spans = by_name(receiver.spans())
    assert spans["tensorrt.build_engine"].attributes["error.type"] == "SystemExit"
    assert spans["torch_tensorrt.compile"].attributes["error.type"] == "SystemExit"
    assert spans["torchspan.progress"].parent_id == spans["torch_tensorrt.compile"].span_id
    # Heartbeats caused no request, neither of spans nor of metrics: there is one of each, that of the end.
    assert sorted(path for path, _, _ in receiver.bodies) == ["/v1/metrics", "/v1/traces"]


@pytest.mark.fault("processes", "SIGTERM that the program handles")
@needs_signals
def test_a_sigterm_that_the_program_handles_by_an_exit_sends_everything(ends, receiver):
    end = (
        "import os, signal\n"
        "        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))\n"
        "        os.kill(os.getpid(), signal.SIGTERM)"
    )
    done = ends(LEAVES.format(end=end), **receiver.environment())

    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert names(receiver) == ["torch_tensorrt.lower", "tensorrt.build_engine", "torch_tensorrt.compile"]


def test_an_exception_sends_everything_and_is_the_programs_own(ends, receiver):
    done = ends(LEAVES.format(end="raise RuntimeError('boom')"), **receiver.environment())

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("RuntimeError: boom\n")
    assert names(receiver) == ["torch_tensorrt.lower", "tensorrt.build_engine", "torch_tensorrt.compile"]


IN_A_FLUSH = """
import os, signal, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from torchspan.sdk import FileSpanExporter
class Interrupted(FileSpanExporter):
    calls = 0
    def export(self, spans):
        self.calls += 1
        with self._file._lock:
            done = super().export(spans)
            if self.calls == {which}:
                os.kill(os.getpid(), signal.SIGTERM)
                for _ in range(1000):
                    pass  # the handler runs here, where this is the main thread
        return done
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(BatchSpanProcessor(Interrupted()))
trace.set_tracer_provider(provider)
def stop(number, frame):
    provider.shutdown()
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, stop)
from compiling import working
with working():
    pass
"""


@needs_signals
@pytest.mark.parametrize("which", [1, 2], ids=["at the start of a compilation", "at its end"])
def test_a_handler_that_shuts_the_sdk_down_while_torchspan_writes_a_file_waits_for_nothing(ends, file, which):
    done = ends(IN_A_FLUSH.format(which=which), is_instrumented=False)

    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert span_file.read(file)[0].name == "torchspan.progress"


# --- ends that Python does not notice: torchspan's own file has what ended ---------------------------------------------

KILLED = """
import os, signal, sys, time
from compiling import working, phase
with working():
    pass
with working():
    {before}
    {end}
"""
SUDDEN = {
    "os._exit(5)": 5,
    "os.kill(os.getpid(), signal.SIGTERM)": -signal.SIGTERM,
    "os.kill(os.getpid(), signal.SIGKILL)": -signal.SIGKILL,
}


@pytest.mark.fault(
    "processes", "SIGKILL, os._exit, SIGSEGV", lost="the end of what was running", counted="the waterfall: did not end"
)
@needs_signals
@pytest.mark.parametrize("end", SUDDEN)
def test_a_sudden_end_leaves_what_ended_and_the_start_of_what_was_running_in_the_file(ends, file, end):
    done = ends(KILLED.format(before="pass", end=end), TORCHSPAN_HEARTBEAT="600")

    assert (done.returncode, done.stderr) == (SUDDEN[end], "")
    first, whole, second = span_file.read(file)
    assert (whole.name, first.parent_id) == ("torch_tensorrt.compile", whole.span_id)
    assert [(each.name, each.attributes["torchspan.progress.number"]) for each in (first, second)] == [
        ("torchspan.progress", 0),
        ("torchspan.progress", 0),
    ]
    drawn = [node.span for trace in read(str(file)).traces for node in trace.nodes()]
    assert [(span.name, isinstance(span, UnfinishedSpan)) for span in drawn] == [
        ("torch_tensorrt.compile", False),
        ("torch_tensorrt.compile", True),
    ]
    assert drawn[-1].running is None, "a record of the start says nothing of what was running later"


@needs_signals
def test_a_heartbeat_writes_the_stages_that_ended_before_a_sudden_end(ends, file):
    before = (
        "with working(phase.LOWER):\n        pass\n"
        '    while \'"torchspan.progress.number","value":{"intValue":"1"}\' not in open(os.environ[\'TORCHSPAN_FILE\']).read():\n'
        "        time.sleep(0.02)"
    )
    ends(KILLED.format(before=before, end="os.kill(os.getpid(), signal.SIGTERM)"))

    assert [span.name for span in span_file.read(file) if span.name != "torchspan.progress"] == [
        "torch_tensorrt.compile",
        "torch_tensorrt.lower",
    ]
