# SPDX-License-Identifier: Apache-2.0
"""`recording.h` under sanitizers: threads that record at once, forks, and names without end."""

import re
import subprocess
from pathlib import Path

import pytest

import torchspan

pytestmark = pytest.mark.slow

THREADS, MEMORY = "-fsanitize=thread", "-fsanitize=address,undefined"


@pytest.fixture(scope="module")
def program(cxx, tmp_path_factory):
    """Runs `recording_program` under a sanitizer, which finds nothing. Returns what it printed."""
    folder, source = tmp_path_factory.mktemp("recording"), Path(__file__).with_name("recording_program.cpp")
    flags = ("-std=c++20", "-O1", "-g", "-pthread", f"-I{Path(torchspan.__file__).parent / 'hooks' / 'native'}")
    (folder / "empty.cpp").write_text("int main() {}\n", encoding="utf-8")

    def compiled(sanitizer, path):
        output = folder / f"{path.stem}{sanitizer}"
        command = [*cxx, *flags, sanitizer, "-fno-sanitize-recover=all", path, "-o", output]
        built = (
            output.exists() or subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0
        )
        return output if built else None

    def run(sanitizer, *arguments):
        empty = compiled(sanitizer, folder / "empty.cpp")
        if empty is None or subprocess.run([empty], capture_output=True, check=False).returncode:
            pytest.skip(f"no sanitizer: a program that {cxx[0]} {sanitizer} compiles does not start")
        command = [compiled(sanitizer, source), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        return {name: int(figure) for name, figure in re.findall(r"(\w+) (\d+)", result.stdout)}

    return run


@pytest.mark.parametrize("sanitizer", [THREADS, MEMORY])
def test_every_operator_of_eight_threads_arrives_once(program, sanitizer):
    assert program(sanitizer, "threads", 8, 5000) == {
        "made": 80_001,
        "arrived": 80_001,
        "table": 80_001,
        "dropped": 0,
        "spans": 500,
        "ids": 500,
        "orphans": 0,
    }


@pytest.mark.parametrize("sanitizer", [THREADS, MEMORY])
def test_operators_that_come_too_fast_are_counted_as_dropped(program, sanitizer):
    figures = program(sanitizer, "threads", 8, 200_000)

    assert figures["arrived"] + figures["dropped"] == figures["made"] == 3_200_001
    assert figures["table"] == figures["arrived"]


@pytest.mark.parametrize("sanitizer", [THREADS, MEMORY])
def test_names_beyond_the_table_are_counted_and_their_operators_recorded(program, sanitizer):
    assert program(sanitizer, "names", 100_000) == {
        "recorded": 200_004,
        "dropped": 0,
        "names": 4096,
        "nameless": 191_814,
    }


def test_forked_children_record_while_threads_of_their_parent_record(program):
    assert program(MEMORY, "forks", 20) == {"children": 20, "failed": 0, "recorded": 1}
