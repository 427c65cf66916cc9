# SPDX-License-Identifier: Apache-2.0
"""A thread of torchspan's that sleeps until there is work."""

import threading

from torchspan._base.background import Background
from torchspan._base.boundaries import Failures


def test_a_thread_that_fails_is_counted_and_the_next_work_starts_another(monkeypatch):
    printed, threads, is_awake = [], [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", printed.append)

    def run(wake):
        threads.append(threading.current_thread())
        if len(threads) == 1:
            raise MemoryError
        while wake.get():
            is_awake.set()

    background, before = Background("torchspan test", run), Failures.total
    background.wake()
    for thread in [thread for thread in threading.enumerate() if thread.name == "torchspan test"]:
        thread.join()
    assert (printed, Failures.total - before) == ([], 1)
    assert background.wake()
    assert is_awake.wait(60)
    assert len(threads) == 2
    background.stop()
    threads[1].join()
