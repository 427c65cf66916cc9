# SPDX-License-Identifier: Apache-2.0
"""A program that ends by SIGTERM right after its work: what `torchspan.flush()` in its handler delivers."""

import signal
import sys
from functools import partial

import pytest

from support.receiver import Receiver

PROGRAM = """
import signal
import torch
import torchspan


def end(number, _frame):
    print(torchspan.flush(timeout=30), flush=True)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


signal.signal(signal.SIGTERM, {handler})


@torch.compile(backend="eager")
def step(x):
    return x.sin()


step(torch.ones(3))
signal.raise_signal(signal.SIGTERM)
"""


def sent(start, handler):
    """What had arrived when the program was gone: its spans and its metrics, by name, and what it printed."""
    with Receiver() as receiver:
        variables = {
            **receiver.environment(),
            "OTEL_METRICS_EXPORTER": "otlp",
            "OTEL_BSP_SCHEDULE_DELAY": "3600000",
            "OTEL_METRIC_EXPORT_INTERVAL": "3600000",
        }
        done = start(PROGRAM.format(handler=handler), **variables)
        assert done.status == -signal.SIGTERM, done.err
        metrics = {
            metric.name
            for request in receiver.metrics()
            for of_resource in request.resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
        }
        return {span.name for span in receiver.spans()}, metrics, done.out


@pytest.fixture(params=["opentelemetry-instrument", "torchspan run"])
def start(request, ran, instrumented):
    """What starts the program. Below `torchspan run` the providers are torchspan's own."""
    run = [sys.executable, "-m", "torchspan", "run", "--quiet", "--output", "run.jsonl", "--"]
    return instrumented if request.param == "opentelemetry-instrument" else partial(ran, command=run)


def test_spans_and_metrics_have_arrived_when_the_program_is_gone(start):
    spans, metrics, printed = sent(start, "end")
    assert "torch.compile_frame" in spans
    assert {"torch.compile.frame.duration", "torchspan.span.emitted"} <= metrics
    assert printed == "True\n"


def test_without_it_nothing_arrives(instrumented):
    assert sent(instrumented, "signal.SIG_DFL") == (set(), set(), "")
