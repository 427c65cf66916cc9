# SPDX-License-Identifier: Apache-2.0
"""mypy and basedpyright accept the documented use of the public API, and report every wrong use of it."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ACCEPTED, REFUSED = HERE / "accepted.py", HERE / "refused.py"


def of_mypy():
    command = [sys.executable, "-m", "mypy", "--strict", "--hide-error-context", str(ACCEPTED), str(REFUSED)]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return {
        (Path(found[1]).name, int(found[2]))
        for found in re.finditer(r"^(.*?):(\d+): error:", done.stdout, re.MULTILINE)
    }


def of_basedpyright():
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--project",
        str(HERE),
        "--pythonpath",
        sys.executable,
        "--outputjson",
    ]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    named = ((Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found)
    return {each for each in named if each[0] in {ACCEPTED.name, REFUSED.name}}


@pytest.fixture(scope="module", params=["mypy", "basedpyright"])
def errors(request):
    """The lines that a type checker reports, by file."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: `make setup` installs it")
    return {"mypy": of_mypy, "basedpyright": of_basedpyright}[request.param]()


def test_the_documented_use_of_the_public_api_has_no_error(errors):
    assert {line for file, line in errors if file == ACCEPTED.name} == set()


def test_each_wrong_use_is_an_error_and_nothing_else_is(errors):
    lines = REFUSED.read_text(encoding="utf-8").splitlines()
    refused = {number for number, line in enumerate(lines, start=1) if line.endswith("# refused")}
    assert {line for file, line in errors if file == REFUSED.name} == refused
    assert len(refused) == 29


def test_the_accepted_program_runs():
    done = subprocess.run([sys.executable, str(ACCEPTED)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
