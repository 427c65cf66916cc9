# SPDX-License-Identifier: Apache-2.0
"""A program that ends while its runs are on the device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import span_file

TESTS = Path(__file__).resolve().parents[1]

PROGRAM = """
import torch
from opentelemetry import trace
from pytest import MonkeyPatch
from support.asynchronous_device import AsynchronousDevice
from torchspan.hooks.device import _driver

gpu = AsynchronousDevice(real_time=True)
seconds = None

def backend(graph, _inputs):
    def run(*args):
        if seconds is not None:
            gpu.launch(seconds)
        return graph(*args)
    return run

compiled = torch.compile(lambda: torch.ones(2) + 1, backend=backend)
compiled()  # before there is a device: Dynamo asks it for the states of its random numbers
gpu.install(MonkeyPatch())
_driver.set_thread_local_capture = gpu.set_thread_local_capture
with trace.get_tracer("user").start_as_current_span("request"):
    for seconds in (0.01, 3_600):
        with torch.cuda.stream(torch.cuda.Stream()):
            compiled()
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The runs that the program's file has: a short one and one that the device does not finish."""
    folder = tmp_path_factory.mktemp("ends")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        "TORCHSPAN_GPU_TIME": "sampled",
        "TORCHSPAN_GRAPH_RUNS": "1",
    }
    command = [sys.executable, "-m", "torchspan", "run", "--output", "trace.jsonl", "--", sys.executable, "program.py"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    spans = [span for span in span_file.read(folder / "trace.jsonl") if span.name == "torch.run_graph"]
    return sorted(spans, key=lambda span: span.start_ns)


def test_a_run_that_the_device_finishes_at_once_has_its_time(runs):
    # More than the 10 ms of its work only where the machine paused the program between two calls.
    assert 0.01 <= runs[0].attributes["torch.run_graph.gpu_duration"] <= 1
    assert "torchspan.gpu_time.missing" not in runs[0].attributes


def test_a_run_that_the_device_does_not_finish_is_written_as_running(runs):
    assert runs[1].attributes["torchspan.gpu_time.missing"] == "running"
    assert "torch.run_graph.gpu_duration" not in runs[1].attributes


def test_the_program_has_no_other_run(runs):
    assert len(runs) == 2
