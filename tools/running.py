# SPDX-License-Identifier: Apache-2.0
"""Starts programs that listen on loopback ports, waits until they answer, and stops them by their own process id."""

import http.client
import os
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

READY_S = 60
"""How long a program may take until it answers; the programs here take less than a second on an idle machine."""
STOP_S = 20
"""How long a program may take to end when it is asked to; after that it is killed."""
BELOW_EPHEMERAL = range(20_000, 32_768)
"""Ports that the system gives to no outgoing connection, so that none is taken between being chosen and being used."""


class NotReadyError(Exception):
    """A program ended, or did not answer in time; the message has the end of its output."""


def is_free(port):
    """Whether a program could listen on this port of 127.0.0.1."""
    with socket.socket() as listening:
        # As Go's servers do: a port whose last connections have only just been closed is free.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
            listening.listen()
        except OSError:
            return False
        return True


def free_ports(count):
    """That many different ports of 127.0.0.1 on which no program listens."""
    ports = []
    while len(ports) < count:
        port = random.choice(BELOW_EPHEMERAL)
        if port not in ports and is_free(port):
            ports.append(port)
    return ports


def answers(url):
    """Whether there is an answer with status 200 to a GET."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except (OSError, http.client.HTTPException):
        return False


def _without_telemetry(environ):
    """Without what makes programs of OpenTelemetry trace themselves, with the settings of another."""
    return {name: value for name, value in environ.items() if not name.startswith("OTEL_")}


class Running:
    """A program that was started. `process` is its Popen, `output` the file with all that it wrote."""

    def __init__(self, name, command, output, environment, ready_url):
        """Start it; `ready_url` answers 200 once it can be used. output: appended to."""
        self.name = name
        self.output = Path(output)
        self._ready_url = ready_url
        with self.output.open("ab") as file:
            # A session of its own: Ctrl-C in the terminal reaches the process that started it, which stops it once.
            self.process = subprocess.Popen(
                list(map(str, command)),
                cwd=self.output.parent,
                env={**_without_telemetry(os.environ), **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self, limit_s=READY_S):
        """Return when it answers. Raises NotReadyError where it ended, or did not answer within the limit."""
        until = time.monotonic() + limit_s
        while not answers(self._ready_url):
            status = self.process.poll()
            if status is not None:
                raise NotReadyError(f"{self.name} ended with {status} before it was ready:\n{self.said()}")
            if time.monotonic() > until:
                raise NotReadyError(f"{self.name} did not answer {self._ready_url} in {limit_s} s:\n{self.said()}")
            time.sleep(0.05)

    def said(self, lines=40):
        """The last lines of its output."""
        return "\n".join(self.output.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def stop(self, limit_s=STOP_S):
        """Ask it to end, and kill it where it does not. Returns the exit status; done again, the same."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode

    def kill(self):
        """End it at once, as kill -9 does."""
        self.process.kill()
        self.process.wait()
