# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of torchspan, started by `opentelemetry-instrument`."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))


@dataclass(frozen=True)
class Ran:
    """A program that has ended: its status, and what it printed on both streams."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def clean():
    """The environment without what configures OpenTelemetry or torchspan."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "TORCHSPAN_")) and name not in {"TRACEPARENT", "TRACESTATE", "BAGGAGE"}
    }


@pytest.fixture(scope="session")
def ran(clean, tmp_path_factory):
    """`ran(program, command=(), **variables)`: the text as a program, started by `command` and Python."""

    def run(program, *, command=(), path=(), **variables):
        folder = tmp_path_factory.mktemp("program")
        (folder / "app.py").write_text(program, encoding="utf-8")
        search = os.pathsep.join([*map(str, path), *filter(None, [clean.get("PYTHONPATH")])])
        done = subprocess.run(
            [*command, sys.executable, "app.py"],
            cwd=folder,
            env={**clean, "PYTHONPATH": search, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def instrumented(ran):
    """`instrumented(program, **variables)`: the same, started by `opentelemetry-instrument`."""
    return lambda program, **options: ran(program, command=[INSTRUMENT], **options)
