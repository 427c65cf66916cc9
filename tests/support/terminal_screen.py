# SPDX-License-Identifier: Apache-2.0
"""A terminal with a shell in it, which a test types into and looks at; pyte draws what the shell and its programs write."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import pyte

PATIENCE_S = 60
PROMPT = "> "


class TerminalScreen:
    """columns, rows: its size. environ: the shell's environment. written: all bytes that it was sent."""

    def __init__(self, folder, environ, *, columns=80, rows=12):
        self.written = b""
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                os.chdir(folder)
                os.execve("/bin/sh", ["sh", "-i"], {**environ, "PS1": PROMPT, "TERM": "xterm-256color", "ENV": ""})
            os._exit(1)
        self.resize(columns, rows)
        self.wait_for(re.escape(PROMPT.rstrip()) + "$")

    def type(self, text):
        os.write(self._descriptor, text.encode())

    def resize(self, columns, rows):
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def modes(self):
        """The settings of the terminal's line discipline."""
        return termios.tcgetattr(self._descriptor)

    def lines(self):
        """What is on the screen, without empty lines at the end."""
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def wait_for(self, pattern):
        """Read until the pattern is in the lines of the screen. Returns the lines."""
        self.wait_until(lambda: re.search(pattern, "\n".join(self.lines()), re.MULTILINE), pattern)
        return self.lines()

    def wait_until(self, is_so, what=""):
        """Read until `is_so()`."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, (what, self.lines())
            if select.select([self._descriptor], [], [], 0.05)[0]:
                block = os.read(self._descriptor, 65536)
                self.written += block
                self._stream.feed(block)

    def foreground(self):
        """The process group that has the terminal."""
        return os.tcgetpgrp(self._descriptor)

    def close(self):
        """End the shell and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.foreground(), signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._descriptor)
