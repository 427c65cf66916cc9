# SPDX-License-Identifier: Apache-2.0
"""Which tests run without measuring coverage, and what that does."""

import subprocess
import sys

import pytest

from support import unmeasured

PROGRAM = """
import os, sys
from types import SimpleNamespace
import coverage
from support import unmeasured

measurement = coverage.Coverage(data_file=None)
measurement.start()
os.environ[unmeasured.SETTINGS] = "settings"
plugin = unmeasured.Unmeasured()
for each in sys.argv[1:]:
    plugin.pytest_runtest_protocol(SimpleNamespace(path=unmeasured.TESTS / each))
    print(each, coverage.Coverage.current() is measurement, os.environ.get(unmeasured.SETTINGS))
plugin.pytest_sessionfinish()
print("at the end", coverage.Coverage.current() is measurement, os.environ.get(unmeasured.SETTINGS))
"""


@pytest.mark.parametrize("path", unmeasured.PATHS)
def test_a_path_without_measurement_is_there(path):
    assert (unmeasured.TESTS / path).exists()


def test_coverage_and_its_variable_are_away_during_such_a_test_alone():
    files = ("cli/test_run.py", "docs/test_readme.py", "plain/test_orders.py", "cli/test_run.py", "docs/test_readme.py")
    command = [sys.executable, "-c", PROGRAM, *files]
    child = subprocess.run(command, cwd=unmeasured.TESTS, stdout=subprocess.PIPE, text=True, check=True)
    assert child.stdout.splitlines() == [
        "cli/test_run.py True settings",
        "docs/test_readme.py False None",
        "plain/test_orders.py False None",
        "cli/test_run.py True settings",
        "docs/test_readme.py False None",
        "at the end True settings",
    ]
