# SPDX-License-Identifier: Apache-2.0
"""Children that are forked while another thread does something for the first time, which imports a module or takes a lock."""

import os
import subprocess
import sys

import pytest

from children.programs import HERE
from children.test_below_run import RUN
from support.child import unmeasured

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def forked_at_the_first(use, *command):
    """What `forking_at_a_first_use.py` prints."""
    return subprocess.run(
        [*command, sys.executable, str(HERE / "forking_at_a_first_use.py"), use],
        env=unmeasured(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.fault("processes", "a fork during a first use in another thread")
@pytest.mark.parametrize("use", ["program", "callback", "batch", "batch's engine", "process"])
def test_a_child_that_is_forked_during_a_first_use_in_another_thread_ends(use):
    done = forked_at_the_first(use)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_child_that_is_forked_while_another_thread_starts_a_program_below_run_ends(tmp_path):
    done = forked_at_the_first("program below run", *RUN, "--output", str(tmp_path / "run.jsonl"), "--")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
