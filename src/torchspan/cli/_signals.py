# SPDX-License-Identifier: Apache-2.0
"""Signals of `torchspan run`, which is in the process group of the program.

What a terminal sends reaches the whole group, so the program has it. What a process sends may be meant for `run` alone
and is passed on. If it was sent to the whole group, the program gets it once more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Iterable
from functools import partial
from types import FrameType
from typing import Any


def _those_of_this_system(*names: str) -> frozenset[int]:
    return frozenset(getattr(signal, name) for name in names if hasattr(signal, name))


_LOOK_S = 0.2
"""Between two looks at the program where no signal says that its state has changed."""
_LATE_S = 1.0
"""Time after the program's end in which a signal is taken for the one that ended the program."""
_SENDER_IS_KNOWN = hasattr(signal, "sigtimedwait")  # macOS has none
_KEPT = _those_of_this_system(
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
_ENDING = _those_of_this_system("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_STOPPING = _those_of_this_system("SIGTSTP", "SIGTTIN", "SIGTTOU")
_USUALLY_OF_THE_SYSTEM = _STOPPING | _those_of_this_system("SIGINT", "SIGQUIT", "SIGWINCH", "SIGINFO", "SIGCHLD")
"""Not passed on where it is unknown who has sent them: the program has them from the terminal."""


class Signals:
    """Takes all signals of this process from its making to `close()`. For systems with `fork`.

    They are blocked, and waited for, since only a signal that is waited for says who has sent it. Handlers get those that
    are not blocked: on macOS, and in a thread that somebody else started in this process.
    """

    def __init__(self) -> None:
        self._handled: deque[int] = deque()
        self._ended: float | None = None
        taken = signal.valid_signals() - _KEPT
        self._blocked = taken if _SENDER_IS_KNOWN else frozenset()
        self._mask = signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        self._before: dict[int, Any] = {number: signal.signal(number, self._receive) for number in sorted(taken)}

    def restore_in_program(self) -> None:
        """Between fork and exec: ignored signals are ignored and blocked ones blocked as this process found them."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if handler is signal.SIG_IGN else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def accompany(self, pid: int) -> int:
        """Wait for the end of a program that has just been started, and return `os.waitpid`'s status.

        Signals that a process sends to this one are passed to it. When it is stopped as a job is (Ctrl-Z), this process
        stops as well. SIGSTOP stops it alone: who continues it by its process id does not know of this process.
        """
        for number in signal.sigpending() - {signal.SIGCHLD}:  # the terminal's too: it may have been before the start
            signal.sigtimedwait([number], 0)
            _send(pid, number)
        has_got_sigcont = False
        while True:
            number = self._to_pass_on(pid)
            if number != signal.SIGCONT:
                _send(pid, number)  # 0 sends nothing
            for status in iter(partial(_change, pid), None):
                if os.WIFSTOPPED(status):
                    has_got_sigcont = False
                    self._stop_like(pid, os.WSTOPSIG(status))
                elif os.WIFCONTINUED(status):
                    has_got_sigcont = True
                else:
                    self._program_ended()
                    return status
            if number == signal.SIGCONT:
                if not has_got_sigcont:  # with this process, as from a shell's `fg`
                    _send(pid, number)
                has_got_sigcont = False

    def close(self) -> None:
        """Give the signals back."""
        self._give_back(self._before)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self._ended is None:
            if number not in _USUALLY_OF_THE_SYSTEM:
                self._handled.append(number)
        elif time.monotonic() - self._ended > _LATE_S:
            raise KeyboardInterrupt

    def _to_pass_on(self, pid: int) -> int:
        """Wait a while for a signal that a process other than the program sends. 0: there is none."""
        if not _SENDER_IS_KNOWN:
            time.sleep(_LOOK_S)
        elif sent := signal.sigtimedwait(self._blocked, _LOOK_S):
            is_of_a_process = sent.si_code <= 0  # SI_USER and its like; SI_KERNEL and CLD_* are above
            return sent.si_signo if is_of_a_process and sent.si_pid != pid else 0
        return self._handled.popleft() if self._handled else 0

    def _stop_like(self, pid: int, number: int) -> None:
        """Stop by the signal that stopped the program, unless that has been continued or has ended since."""
        if number not in _STOPPING:
            return
        signal.signal(number, signal.SIG_DFL)
        # Blocked, it waits, and a SIGCONT that comes before it is let in takes it away.
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        os.kill(os.getpid(), number)
        if _has_changed(pid):
            signal.signal(number, signal.SIG_IGN)  # takes it away as well
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        signal.signal(number, self._receive)

    def _program_ended(self) -> None:
        """From now on signals are for this process. Those that still belong to the program's end are no more than that."""
        self._ended = time.monotonic()
        while _SENDER_IS_KNOWN and signal.sigtimedwait(self._blocked, 0):
            pass
        self._give_back(
            number
            for number, handler in self._before.items()
            if number not in _ENDING or handler is signal.SIG_IGN  # `nohup`: continues being ignored
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _give_back(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            handler = self._before[number]
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: it runs as another user now
        os.kill(pid, number)


def _change(pid: int) -> int | None:
    """The next change of a program's state, as `os.waitpid` says it."""
    changed, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
    return status if changed else None


def _has_changed(pid: int) -> bool:
    """Whether a program that was stopped has been continued or has ended."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return False
    return os.waitid(os.P_PID, pid, os.WCONTINUED | os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
