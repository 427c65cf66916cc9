# SPDX-License-Identifier: Apache-2.0
"""Threads of torchspan take no signals: the program may block one in its own threads, and wait for it."""

import ast
import signal
import threading
from pathlib import Path

import pytest
import torch

import torchspan
from torchspan.base.thread_starts import start_thread, without_signals

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="/proc shows the masks of threads")

NEVER = {signal.SIGKILL, signal.SIGSTOP}
FAULTS = {signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGTRAP, signal.SIGSYS}
"""What a thread does to itself: blocked, the process would die before the report of a crash is written."""
BLOCKED = signal.valid_signals() - NEVER - FAULTS

STARTING = {
    "BatchSpanProcessor",
    "PeriodicExportingMetricReader",
    "Thread",
    "ThreadPool",
    "ThreadPoolExecutor",
    "Timer",
    "start_new_thread",
}


def starts(file):
    """The names in the code of a file that start threads, except for its own classes of such a name and annotations."""
    tree = ast.parse(file.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - own
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return sorted(STARTING & names)


def test_every_start_of_a_thread_in_the_source_is_one_of_those_that_block_signals():
    source = Path(torchspan.__file__).parent
    found = {str(file.relative_to(source)): names for file in sorted(source.rglob("*.py")) if (names := starts(file))}
    assert found == {
        "base/thread_starts.py": ["Thread"],
        "start/launched/configured.py": [
            "ThreadPoolExecutor"
        ],  # inside `without_signals`: the SDK makes it for its detectors
        "start/launched/exporting.py": [
            "BatchSpanProcessor",
            "PeriodicExportingMetricReader",
        ],  # inside `making_threads`
        "output/sdk/_file_processor.py": ["start_new_thread"],  # inside `without_signals`
    }


def blocked():
    """The signals that the current thread blocks."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_thread_blocks_all_signals_but_those_that_a_thread_sends_itself():
    seen = []
    start_thread("torchspan test", lambda: seen.append(blocked())).join()
    assert seen == [BLOCKED]


def test_the_thread_that_starts_another_keeps_its_own_mask():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        start_thread("torchspan test", blocked).join()
        assert blocked() == {signal.SIGUSR2}
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})


def test_a_thread_that_cannot_be_started_leaves_the_mask():
    def refuse():
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError, match="can't start new thread"):
        without_signals(refuse)
    assert blocked() == set()


def test_an_exception_of_a_handler_arrives_after_the_start_with_the_mask_restored():
    def handler(*_):
        raise KeyError(len(blocked()))

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(KeyError, match="0"):
            without_signals(lambda: signal.raise_signal(signal.SIGUSR1))
        assert blocked() == set()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_threads_that_a_compilation_leaves_block_all_signals(instrument):
    instrument(heartbeat="60")
    torch.compile(torch.sin, backend="eager")(torch.ones(2))
    own = {thread.name: mask_of(thread) for thread in threading.enumerate() if thread.name.startswith("torchspan")}
    assert own == {"torchspan-heartbeats": BLOCKED}


def mask_of(thread):
    """The signals that another thread of this process blocks."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    (mask,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk:"))
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}
