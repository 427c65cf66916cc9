# SPDX-License-Identifier: Apache-2.0
"""What a run of the suite leaves for the checks that come after it: rows of JSON in a folder that all processes share.

`tools/check.py` names the folder in TEST_RUN_LOG; without it nothing is written. Each process appends to a file of its
own, so that workers and forked children need no lock.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from torchspan.words import semconv

VARIABLE = "TEST_RUN_LOG"
TESTS = Path(__file__).resolve().parents[1]


def write(kind, **fields):
    """Append one row. kind: what it says, one of the kinds in `tools/suite_run.py`."""
    folder = os.environ.get(VARIABLE)
    if folder:
        row = json.dumps({"kind": kind, **fields})
        with (Path(folder) / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(row + "\n")


class RunLog:
    """The pytest plugin: which tests were asked for, which did not run and why, what each file took, how it ended."""

    def __init__(self, config):
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self._runs_tests = self._is_worker or not config.getoption("numprocesses", None)
        self._seconds, self._cpu_seconds = Counter(), Counter()

    def pytest_sessionstart(self, session):
        if not self._is_worker:
            write("asked", whole=_asks_for_everything(self._config))

    def pytest_deselected(self, items):
        for item in items:
            write("deselected", test=item.nodeid)

    def pytest_itemcollected(self, item):
        for mark in item.iter_markers("fault"):
            if ("lost" in mark.kwargs) != ("counted" in mark.kwargs):
                raise pytest.UsageError(f"{item.nodeid}: the mark `fault` says what is lost, and where that is counted")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        for mark in item.iter_markers("fault") if report.when == "call" or not report.passed else ():
            fault = (
                dict(zip(("group", "what"), mark.args, strict=True)) | {"lost": "nothing", "counted": ""} | mark.kwargs
            )
            write("fault", **fault, outcome=report.outcome)
        return report

    def pytest_collection_finish(self, session):
        if self._runs_tests:
            write("collected", tests=len(session.items))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        start, cpu_start = time.perf_counter(), _cpu_seconds()
        result = yield
        file = item.location[0]
        self._seconds[file] += time.perf_counter() - start
        self._cpu_seconds[file] += _cpu_seconds() - cpu_start
        return result

    def pytest_runtest_logreport(self, report):
        if self._runs_tests and report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
            write("skipped", test=report.nodeid, reason=reason.removeprefix("Skipped: "))

    def pytest_sessionfinish(self, session, exitstatus):
        for file, seconds in self._seconds.items():
            write("seconds", file=file, wall=round(seconds, 3), cpu=round(self._cpu_seconds[file], 3))
        for key in sorted(semconv.GATE.left_out):
            write("left_out", key=key)
        if not self._is_worker:
            write("ended", status=int(exitstatus))


def _asks_for_everything(config):
    """Whether the command line leaves out no file; tests left out by a mark or by name are rows of their own."""
    asked = {(config.invocation_params.dir / each).resolve() for each in config.args}
    return asked == {TESTS} and not config.getoption("ignore") and not config.getoption("ignore_glob")


def _cpu_seconds():
    """Of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
