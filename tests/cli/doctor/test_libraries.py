# SPDX-License-Identifier: Apache-2.0
"""Python and the observed libraries, by their metadata. Importing one of the modules made here ends the program."""

import platform
import sys

import pytest

from torchspan.cli.doctor import _libraries as libraries
from torchspan.cli.doctor._check import State


@pytest.fixture
def torch(distribution):
    distribution("torch", "2.14.1+cu130", module="torch")


def test_the_python_that_runs_doctor_is_named(rows):
    row = rows()["python.version"]

    assert row.summary.startswith(f"Python {platform.python_version()} at {sys.executable}")


def test_versions_come_from_metadata_and_nothing_is_imported(rows, distribution, torch):
    distribution("torch-tensorrt-rtx", "2.13.0", "torch>=2.13", module="torch_tensorrt")
    distribution("tensorrt_rtx", "1.6.1", module="tensorrt_rtx")
    distribution("tensorrt_rtx_cu13", "1.6.1")

    found = rows()

    assert found["libraries.torch"][1:4] == (State.OK, "torch 2.14.1+cu130 is installed.", "")
    assert found["libraries.torch_tensorrt"][1:4] == (
        State.OK,
        "torch-tensorrt-rtx 2.13.0 is installed; torchspan is tested with 2.11 to 2.14.",
        "",
    )
    assert found["libraries.tensorrt_rtx"][1:4] == (
        State.OK,
        "tensorrt_rtx 1.6.1 and tensorrt_rtx_cu13 1.6.1 are installed.",
        "",
    )
    assert found["instrumentation.libraries"].summary.startswith(
        "Traced once the program imports it: torch (torch.compile, torch.export, and the time of their import); "
        "torch_tensorrt (compilations, fallback, engines and their runs); tensorrt_rtx (engine builds, and runs outside Torch-TensorRT)"
    )


@pytest.mark.parametrize("version", ["2.10.0", "2.15.0.dev20261101+cu130", "nightly"])
def test_a_version_that_torchspan_is_not_tested_with_is_a_warning(rows, distribution, torch, version):
    distribution("torch-tensorrt-rtx", version, module="torch_tensorrt")

    row = rows()["libraries.torch_tensorrt"]

    assert row[1:4] == (
        State.WARNING,
        (
            f"torch-tensorrt-rtx {version} is outside the versions that torchspan is tested with, 2.11 to 2.14: the hook "
            "points that resolve are used."
        ),
        "See what resolves: torchspan doctor --probe",
    )


def test_a_vendors_build_of_a_tested_version_is_one(rows, distribution, torch):
    distribution("torch-tensorrt-rtx", "2.14.0a0+1a2b3c4.nv26.01", "torch>=2.14.0a0", module="torch_tensorrt")

    assert rows()["libraries.torch_tensorrt"].state is State.OK


def test_a_torch_that_torch_tensorrt_did_not_ask_for_is_a_warning(rows, distribution, torch):
    distribution("torch-tensorrt-rtx", "2.12.0", "torch<2.13,>=2.12", module="torch_tensorrt")

    row = rows()["libraries.torch_tensorrt"]

    assert row.state is State.WARNING
    assert row.summary == (
        "torch-tensorrt-rtx 2.12.0 requires torch<2.13,>=2.12, but torch 2.14.1+cu130 is installed: its import or "
        "a later call may fail."
    )


def test_two_packages_that_bring_the_same_module_are_a_warning(rows, distribution, torch):
    distribution("torch-tensorrt", "2.14.0", module="torch_tensorrt")
    distribution("torch-tensorrt-rtx", "2.14.0")

    row = rows()["libraries.torch_tensorrt"]

    assert row.state is State.WARNING
    assert row.remedy == "Uninstall both, then install the one that you want."


def test_parts_of_tensorrt_in_two_versions_are_a_warning(rows, distribution):
    distribution("tensorrt", "10.9.0", module="tensorrt")
    distribution("tensorrt_cu13", "10.14.1")

    row = rows()["libraries.tensorrt"]

    assert row.state is State.WARNING
    assert row.summary.startswith("tensorrt 10.9.0 and tensorrt_cu13 10.14.1 are installed, in different versions")


def test_metadata_without_the_module_is_not_a_library(rows, distribution):
    distribution("tensorrt", "10.14.1")

    assert rows()["libraries.tensorrt"][1:3] == (State.NOTE, "tensorrt is not installed.")


def test_requirements_that_mean_nothing_are_passed_over(rows, distribution, torch):
    distribution("torch-tensorrt-rtx", "2.14.0", "torch ~~ what?", module="torch_tensorrt")

    assert rows()["libraries.torch_tensorrt"].state is State.OK


def test_torch_alone_is_traced_and_a_note_says_what_is_missing():
    row = libraries._observed([libraries.TORCH])

    assert row.state is State.NOTE
    assert row.summary == (
        "Traced once the program imports it: torch (torch.compile, torch.export, and the time of their import). Neither "
        "torch_tensorrt nor TensorRT is installed here."
    )


def test_without_any_library_there_is_nothing_to_trace():
    row = libraries._observed([])

    assert (row.state, row.facts) == (State.WARNING, {"libraries": []})
