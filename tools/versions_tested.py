# SPDX-License-Identifier: Apache-2.0
"""The results of `make test-versions` that docs/reference/compatibility.md shows, in tools/versions_tested.json.

A row has `row` (its name in tools/test_versions.py), `tests` (what pytest was given), `installed` (package -> version, and `python`),
`passed`, `failed`, `skipped`, `date`, and a `note`, which someone writes: what failed, and why.
"""

import json
from datetime import datetime, timezone
from pathlib import Path

FILE = Path(__file__).resolve().parent / "versions_tested.json"


def read():
    """The rows, in the order of the page."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def record(row, tests, installed, *, passed, failed, skipped):
    """Replace the row of the same name and tests, or add it below the others of its name. It has no note yet."""
    made = {
        "row": row,
        "tests": tests,
        "installed": installed,
        "passed": passed,
        "failed": failed,
        "skipped": skipped,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "note": "",
    }
    rows = read()
    same = [index for index, each in enumerate(rows) if (each["row"], each["tests"]) == (row, tests)]
    if same:
        rows[same[0]] = made
    else:
        last = max((index for index, each in enumerate(rows) if each["row"] == row), default=len(rows) - 1)
        rows.insert(last + 1, made)
    FILE.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
