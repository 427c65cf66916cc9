# SPDX-License-Identifier: Apache-2.0
"""A function in a forked child."""

import os
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
