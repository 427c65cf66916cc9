# SPDX-License-Identifier: Apache-2.0
"""Bad values in every variable, in a real program under `opentelemetry-instrument`."""

import os
import subprocess
import sys

import pytest

from torchspan.words.settings import SETTINGS, VARIABLES

PROGRAM = """
import torchspan
from opentelemetry import trace
torchspan.instrument()  # a program's first call reads the settings again
torchspan.uninstrument()
torchspan.instrument()
for _ in range(3):
    trace.get_tracer("app").start_span("work").end()
print("it ran")
"""
VALUE = "neither of them"
TEXTS = {"TORCHSPAN_FILE"}
"""Those in which any text means something."""


@pytest.fixture
def ran(tmp_path):
    """`ran(program, **variables)`: what the program printed, and the lines that it wrote to stderr."""

    def call(program=PROGRAM, **variables):
        (tmp_path / "app.py").write_text(program)
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TORCHSPAN_", "TRACEPARENT"))}
        exporters = {
            "OTEL_TRACES_EXPORTER": "torchspan_file",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
        }
        run = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
        done = subprocess.run(
            [sys.executable, "-c", run, sys.executable, "app.py"],
            cwd=tmp_path,
            env=environ | exporters | {"OTEL_TRACES_SAMPLER": "parentbased_torchspan"} | variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.splitlines()

    return call


def test_the_program_runs_and_each_bad_value_is_one_line_whatever_reads_it(ran, tmp_path):
    named = [row.variable for row in (*SETTINGS, *VARIABLES)]
    out, lines = ran(**dict.fromkeys(named, VALUE), TORCHSPAN_DETIAL=VALUE)

    assert out == "it ran\n"
    # Read by `torchspan run` alone, which starts no such program, and by a program that records operators.
    read_elsewhere = {"TORCHSPAN_RUN_EXIT_TIMEOUT", "TORCHSPAN_NATIVE_BUILD"}
    expected = sorted({*named, "TORCHSPAN_DETIAL"} - TEXTS - read_elsewhere)
    assert sorted(
        word.rstrip(",").partition("=")[0] for line in lines for word in line.split()[:5] if "TORCHSPAN_" in word
    ) == (expected)
    assert (
        "torchspan: WARNING: Invalid TORCHSPAN_CAPTURE='neither of them', using default 'local' (expected one of local, none, text)"
        in lines
    )
    assert (
        "torchspan: WARNING: Invalid TORCHSPAN_SAMPLE_OTHER='neither of them', using the default (`1`) (expected a number from 0 to 1)"
        in lines
    )
    assert "torchspan: WARNING: Unknown variable TORCHSPAN_DETIAL, ignored (did you mean TORCHSPAN_DETAIL?)" in lines
    assert "torchspan: WARNING: Invalid TORCHSPAN_RUN, ignored (only torchspan run sets it: unset it)" in lines
    assert (tmp_path / VALUE).stat().st_mode & 0o777 == 0o600


WORKERS = """
import multiprocessing, os

def work(number):
    return os.getpid()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(work, range(8))
    print("it ran")
"""


@pytest.mark.parametrize(
    "enabled", ["pass\n", "import torchspan; torchspan.instrument()\n"], ids=["environment", "program"]
)
def test_workers_do_not_repeat_what_the_process_that_started_them_said(ran, enabled):
    variables = {} if enabled == "pass\n" else {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "torchspan"}
    main = WORKERS.replace('"__main__":\n', f'"__main__":\n    {enabled}')
    out, lines = ran(main, TORCHSPAN_DETIAL="passes", **variables)
    assert out == "it ran\n"
    assert lines == ["torchspan: WARNING: Unknown variable TORCHSPAN_DETIAL, ignored (did you mean TORCHSPAN_DETAIL?)"]


def test_good_values_are_not_lines(ran):
    assert ran(TORCHSPAN_DETAIL="Passes", TORCHSPAN_FILE_MODE="640", TORCHSPAN_HEARTBEAT="0") == ("it ran\n", [])
