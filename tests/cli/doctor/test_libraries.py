# SPDX-License-Identifier: Apache-2.0
"""Python and the observed libraries, by their metadata. Importing one of the modules made here ends the program."""

import platform
import sys

import pytest

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
        "torch-tensorrt-rtx 2.13.0 is installed.",
        "",
    )
    assert found["libraries.tensorrt_rtx"][1:4] == (
        State.OK,
        "tensorrt_rtx 1.6.1 and tensorrt_rtx_cu13 1.6.1 are installed.",
        "",
    )


@pytest.mark.parametrize("version", ["2.10.0", "2.15.0.dev20261101+cu130", "nightly"])
def test_a_version_that_torchspan_is_not_tested_with_is_a_warning(rows, distribution, torch, version):
    distribution("torch-tensorrt-rtx", version, module="torch_tensorrt")

    row = rows()["libraries.torch_tensorrt"]

    assert row[1:4] == (
        State.WARNING,
        f"torch-tensorrt-rtx {version} is installed; torchspan is tested with 2.11 to 2.14.",
        "See which hook points resolve: torchspan probes",
    )


def test_a_vendors_build_of_a_tested_version_is_one(rows, distribution, torch):
    distribution("torch-tensorrt-rtx", "2.14.0a0+1a2b3c4.nv26.01", "torch>=2.14.0a0", module="torch_tensorrt")

    assert rows()["libraries.torch_tensorrt"].state is State.OK


def test_metadata_without_the_module_is_not_a_library(rows, distribution):
    distribution("tensorrt", "10.14.1")

    assert rows()["libraries.tensorrt"][1:4] == (
        State.NOTE,
        "tensorrt is not installed.",
        "If the program uses it: run doctor with the Python of the program.",
    )
