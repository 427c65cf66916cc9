# SPDX-License-Identifier: Apache-2.0
"""pytest in a process where torchspan was imported before it: it warns of such plugins, unless a plugin says otherwise."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.child import unmeasured

RUN = (sys.executable, "-m", "torchspan", "run", "--quiet", "--")
INSTRUMENT = (str(Path(sys.executable).with_name("opentelemetry-instrument")), "--traces_exporter", "none")
ENVIRONMENT = {
    **{name: value for name, value in unmeasured().items() if not name.startswith(("PYTEST_", "OTEL_"))},
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
}
TESTS = """
def test_passes(pytestconfig):
    assert not pytestconfig.getoption("--torchspan-update")

def test_fails():
    assert 1 + 1 == 3
"""


@pytest.mark.parametrize("started_by", [RUN, INSTRUMENT], ids=["torchspan run", "opentelemetry-instrument"])
@pytest.mark.parametrize(
    ("ini", "options"),
    [
        ("", ()),
        ("filterwarnings = error", ()),
        ("", ("-W", "error")),
        pytest.param("filterwarnings = error", ("-n", "2"), marks=pytest.mark.slow),
    ],
    ids=["defaults", "filterwarnings", "an option", "workers"],
)
def test_a_suite_that_is_started_with_torchspan_has_no_warning(tmp_path, started_by, ini, options):
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    (tmp_path / "test_app.py").write_text(TESTS)

    done = subprocess.run(
        [*started_by, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert "1 failed, 1 passed in" in done.stdout, done.stdout + done.stderr
    assert "assert (1 + 1) == 3" in done.stdout
    assert "arning" not in done.stdout + done.stderr
