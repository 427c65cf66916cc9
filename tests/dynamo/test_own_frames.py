# SPDX-License-Identifier: Apache-2.0
"""Dynamo is given no frame of torchspan's: it counts as many frames as in the bare program."""

import concurrent.futures
import subprocess
import threading

import pytest
import torch
from opentelemetry import trace
from torch._dynamo.utils import counters

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # Dynamo's, of what it does not trace in the standard library


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
        return x + subprocess.run(["true"], check=False).returncode

    torch.compile(work, backend="eager")(x)


def frames(work):
    """What Dynamo counts of the second one of two runs: at the first one, libraries import what they need."""
    for _ in range(2):
        torch._dynamo.reset()
        counters.clear()
        with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))):
            work(torch.ones(2, 4))
    return dict(counters["frames"]), sorted(counters["graph_break"])


@pytest.mark.parametrize("work", [backward, thread, item, process], ids=lambda work: work.__name__)
def test_dynamo_counts_the_frames_and_breaks_of_the_bare_program(instrument, work):
    bare = frames(work)
    instrument()
    assert frames(work) == bare
