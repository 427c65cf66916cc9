# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/waterfall.svg: the row of the convolutional net of `torchspan demo`, compiled again, and its waterfall, as
`torchspan show --svg` draws them.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from torchspan import traces

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "waterfall.svg"
TORCHSPAN = [sys.executable, "-m", "torchspan"]
INSTRUMENTED = [
    sys.executable, "-c",
    "import sys; from opentelemetry.instrumentation.auto_instrumentation import run; sys.exit(run())",
]  # fmt: skip
EXPORTERS = {"OTEL_TRACES_EXPORTER": "torchspan_file", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}


def main(picture=PICTURE):
    """Record the demo into a temporary file, and draw its last trace into `picture`, 96 columns wide."""
    base = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "demo.jsonl")
        program = [*INSTRUMENTED, sys.executable, "-m", "torchspan.cli._demo_program"]
        subprocess.run(program, env={**base, **EXPORTERS, "TORCHSPAN_FILE": str(file)}, check=True)
        trace_id = traces.read(file).one("conv net").trace_id
        show = [*TORCHSPAN, "show", file, "--trace", trace_id, "--svg", picture]
        subprocess.run(show, env={**base, "COLUMNS": "96"}, check=True)


if __name__ == "__main__":
    main()
