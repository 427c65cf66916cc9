# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium with one page, over the DevTools protocol on the loopback interface.

The test is marked `needs("chromium")`. The browser has an empty profile and sends nothing by itself.
"""

import json
import re
import subprocess
import tempfile
import time
from contextlib import ExitStack

import websocket

from support.needs import program

OPTIONS = (
    "--headless",
    "--no-sandbox",  # tests may run as root, for whom Chromium refuses to start with it
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # pages that ask other hosts for something get nothing
    "--no-first-run",
    "--remote-debugging-port=0",
)
LIMIT_S = 60
EVERY_ELEMENT = """
const every = (root) => [...root.querySelectorAll("*")].flatMap(
  (each) => each.shadowRoot ? [each, ...every(each.shadowRoot)] : [each]);
"""
"""`every(document)`: the elements of a page, those of shadow trees as well."""


class Browser:
    """A context manager. requested: the addresses that the page asked for. errors: what it reported or threw."""

    def __init__(self):
        self.requested, self.errors = [], []
        self._number = 0

    def __enter__(self):
        with ExitStack() as stack:
            profile = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="torchspan-browser-", ignore_cleanup_errors=True)
            )
            command = [program("chromium"), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            stack.callback(process.communicate)
            stack.callback(process.terminate)
            listening = (re.search(r"DevTools listening on (ws://\S+)", line) for line in process.stderr)
            found = next(filter(None, listening), None)
            assert found, f"Chromium ended with {process.wait()} before it could be driven"
            self._socket = websocket.create_connection(found[1], suppress_origin=True, timeout=LIMIT_S)
            stack.callback(self._socket.close)
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                self._call(f"{domain}.enable")
            self._ending = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._ending.close()

    def open(self, address):
        """Load the page and wait until all of it is there."""
        self._call("Page.navigate", url=address)
        self.wait_for(f"location.href.startsWith({json.dumps(address)}) && document.readyState === 'complete'")

    def type(self, text):
        """Type into the element that has the focus."""
        self._call("Input.insertText", text=text)

    def evaluate(self, expression):
        """The value of a JavaScript expression, and of a promise what it is fulfilled with."""
        block = f"{{ {EVERY_ELEMENT} {expression} }}"
        answer = self._call("Runtime.evaluate", expression=block, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression):
        """Evaluate until the value counts as true, and return it."""
        end = time.monotonic() + LIMIT_S
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end, f"not within {LIMIT_S} s: {expression}"
            time.sleep(0.05)
        return value

    def _call(self, method, **parameters):
        self._number += 1
        session = {"sessionId": self._session} if hasattr(self, "_session") else {}
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters, **session}))
        while (message := json.loads(self._socket.recv())).get("id") != self._number:
            self._noted(message.get("method"), message.get("params"))
        assert "error" not in message, message
        return message["result"]

    def _noted(self, event, parameters):
        if event == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"])
        elif event == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
