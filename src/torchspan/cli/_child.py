# SPDX-License-Identifier: Apache-2.0
"""Running a program so that the caller cannot tell the difference: status, signals, output."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torchspan.cli import _stderr_lines as streams
from torchspan.cli._command import CommandError
from torchspan.cli._signals import Signals

_PR_SET_PDEATHSIG = 1


def find(program: str) -> str:
    """The file that a shell would start. Raises CommandError with a shell's status: 127 not found, 126 no program."""
    executable = shutil.which(program)
    if executable:
        return executable
    is_script = program.endswith(".py") and Path(program).is_file()
    hint = f"; to run it with Python: torchspan run -- python {program}" if is_script else ""
    if Path(program).name == program:
        raise CommandError(f"{program}: command not found in PATH{hint}", 127)
    if not Path(program).exists():
        raise CommandError(f"{program}: no such file; check the path", 127)
    raise CommandError(f"{program}: not an executable file{hint or '; allow its execution with chmod +x'}", 126)


class Ended(NamedTuple):
    """How a program ended.

    Attributes:
        status: Its exit status, or the negative number of the signal that ended it.
        pid: Its process id.
        duration_ns: Nanoseconds from before its start to after its end.
    """

    status: int
    pid: int
    duration_ns: int


Then = Callable[[Ended], None]


def run(command: Sequence[str], environ: Mapping[str, str], then: Then) -> int:
    """Run the program to its end, call `then` with how it ended, and return its status.

    Signals that a process sends to this one are passed to the program. A Ctrl-C while `then` runs ends `then` alone. When
    this process is killed, the program does not outlive it (Linux). Raises CommandError when the program cannot be started.
    """
    signals = Signals()
    try:
        ended = _accompanied(command, environ, signals)
        with contextlib.suppress(KeyboardInterrupt):
            then(ended)
    finally:
        signals.close()
    return ended.status


def _accompanied(command: Sequence[str], environ: Mapping[str, str], signals: Signals) -> Ended:
    start_ns = time.monotonic_ns()
    die_with_parent = _death_with_parent()

    def prepare() -> None:
        signals.restore_in_program()
        die_with_parent()

    # No thread is running that could hold a lock at the fork: nothing that starts one is imported before.
    with _start(command, environ, preexec_fn=prepare) as child:
        child.returncode = os.waitstatus_to_exitcode(signals.accompany(child.pid))
    return Ended(child.returncode, child.pid, time.monotonic_ns() - start_ns)


def _start(command: Sequence[str], environ: Mapping[str, str], **options: Any) -> subprocess.Popen[bytes]:
    try:
        # close_fds would close what the caller has handed down to the program (a make jobserver, systemd's sockets).
        return subprocess.Popen(list(command), env=dict(environ), close_fds=False, **options)
    except OSError as error:
        hint = " (a script needs a first line such as #!/usr/bin/env python)" if error.errno == errno.ENOEXEC else ""
        raise CommandError(f"{command[0]}: {error.strerror}{hint}", 126) from None


def _death_with_parent() -> Callable[[], None]:
    """What has to be called in a forked child so that SIGKILL ends it when this process ends, however that ends.

    Children of the program do not inherit it, and outlive the program as they do without `run`. On Linux alone
    (prctl(2), PR_SET_PDEATHSIG); elsewhere the function does nothing.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    parent = os.getpid()
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return lambda: None

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended in between
            os.kill(os.getpid(), signal.SIGKILL)

    return die_with_parent


def exit_like(status: int) -> int:
    """End as the program did: return its exit status, or die of the signal that it died of."""
    if status >= 0:
        return status
    streams.flush()
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
