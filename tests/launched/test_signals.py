# SPDX-License-Identifier: Apache-2.0
"""Programs below `run` that block a signal and wait for it: no thread of an exporter that `run` makes takes it."""

import json
from pathlib import Path

import pytest

from support.hostile_endpoints import closed_port

WAITS = """
import os, signal
from opentelemetry import trace
from torchspan import observers

@observers.observable()
def work():
    pass

work()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait([signal.SIGUSR1]).name)
"""


def exporting(protocol="http/protobuf"):
    return {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{closed_port()}",
    }


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_signal_that_the_program_waits_for_arrives(program, protocol):
    below = program(WAITS).below_run(exit_s=0.1, **exporting(protocol))
    assert (below.status, below.out) == (0, "SIGUSR1\n")


MASKS = """
import json, multiprocessing, signal, threading
from pathlib import Path
from torchspan import observers

@observers.observable()
def work():
    pass

def masks():
    found = {}
    for thread in threading.enumerate():
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        (found[thread.name],) = [line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:")]
    return found

def child(answers):
    work()
    answers.put(masks())

if __name__ == "__main__":
    work()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    print(json.dumps([masks(), answers.get()]))
    process.join()
"""
OPEN, BLOCKED = "0" * 16, "fffffffe3ffbfa27"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="/proc shows the masks of threads")
def test_the_threads_of_exporters_block_all_signals_in_a_forked_child_too(program):
    below = program(MASKS).below_run(exit_s=0.1, **exporting())
    parent, child = json.loads(below.out)
    exporters = {"OtelBatchSpanRecordProcessor": BLOCKED, "OtelPeriodicExportingMetricReader": BLOCKED}
    assert parent == {"MainThread": OPEN, "torchspan end": BLOCKED, **exporters}
    assert child == {"MainThread": OPEN, **exporters}
