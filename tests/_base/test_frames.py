# SPDX-License-Identifier: Apache-2.0
"""What each thread runs now, without a collection of garbage meanwhile."""

import gc
import subprocess
import sys
import threading

import pytest

from torchspan._base import frames


@pytest.fixture(params=[True, False], ids=["collecting", "not collecting"])
def is_collecting(request):
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_each_thread_has_its_innermost_frame():
    began, leave = threading.Event(), threading.Event()

    def waits():
        began.set()
        leave.wait()

    thread = threading.Thread(target=waits)
    thread.start()
    began.wait()
    found = frames.current_frames()
    leave.set()
    thread.join()
    assert found[threading.get_ident()].f_code.co_name == "current_frames"
    assert thread.ident in found


def test_nothing_is_collected_meanwhile_and_collections_continue_as_before(is_collecting, monkeypatch):
    """On the versions on which a collection could stop the process."""
    seen = []
    monkeypatch.setattr(frames, "_IS_SAFE", False)
    monkeypatch.setattr(sys, "_current_frames", lambda: seen.append(gc.isenabled()) or {})
    assert frames.current_frames() == {}
    assert (seen, gc.isenabled()) == ([False], is_collecting)


def test_collections_continue_after_an_error(is_collecting, monkeypatch):
    def fails():
        raise MemoryError

    monkeypatch.setattr(frames, "_IS_SAFE", False)
    monkeypatch.setattr(sys, "_current_frames", fails)
    with pytest.raises(MemoryError):
        frames.current_frames()
    assert gc.isenabled() is is_collecting


PROGRAM = """
import gc, threading
from torchspan._base.frames import current_frames

class Holder:
    pass

leave = threading.Event()
for _ in range(20):
    threading.Thread(target=leave.wait).start()
gc.set_threshold(20, 10, 10)
for _ in range(20_000):
    holder = Holder()
    holder.itself, holder.local = holder, threading.local()
    del holder
    current_frames()
leave.set()
print("ended")
"""


def test_a_process_with_garbage_of_threads_does_not_stop():
    """With `sys._current_frames` in its place this program stops forever on Python 3.11.7."""
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "ended\n", "")
