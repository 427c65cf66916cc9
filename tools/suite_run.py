# SPDX-License-Identifier: Apache-2.0
"""Reads what the last run of the tests left, as `tests/support/run_log.py` writes it."""

import json
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".reports" / "tests"
"""Rows of JSON, one file a process. `tools/check.py tests` empties it first."""

RAN_TO_ITS_END = (0, 1)
"""What pytest returns when every test ran: all passed, some failed."""


def emptied():
    """The folder, made where it is missing, without the rows of an earlier run."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    return FOLDER


@dataclass
class SuiteRun:
    """The rows by kind.

    asked: whole. collected: tests. deselected: test. skipped: test, reason. program: name, used. seconds: file, wall, cpu. ended: status.
    span: name. attribute: span, event, key, type. user_attribute: key, type. resource_attribute: key, type.
    sample: signal, name, attributes, events. left_out: key. metric: name, instrument, is_monotonic, unit, bounds, attributes.
    operators: span, left, counted, named, omitted. route: name, hooks. fault: group, what, lost, counted, outcome.
    """

    rows: dict[str, list[dict]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def read(cls, folder=FOLDER):
        """What is in the folder; no rows when there is none."""
        run = cls()
        for file in sorted(folder.glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                run.rows[row.pop("kind")].append(row)
        return run

    def __getitem__(self, kind):
        return self.rows[kind]

    @property
    def deselected(self):
        """The tests that were left out by name or by mark, each once; every worker says the same."""
        return sorted({row["test"] for row in self["deselected"]})

    @property
    def missing_parts(self):
        """Clauses that say why the run is not a run of the whole suite; empty when it is one."""
        parts = []
        if not self["ended"] or self["ended"][-1]["status"] not in RAN_TO_ITS_END:
            parts.append("it did not run to its end")
        if not all(row["whole"] for row in self["asked"]):
            parts.append("only some files were asked for")
        if self.deselected:
            parts.append(f"{len(self.deselected)} tests were left out")
        return parts
