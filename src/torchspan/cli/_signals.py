# SPDX-License-Identifier: Apache-2.0
"""Signals of `torchspan run`: each reaches the program as often as it would without `run`.

A terminal sends a signal to the whole process group, `timeout` and a shell's `kill %1` too, systemd to each process of
the control group, `pkill` to each that it finds. All of these reach the program by themselves, since it is in the group
of `run`. What is sent to `run` alone has to be passed on. The signal itself does not say which of the two it was. An
idle process alongside the program does (`Sibling`): what reaches both was sent to many.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

# --- a process alongside, which receives signals to the group -------------------------------------------------------
_DEVICES = (0, 1, 2)
_LOOK_S = 0.05
"""Between two looks at a program that is stopped."""
_START_OF_ARGUMENTS, _END_OF_ARGUMENTS = 45, 46
"""Of /proc/<pid>/stat, counted from the field behind the command's name (arg_start and arg_end in proc_pid_stat(5))."""


class Sibling:
    """An idle process in the process group, session, terminal and control group of this one and of the program.

    It reports each signal that reaches it, and continues this process when that was stopped with the program and the program
    alone is continued. Handlers of the signals to report must be installed before. It shows the program's name and arguments, so that `pkill -f app.py` selects it with the program and
    `pkill torchspan` does not.

    Args:
        on_orphaned: Called in that process when this one has ended without `end()`, by SIGKILL for example.
    """

    def __init__(self, command: Sequence[str], on_orphaned: Callable[[], None]) -> None:
        self.reports, reports = os.pipe()
        open_end, self._open_end = os.pipe()
        for descriptor in (self.reports, reports):
            os.set_blocking(descriptor, False)
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._open_end)
            _wait(reports, open_end, parent, command, on_orphaned)
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
        pending = (_field(self._pid, name) or "0" for name in ("SigPnd", "ShdPnd"))
        return any(int(numbers, 16) >> (number - 1) & 1 for numbers in pending)

    def watch(self, program: int) -> None:
        """Have it continue this process, once that is stopped, as soon as the program is not stopped any more. 0: no longer."""
        os.write(self._open_end, b"%d " % program)

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


def _wait(reports: int, open_end: int, parent: int, command: Sequence[str], on_orphaned: Callable[[], None]) -> None:
    """The life of that process. Never returns: nothing that the parent has registered for its exit must run here."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for device in _DEVICES:  # a reader of the program's output waits for the last process that could write to it
            os.dup2(null, device)
        signal.set_wakeup_fd(reports, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        with contextlib.suppress(Exception):
            _look_like(command)
        program = 0
        while True:
            if not select.select([open_end], [], [], _LOOK_S if program else None)[0]:
                if _is_stopped(parent) and not _is_stopped(program):
                    os.kill(parent, signal.SIGCONT)
            elif message := os.read(open_end, 4096):
                program = int(message.split()[-1])
            else:  # the parent has ended
                break
        on_orphaned()
    finally:
        os._exit(0)


def _is_stopped(pid: int) -> bool:
    return _field(pid, "State").startswith(("T", "t"))


def _field(pid: int, name: str) -> str:
    """A field of /proc/<pid>/status. Empty where there is no such process, or no /proc."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")
    return ""


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


# ------------------------------------------------------------------------------------------------------------------
_GRACE_S = 0.1
"""Time within which a sender of one signal to many processes reaches all of them: what `run` alone got is passed on
that much later."""
_LATE_S = 1.0
"""Time after the program's end in which a signal is taken for the one that ended the program."""
_NEVER = float("-inf")
_KEPT = frozenset(
    getattr(signal, name)
    for name in (
        # No process can handle these.
        "SIGKILL",
        "SIGSTOP",
        # Faults of this process.
        "SIGSEGV",
        "SIGBUS",
        "SIGFPE",
        "SIGILL",
        "SIGSYS",
        "SIGTRAP",
        # Python ignores these in itself. `subprocess` restores them for the program.
        "SIGPIPE",
        "SIGXFSZ",
    )
    if hasattr(signal, name)
)
_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
_JOB_CONTROL = tuple(
    getattr(signal, name) for name in ("SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT") if hasattr(signal, name)
)


