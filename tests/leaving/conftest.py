# SPDX-License-Identifier: Apache-2.0
"""Programs that end in one way or another, started as `opentelemetry-instrument` starts them; none imports torch."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.receiver import Receiver

SITE = Path(importlib.util.find_spec("opentelemetry.instrumentation.auto_instrumentation").origin).parent
HOUR = "3600000"

COMPILING = '''
"""Compilations that do nothing, from the bridge and its engine."""
from contextlib import contextmanager
from torchspan.words import settings
from torchspan import phase
from torchspan.start.bridge import Bridge

engine = Bridge(settings.load({}), {}, run=None)._engine

@contextmanager
def working(which=phase.COMPILE):
    """As an adapter has it."""
    event = engine.open(which, {})
    try:
        yield
    except BaseException as error:
        engine.close(event, error)
        raise
    engine.close(event)
'''


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def file(tmp_path):
    """The file of `torchspan_file`."""
    return tmp_path / "trace.jsonl"


@pytest.fixture
def ends(tmp_path):
    """`ends(text, **variables)` runs the program; what it records leaves only when something has it sent.

    is_instrumented: whether OpenTelemetry has set the SDK up and torchspan is on.
    """
    (tmp_path / "compiling.py").write_text(COMPILING)

    def run(text, *, is_instrumented=True, **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
        path = [str(SITE) if is_instrumented else "", str(tmp_path), clean.get("PYTHONPATH", "")]
        common = {
            "OTEL_TRACES_EXPORTER": "torchspan_file",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_BSP_SCHEDULE_DELAY": HOUR,
            "OTEL_METRIC_EXPORT_INTERVAL": HOUR,
            "TORCHSPAN_FILE": str(tmp_path / "trace.jsonl"),
            "TORCHSPAN_HEARTBEAT": "0.1",
        }
        return subprocess.run(
            [sys.executable, "-c", text],
            env={**clean, **common, **variables, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
