# SPDX-License-Identifier: Apache-2.0
"""A function in a forked child, and locks that another thread holds at the fork."""

import contextlib
import os
import threading
import traceback


def in_forked_child(function):
    """The `repr` of what the function returns in a forked child, or the traceback of what it raises."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = repr(function())
        except BaseException:
            answer = traceback.format_exc()
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    try:
        with os.fdopen(read, "rb") as pipe:
            return pipe.read().decode()
    finally:
        os.waitpid(pid, 0)


@contextlib.contextmanager
def held_elsewhere(*locks):
    """Inside, another thread holds the locks."""
    has_them, over = threading.Event(), threading.Event()

    def hold():
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            has_them.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_them.wait(60)
    try:
        yield
    finally:
        over.set()
        thread.join()