class Signals:
    """Handles all signals of this process from its making to `close()`. For systems with `fork`.

    Args:
        command: What the program will be called with.
        on_orphaned: Called when this process was killed meanwhile.
    """

    def __init__(self, command: Sequence[str], on_orphaned: Callable[[], None]) -> None:
        self._waiting: deque[tuple[int, float]] = deque()
        # When each signal was last reported: between the two readings of the reports.
        self._reached_many: dict[int, tuple[float, float]] = {}
        self._last_reading = time.monotonic()
        self._ended: float | None = None
        self._wakeup, wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(wakeup, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._before: dict[int, Any] = {}
        for number in sorted(signal.valid_signals() - _KEPT):
            self._before[number] = signal.signal(number, self._receive)
        self._sibling: Sibling | None = None
        with contextlib.suppress(OSError):  # no process more: then signals to the whole group arrive twice
            self._sibling = Sibling(command, on_orphaned)
            self._selector.register(self._sibling.reports, selectors.EVENT_READ)
        # After the fork, so that only this process writes there.
        self._wakeup_before = signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        self._wakeup_writer = wakeup
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def restore_in_program(self) -> None:
        """Between fork and exec: ignored signals are ignored and blocked ones blocked as this process found them."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if handler is signal.SIG_IGN else signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def accompany(self, pid: int) -> int:
        """Wait for the end of a program that has just been started, and return `os.waitpid`'s status.

        Signals that this process alone gets are passed to it. When it is stopped (Ctrl-Z), this process stops as well.
        """
        early, self._waiting = self._waiting, deque()
        for number, _ in early:  # before it was there, so that it cannot have got them
            _send(pid, number)
        while True:
            # SIGCHLD has a handler, so that a change of the program's state ends the waiting.
            self._selector.select(self._patience())
            self._take_reports()
            reaped, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if reaped and os.WIFSTOPPED(status):
                self._stop_like(pid, os.WSTOPSIG(status))
            elif reaped:
                self._program_ended()
                return status
            self._pass_on(pid)

    def close(self) -> None:
        """Give the signals back."""
        self._give_back(self._before)
        signal.set_wakeup_fd(self._wakeup_before)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        self._selector.close()
        os.close(self._wakeup)
        os.close(self._wakeup_writer)
        if self._sibling is not None:
            self._sibling.end()

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self._ended is None:
            if number != signal.SIGCHLD:
                self._waiting.append((number, time.monotonic()))
        elif time.monotonic() - self._ended > _LATE_S:
            raise KeyboardInterrupt

    def _patience(self) -> float | None:
        return max(self._waiting[0][1] + _GRACE_S - time.monotonic(), 0) if self._waiting else None

    def _take_reports(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wakeup, 4096)
        if self._sibling is not None:
            reports, now = self._sibling.received(), time.monotonic()
            for number in reports:
                self._reached_many[number] = (self._last_reading, now)
            self._last_reading = now

    def _pass_on(self, pid: int) -> None:
        """Pass on what was not seen to reach many processes in time."""
        now = time.monotonic()
        waiting, self._waiting = self._waiting, deque()
        has_left = _has_left_the_group(pid)
        for number, at in waiting:
            if has_left:
                _send(pid, number)
            elif self._has_reached_many(number, at):
                continue
            elif now - at < _GRACE_S:
                self._waiting.append((number, at))
            elif self._sibling is None or not self._sibling.is_about_to_receive(number):
                _send(pid, number)
                if number == signal.SIGCONT and self._sibling is not None:
                    self._sibling.resume()

    def _has_reached_many(self, number: int, at: float) -> bool:
        """Whether the sibling got the signal as well, at the same time."""
        # SIGCONT takes away a stop signal that the sibling had no time to report, and the other way round.
        for same in _JOB_CONTROL if number in _JOB_CONTROL else (number,):
            earliest, latest = self._reached_many.get(same, (_NEVER, _NEVER))
            if earliest - _GRACE_S <= at <= latest + _GRACE_S:
                return True
        return False

    def _stop_like(self, pid: int, number: int) -> None:
        """Stop by the signal that stopped the program, unless that has been continued or has ended since."""
        # Signals about stopping have done what they are for. After the pause they would be taken for new ones.
        self._pass_on(pid)
        self._waiting = deque(entry for entry in self._waiting if entry[0] not in _JOB_CONTROL)
        if self._sibling is not None:
            self._sibling.watch(pid)
        if number == signal.SIGSTOP:
            if not _has_changed(pid):
                os.kill(os.getpid(), number)
        else:
            # Blocked, it waits, and a SIGCONT that comes before it is let in takes it away.
            signal.pthread_sigmask(signal.SIG_BLOCK, [number])
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            if _has_changed(pid):
                signal.signal(number, signal.SIG_IGN)  # takes it away as well
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
            signal.signal(number, self._receive)
        if self._sibling is not None:
            self._sibling.watch(0)
        if _has_changed(pid):  # it needs no SIGCONT: that came from the sibling, or the program got it as well
            self._waiting = deque(entry for entry in self._waiting if entry[0] != signal.SIGCONT)

    def _program_ended(self) -> None:
        """From now on signals are for this process. Those that still belong to the program's end are no more than that."""
        self._ended = time.monotonic()
        self._give_back(
            number
            for number, handler in self._before.items()
            if number not in _ENDING or handler is signal.SIG_IGN  # `nohup`: continues being ignored
        )

    def _give_back(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            handler = self._before[number]
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: it runs as another user now
        os.kill(pid, number)


def _has_left_the_group(pid: int) -> bool:
    """Whether the program got a process group of its own, where without `run` it would lead the group of this process.

    An interactive shell does so, which as a job of another shell leads its group from the start.
    """
    with contextlib.suppress(ProcessLookupError):
        return os.getpgrp() == os.getpid() != os.getpgid(pid)
    return False


def _has_changed(pid: int) -> bool:
    """Whether a program that was stopped has been continued or has ended."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return False
    return os.waitid(os.P_PID, pid, os.WCONTINUED | os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
