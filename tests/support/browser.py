# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium with one page, over the DevTools protocol on the loopback interface.

The test is marked `needs("chromium")`. The browser has an empty profile and sends nothing by itself.
"""

import base64
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
    """A context manager. requested: the addresses that the page asked for. errors: what it reported or threw.

    command: the file of Chromium; without one, that which the test is marked with.
    """

    def __init__(self, command=None):
        self.requested, self.errors = [], []
        self._command = command
        self._number = 0

    def __enter__(self):
        with ExitStack() as stack:
            profile = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="torchspan-browser-", ignore_cleanup_errors=True)
            )
            command = [self._command or program("chromium"), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
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

    def press(self, key, *, shift=False):
        """Press and release a key: `ArrowDown`, `Enter`, `/`."""
        codes = {"Enter": (13, "\r"), "Escape": (27, ""), "ArrowLeft": (37, ""), "ArrowUp": (38, "")}
        codes |= {"ArrowRight": (39, ""), "ArrowDown": (40, ""), "End": (35, ""), "Home": (36, ""), "Tab": (9, "")}
        code, text = codes.get(key, (ord(key[0].upper()), key))
        facts = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **facts)
        self._call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def mouse(self, kind, x, y, **facts):
        """A mouse event at a place of the window: `mousePressed`, `mouseMoved`, `mouseReleased`, `mouseWheel`."""
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", **facts)

    def click(self, x, y):
        """Click at a place of the window."""
        for kind, buttons in (("mousePressed", 1), ("mouseReleased", 0)):
            self.mouse(kind, x, y, buttons=buttons, clickCount=1)

    def resize(self, width, height):
        """The size of the window, in pixels of CSS."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, **features):
        """Media features as a user sets them: `prefer(prefers_color_scheme="dark")`."""
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self._call("Emulation.setEmulatedMedia", features=listed)

    def allow_scripts(self, *, allowed):
        """Whether pages that are opened from now on run their scripts."""
        self._call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def run_first(self, script):
        """What pages that are opened from now on run before everything else, whatever their rules for scripts."""
        self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def pdf(self):
        """The page as it is printed."""
        return base64.b64decode(self._call("Page.printToPDF", printBackground=True)["data"])

    def screenshot(self):
        """What is seen of the page, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

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
        elif event == "Log.entryAdded" and parameters["entry"]["level"] in {"error", "warning"}:
            self.errors.append(parameters["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and parameters["type"] in {"error", "warning", "assert"}:
            self.errors.append(parameters["args"])
