# SPDX-License-Identifier: Apache-2.0
"""Tests during which coverage is not measured, here and in the programs that they start.

Measuring doubles the processor time of what runs in Python, PyTorch's compilers included. What these files run of torchspan,
other files run too: without them the bound of `make test ALL=1` is met in two thirds of the time.
"""

import os
import sys
import warnings
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PATHS = (
    "collector",
    "compose",
    "docs",
    "end_to_end",
    "kubernetes",
    "local",
    "mainwheel",
    "privacy",
    "tools",
    "callbacks/test_dynamo.py",
    "children/test_servers.py",
    "children/test_torch_workers.py",
    "cli/test_real_libraries.py",
    "cli/test_show_grows.py",
    "observers/test_dynamo.py",
    "observers/test_dynamo_around.py",
    "pipeline/test_budget.py",
    "pipeline/test_observers.py",
    "pipeline/test_privacy.py",
    "pipeline/test_probes_resolve.py",
    "pipeline/test_progress.py",
    "pipeline/test_quiet_exits.py",
    "pipeline/test_routes.py",
    "pipeline/test_tensorrt_log.py",
    "pipeline/test_threads.py",
    "pipeline/test_unchanged.py",
    "pipeline/test_unchanged_compiles.py",
    "plain/test_orders.py",
    "propagation/test_alongside_contrib.py",
    "propagation/test_ranks.py",
    "propagation/test_threads.py",
    "propagation/test_torchrun.py",
    "propagation/test_unchanged.py",
    "test_architecture.py",
    "test_what_grows.py",
    "testing/test_engines.py",
    "testing/test_numbers.py",
)
"""Folders and files below `tests`."""
SETTINGS = "COVERAGE_PROCESS_CONFIG"
"""The variable by which programs that are started get measured."""


class Unmeasured:
    """The pytest plugin. What one test of such a file stopped stays so until the first test of another file."""

    def __init__(self):
        self._stopped = None
        self._settings = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        if is_unmeasured(item.path):
            self._stop()
        else:
            self._start()

    def pytest_sessionfinish(self):
        self._start()

    def _stop(self):
        coverage = sys.modules.get("coverage")  # it need not be installed: see the extra `test`
        measurement = coverage and coverage.Coverage.current()
        if measurement is not None:
            measurement.stop()
            self._stopped, self._settings = measurement, os.environ.pop(SETTINGS, None)

    def _start(self):
        if self._stopped is None:
            return
        with warnings.catch_warnings():
            # It warns of modules that are imported by now.
            warnings.simplefilter("ignore", sys.modules["coverage"].exceptions.CoverageWarning)
            self._stopped.start()
        if self._settings is not None:
            os.environ[SETTINGS] = self._settings
        self._stopped = None


def is_unmeasured(path):
    """Whether the file is one of `PATHS`, or lies in one."""
    return any(path.is_relative_to(TESTS / each) for each in PATHS)
