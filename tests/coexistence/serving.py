# SPDX-License-Identifier: Apache-2.0
"""A server as a process on a free port of loopback."""

import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

DEADLINE_S = 240


class Server:
    """`python -m` with these arguments, until `end`. It must print its address."""

    def __init__(self, *arguments, environment):
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._log, self._address, self._is_up = [], None, threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        if not self._is_up.wait(DEADLINE_S) or self._address is None:
            raise SystemExit("the server has no address:\n" + "".join(self._log))

    def _read(self):
        for line in self._process.stdout:
            self._log.append(line)
            if self._address is None and (match := re.search(r"http://127\.0\.0\.1:\d+", line)):
                self._address = match[0]
                self._is_up.set()
        self._is_up.set()

    def ask(self):
        """The body of a response."""
        with urllib.request.urlopen(self._address, timeout=DEADLINE_S) as response:
            return response.read().decode()

    def wait_for(self, text, times):
        """Until the log has a text so many times."""
        deadline = time.monotonic() + DEADLINE_S
        while "".join(self._log).count(text) < times:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise SystemExit(f"not in the log {times} times: {text}\n" + "".join(self._log))
            time.sleep(0.05)

    def end(self):
        """Stop it as an operator does. Returns its exit status, and the lines of its log that name torchspan or an exception."""
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(timeout=DEADLINE_S)
        self._reader.join()
        return status, [line for line in self._log if "torchspan" in line or "Traceback" in line]
