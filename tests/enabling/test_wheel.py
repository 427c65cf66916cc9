# SPDX-License-Identifier: Apache-2.0
"""The wheel, which is also what `pip install .` makes of a clone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.child import UNMEASURED
from support.receiver import Receiver

ROOT = Path(__file__).resolve().parents[2]

EVERY_PART = {
    "OTEL_TRACES_SAMPLER": "torchspan",
    "OTEL_PYTHON_ID_GENERATOR": "torchspan",
    "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "torchspan",
}

PROGRAM = """
import torchspan
from opentelemetry import trace
from torchspan.observers import observable

@observable()
def work():
    pass

work()
provider = trace.get_tracer_provider()
print(torchspan.__file__)
print(type(provider.sampler).__module__, type(provider.id_generator).__module__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The folder into which the wheel of this checkout has been unpacked, as an installer does it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_it_has_every_file_of_the_package_and_no_other(wheel):
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    untracked = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "src"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = {os.path.relpath(each, "src") for each in (tracked + untracked).splitlines()}
    expected |= {f"torchspan/registry/{path.name}" for path in (ROOT / "registry").iterdir()}
    found = {str(each.relative_to(wheel)) for each in (wheel / "torchspan").rglob("*") if each.is_file()}
    assert found == expected


@pytest.mark.parametrize("variables", [{}, EVERY_PART], ids=["alone", "with sampler, ids and resource"])
def test_opentelemetry_instrument_switches_it_on_and_finds_what_variables_name(wheel, instrumented, variables):
    with Receiver() as receiver:
        # What runs is a copy, whose lines would count as lines that nothing has run.
        done = instrumented(PROGRAM, path=[wheel], **receiver.environment(), **variables, **UNMEASURED)
        assert (done.status, done.err) == (0, "")
        file, *modules = done.out.split()
        assert Path(file) == wheel / "torchspan" / "__init__.py"
        if variables:
            assert modules == ["torchspan.output.sdk._sampler", "torchspan.output.sdk._sampler"]
        assert [span.name for span in receiver.spans()] == ["torchspan.observed work"]
