# SPDX-License-Identifier: Apache-2.0
"""Dynamo is given no frame of torchspan's: it counts as many frames as in the bare program."""

import concurrent.futures
import logging
import os
import subprocess
import sys
import threading
import traceback

import pytest
import torch
from opentelemetry import trace
from torch._dynamo.utils import counters

from support.dynamo import clean_dynamo

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # Dynamo's, of what it does not trace in the standard library


@pytest.fixture(autouse=True)
def dynamo():
    """Torchspan is not enabled yet: each test begins with the bare program."""
    with clean_dynamo():
        yield


def backward(x):
    net = torch.nn.Linear(4, 4)
    inner = torch.compile(net, backend="aot_eager")

    def train(x):
        y = inner(x).sum()
        y.backward()
        return y.detach() * 2

    torch.compile(train, backend="aot_eager")(x)


def thread(x):
    def work(x):
        started = threading.Thread(target=int)
        started.start()
        started.join()
        return x + 1

    torch.compile(work, backend="eager")(x)


def item(x):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:

        def work(x):
            pool.submit(int).result()
            return x + 1

        torch.compile(work, backend="eager")(x)


def process(x):
    def work(x):
        return x + subprocess.run(["true"], env={"PATH": os.defpath}, check=False).returncode

    torch.compile(work, backend="eager")(x)


def compiles_inside(x):
    def work(x):
        torch._dynamo.graph_break()
        return torch.compile(torch.nn.Linear(4, 4), backend="eager")(x + 1)

    torch.compile(work, backend="eager")(x)


def frames(work):
    """What Dynamo counts of the second one of two runs: at the first one, libraries import what they need."""
    for _ in range(2):
        torch._dynamo.reset()
        counters.clear()
        with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))):
            work(torch.ones(2, 4))
    return dict(counters["frames"]), sum(counters["graph_break"].values())


@pytest.mark.parametrize("work", [backward, thread, item, process, compiles_inside], ids=lambda work: work.__name__)
def test_dynamo_counts_the_frames_and_breaks_of_the_bare_program(instrument, work):
    bare = frames(work)
    instrument()
    assert frames(work) == bare


def refusing(_graph, _inputs):
    raise ValueError("no graph")


def logged(caplog):
    """The tracebacks that Dynamo logs of a frame that falls back, a (file, function) for each frame."""
    torch._dynamo.reset()
    caplog.clear()
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(lambda x: x + 1, backend=refusing)(torch.ones(2))
    return [
        (frame.filename, frame.name)
        for record in caplog.records
        if record.exc_info
        for frame in traceback.extract_tb(record.exc_info[2])
    ]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="`raise` puts the frame back into the traceback")
def test_the_traceback_that_dynamo_logs_with_suppress_errors_is_that_of_the_bare_program(instrument, caplog):
    caplog.set_level(logging.WARNING, logger="torch._dynamo")
    bare = logged(caplog)
    instrument()
    assert logged(caplog) == bare
    assert bare


def test_a_name_of_the_programs_module_that_is_no_text_is_not_asked_for_one(instrument):
    asked = []

    class Name:
        def __str__(self):
            asked.append(self)
            return "torchspan.of_the_program"

    program = {"__name__": Name(), "refusing": refusing}
    exec("def backend(graph, inputs):\n    refusing(graph, inputs)", program)
    instrument()
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(lambda x: x + 1, backend=program["backend"])(torch.ones(2))
    assert asked == []
