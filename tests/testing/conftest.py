# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchspan.testing

SOURCE = Path(torchspan.testing.__file__).parents[2]


@pytest.fixture
def python(tmp_path):
    """Runs a program in a new process with torchspan importable; returns what it printed."""

    def run(program: str, **environment: str) -> str:
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
