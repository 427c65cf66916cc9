# SPDX-License-Identifier: Apache-2.0
"""`make faults`: runs the tests with the mark `fault`, and records their results in tools/faults_tested.json.

`make docs` puts them into docs/explanation/faults.md. Returns 1 where a test failed.
"""

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import suite_run
from test_versions import commit

ROOT = Path(__file__).resolve().parents[1]
FILE = Path(__file__).resolve().parent / "faults_tested.json"

GROUPS = (
    "hooks and callbacks", "exporters", "files", "processes", "threads", "clock", "interpreter", "the SDK", "libraries",
)  # fmt: skip
"""Where a fault may be, in the order of the page."""


def read():
    """The last results: `commit`, `date`, and `faults`, a list of rows: group, what, lost, counted, outcome."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def rows_of(run):
    """One row for each fault, in the order of the page. Its outcome is `failed` if a test of it failed, or `skipped` if one was."""
    faults = {}
    for row in run["fault"]:
        outcome = row.pop("outcome")
        fault = faults.setdefault((row["group"], row["what"]), {**row, "outcome": outcome})
        if fault["outcome"] != "failed" and outcome != "passed":
            fault["outcome"] = outcome
    return sorted(faults.values(), key=lambda fault: (GROUPS.index(fault["group"]), fault["what"]))


def main(arguments):
    """Run the tests, and record their results."""
    folder = suite_run.emptied()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "fault", "-n", "2", *arguments],
        cwd=ROOT,
        env={**os.environ, "TEST_RUN_LOG": str(folder)},
        check=False,
    )
    date = datetime.now(timezone.utc).date().isoformat()
    result = {"commit": commit(), "date": date, "faults": rows_of(suite_run.SuiteRun.read(folder))}
    if not arguments:
        FILE.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
