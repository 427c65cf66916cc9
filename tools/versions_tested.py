# SPDX-License-Identifier: Apache-2.0
"""The results of `make test-versions` that docs/reference/compatibility.md shows, in tools/versions_tested.json.

There is one for each row of tools/test_versions.py. It has `row` (the name), `commit` (that the tests ran on), `date`, and a `note`, which
someone writes: what failed, and why. In addition, it has `installed` (package -> version, and `python`), `passed`, `failed`
and `skipped`; or `not_run`, a clause that says why.
"""

import json
import subprocess
from datetime import datetime, timezone
from pathlib import Path

FILE = Path(__file__).resolve().parent / "versions_tested.json"
PACKAGES = (
    "torch-tensorrt-rtx",
    "torch",
    "tensorrt-rtx",
    "opentelemetry-sdk",
    "opentelemetry-instrumentation",
    "wrapt",
)
"""The packages whose versions are recorded with each row."""


def read():
    """Name of the row -> its result."""
    return {row["row"]: row for row in json.loads(FILE.read_text(encoding="utf-8"))}


def record(name, commit, **result):
    """Replace the result of the row. Its note stays where as many tests failed as before."""
    rows = read()
    old = rows.get(name, {})
    note = old.get("note", "") if result.get("failed") == old.get("failed") else ""
    date = datetime.now(timezone.utc).date().isoformat()
    rows[name] = {"row": name, "commit": commit, **result, "date": date, "note": note}
    FILE.write_text(json.dumps([*rows.values()], indent=2) + "\n", encoding="utf-8")


def line(name):
    """The result of the row in words."""
    row = read()[name]
    counts = ", ".join(f"{row[count]} {count}" for count in ("passed", "failed", "skipped"))
    return f"{counts}; recorded on {row['date']} for this commit, {row['commit'][:12]}"


def versions(python):
    """Package -> version, of what is installed for this Python; and `python`."""
    script = (
        "import importlib.metadata as m, json, platform; "
        f"names = {PACKAGES!r}; "
        "found = {d.name.replace('_', '-'): d.version for d in m.distributions()}; "
        "print(json.dumps({'python': platform.python_version(), **{name: found[name] for name in names if name in found}}))"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def not_tested(versions):
    """Sentences: the packages of which every row has an older version than these. versions: package -> version."""
    from packaging.version import Version  # `make gpu` starts without any package

    for package, version in versions.items():
        tested = [row["installed"][package] for row in read().values() if package in row.get("installed", {})]
        newest = max(tested, key=Version, default="none")
        if not tested or Version(version) > Version(newest):
            yield f"{package} {version} is not tested; the newest that `make test-versions` ran on is {newest}"
