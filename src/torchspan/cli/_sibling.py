# SPDX-License-Identifier: Apache-2.0
"""A process alongside the program, by which a signal to many processes is distinguished from one to `torchspan run` alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

_DEVICES = (0, 1, 2)
_START_OF_ARGUMENTS, _END_OF_ARGUMENTS = 45, 46
"""Of /proc/<pid>/stat, counted from the field behind the command's name (arg_start and arg_end in proc_pid_stat(5))."""


class Sibling:
    """An idle process in the process group, session, terminal and control group of this one and of the program.

    It only reports each signal that reaches it. Handlers of the signals to report must be installed
    before. It shows the program's name and arguments, so that `pkill -f app.py` selects it with the program and
    `pkill torchspan` does not.

    on_orphaned: called in that process when this one has ended without `end()`, by SIGKILL for example.
    """

    def __init__(self, command: Sequence[str], on_orphaned: Callable[[], None]) -> None:
        self.reports, reports = os.pipe()
        open_end, self._open_end = os.pipe()
        for descriptor in (self.reports, reports):
            os.set_blocking(descriptor, False)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._open_end)
            _wait(reports, open_end, command, on_orphaned)
        os.close(reports)
        os.close(open_end)

    def received(self) -> bytes:
        """The numbers of the signals that it has reported since the last call; `reports` can be waited on for them."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self.reports, 4096)
        return b""

    def is_about_to_receive(self, number: int) -> bool:
        """Whether a signal has been sent to it that it had no time yet to report, or that it is stopped before.

        Where there is no /proc, False.
        """
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{self._pid}/status").read_text(encoding="utf-8").splitlines():
                name, _, value = line.partition(":")
                if name in ("SigPnd", "ShdPnd") and int(value, 16) >> (number - 1) & 1:
                    return True
        return False

    def resume(self) -> None:
        """Continue it where a SIGSTOP to the whole group has stopped it."""
        os.kill(self._pid, signal.SIGCONT)

    def end(self) -> None:
        """End it and release what it held."""
        os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # SIGCHLD is ignored: the system has reaped it
            os.waitpid(self._pid, 0)
        os.close(self.reports)
        os.close(self._open_end)


def _wait(reports: int, open_end: int, command: Sequence[str], on_orphaned: Callable[[], None]) -> None:
    """The life of that process. Never returns: nothing that the parent has registered for its exit must run here."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for device in _DEVICES:  # a reader of the program's output waits for the last process that could write to it
            os.dup2(null, device)
        signal.set_wakeup_fd(reports, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        with contextlib.suppress(Exception):
            _look_like(command)
        os.read(open_end, 1)  # ends when the parent has
        on_orphaned()
    finally:
        os._exit(0)


def _look_like(command: Sequence[str]) -> None:
    if not sys.platform.startswith("linux"):
        return
    Path("/proc/self/comm").write_text(Path(command[0]).name[:15], encoding="utf-8", errors="surrogateescape")
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[_START_OF_ARGUMENTS]), int(fields[_END_OF_ARGUMENTS])
    # Not the program's arguments alone: a person who reads `ps` sees what it is, a program that looks for a second
    # process like itself does not find it. Not torchspan's name: `pkill -f torchspan` means the parent.
    text = b"\0".join([b"(signals)", *map(os.fsencode, command)])[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
