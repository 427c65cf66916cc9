# SPDX-License-Identifier: Apache-2.0
"""What tests do on a real GPU: `make gpu` names it in TEST_GPU, and the file for figures in TEST_GPU_FIGURES.

Without that, tests marked `gpu` are skipped; with it, those marked `stand_in_only`. The reason of each is in the report.
"""

import ctypes.util
import importlib
import json
import os
import warnings
from pathlib import Path

import pytest

SUITE = "suite"
"""The value for the tests that the stand-in carries elsewhere. `1` is for those marked `gpu`."""
ON_GPU = os.environ.get("TEST_GPU") in {"1", SUITE}
FIGURES = os.environ.get("TEST_GPU_FIGURES", "")


def has_driver():
    """Whether this machine has NVIDIA's driver."""
    return ctypes.util.find_library("nvcuda" if os.name == "nt" else "cuda") is not None


class Gpu:
    """The pytest plugin."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        only = item.get_closest_marker("stand_in_only")
        if ON_GPU and only is not None:
            pytest.skip(f"on the stand-in only: {only.args[0]}")
        if not ON_GPU and item.get_closest_marker("gpu") is not None:
            pytest.skip("needs an NVIDIA GPU: `make gpu` runs it on a machine that has one")


def import_torch_tensorrt():
    """In the suite on a GPU: import it with its Python runtime, which the stand-in has too, and whose objects tests read.

    Torch-TensorRT takes the C++ runtime where it finds the library (torch_tensorrt/_features.py).
    """
    if os.environ.get("TEST_GPU") != SUITE:
        return
    isfile = os.path.isfile
    os.path.isfile = lambda path: "libtorchtrt" not in str(path) and isfile(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the library warns of while it is imported is its own
            importlib.import_module("torch_tensorrt")
    finally:
        os.path.isfile = isfile


def record_figure(name, measured, oracle, unit, bound, *, is_met):
    """Append a figure to the file for the page, whether its bound is met or not.

    Args:
        name: What was measured, as the page shows it.
        measured: What torchspan says.
        oracle: What the other source says.
        unit: Of both, such as `ms`.
        bound: What the difference may be, in words: `±3 %`.
        is_met: Whether it is.
    """
    if FIGURES:
        row = {"name": name, "measured": measured, "oracle": oracle, "unit": unit, "bound": bound, "met": is_met}
        with Path(FIGURES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
