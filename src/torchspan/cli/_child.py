# SPDX-License-Identifier: Apache-2.0
"""Running a program so that the caller cannot tell the difference: status, signals, output."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from torchspan.cli._command import CommandError

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGQUIT", "SIGBREAK")
_FROM_THE_TERMINAL = ("SIGINT", "SIGQUIT")


def find(program: str) -> str:
    """The file that a shell would start. Raises CommandError with a shell's status: 127 not found, 126 no program."""
    found = shutil.which(program)
    if found:
        return found
    if Path(program).name == program:
        raise CommandError(f"{program}: command not found", 127)
    if not Path(program).exists():
        raise CommandError(f"{program}: no such file", 127)
    if Path(program).is_dir():
        raise CommandError(f"{program}: is a folder", 126)
    hint = f"; to run it with Python: torchspan run -- python {program}" if program.endswith(".py") else ""
    raise CommandError(f"{program}: not executable{hint}", 126)


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the program to its end and return its status, a negative signal number if a signal ended it.

    Signals sent to this process go on to the program, and this process outlives it. Raises CommandError when the
    program cannot be started.
    """
    with _forwarding() as forwarder:
        try:
            # close_fds would close what the caller has handed down to the program (a make jobserver, systemd's sockets).
            child = subprocess.Popen(list(command), env=dict(environ), close_fds=False)
        except OSError as error:
            hint = " (a script needs a first line such as #!/usr/bin/env python)" if error.errno == 8 else ""
            raise CommandError(f"{command[0]}: {error.strerror}{hint}", 126) from None
        forwarder.to(child)
        return child.wait()


def exit_like(status: int) -> int:
    """End as the program did: return its exit status, or die of the signal that it died of."""
    if status >= 0:
        return status
    sys.stdout.flush()
    sys.stderr.flush()
    number = -status
    # The program's crash was reported by itself; a second report and a second core file would be this process's.
    faulthandler.disable()
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


class _Forwarder:
    """A signal handler that passes signals on, and keeps those that come before there is a child."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._pending: list[int] = []

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if signal.Signals(number).name in _FROM_THE_TERMINAL and _in_foreground():
            return  # the terminal has sent it to the child as well
        if self._child is None:
            self._pending.append(number)
        else:
            self._child.send_signal(number)

    def to(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        for number in self._pending:
            child.send_signal(number)


@contextlib.contextmanager
def _forwarding() -> Iterator[_Forwarder]:
    """Handle the signals inside. One that is ignored (`nohup`) stays so, here and in the child."""
    forwarder = _Forwarder()
    before = {}
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, forwarder)
    try:
        yield forwarder
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether Ctrl-C on the controlling terminal reaches this process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
