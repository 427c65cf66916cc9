# SPDX-License-Identifier: Apache-2.0
"""Output of the command line that is closed, full, or a pipe without a reader."""

import os
import subprocess
import sys

import pytest

CLI = [sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())"]
TRACED = """
import sys
from opentelemetry import trace
trace.get_tracer("torchspan").start_span("work").end()
sys.exit(3)
"""


def redirected(folder, redirections, *words):
    """Exit status, stdout and stderr of the command line called by a shell with these redirections."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", *CLI, *map(str, words)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout, result.stderr


@pytest.mark.fault("files", "stderr is closed or full, so that nothing can be drawn")
@pytest.mark.parametrize("redirections", ["2>&-", ">&- 2>&-", "2>/dev/full", ">/dev/full 2>&1"])
def test_the_exit_status_is_the_programs_where_nothing_can_be_drawn(tmp_path, redirections):
    words = ["run", "--output", "x.jsonl", "--", sys.executable, "-c", TRACED]

    assert redirected(tmp_path, redirections, *words) == (3, "", "")
    assert '"name":"work"' in (tmp_path / "x.jsonl").read_text()


@pytest.mark.fault("interpreter", "stdout is closed")
def test_a_closed_stdout_is_closed_for_the_program_as_well_and_the_waterfall_is_drawn(tmp_path):
    command = ["sh", "-c", "echo a || exit 4"]
    status, out, err = redirected(tmp_path, ">&-", "run", "--output", "x", "--", *command)

    assert (status, out) == (4, "")
    assert err.endswith("torchspan: nothing was recorded: no Python process that loads torchspan was started "
                        "(another Python interpreter, or python with -S, -I or -E, or no Python at all)\n")  # fmt: skip


def test_the_exit_status_is_the_programs_where_the_reader_has_gone(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [*CLI, "run", "--output", "x.jsonl", "--", sys.executable, "-c", TRACED]
    result = subprocess.run(command, cwd=tmp_path, stderr=writing, timeout=60, check=False)
    os.close(writing)

    assert result.returncode == 3


@pytest.mark.parametrize(
    ("redirections", "reason"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_what_cannot_be_shown_is_one_line_and_an_exit_status(tmp_path, recording, redirections, reason):
    recording.span("work", 0, 1)

    assert redirected(tmp_path, redirections, "show", recording.path) == (
        1,
        "",
        f"torchspan show: cannot write to standard output: {reason}\n",
    )
    assert redirected(tmp_path, f"{redirections} 2>&-", "show", recording.path) == (1, "", "")


def test_an_error_message_that_cannot_be_written_leaves_its_exit_status(tmp_path):
    assert redirected(tmp_path, "2>/dev/full", "run", "--", "no-such-program") == (127, "", "")
