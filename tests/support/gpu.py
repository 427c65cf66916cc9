# SPDX-License-Identifier: Apache-2.0
"""What tests do on a real GPU: `make gpu` names it in TORCHSPAN_TEST_GPU, and the file for figures in TORCHSPAN_GPU_FIGURES.

Without that, tests marked `gpu` are skipped; with it, those marked `stand_in_only`. The reason of each is in the report.
"""

import json
import os
from pathlib import Path

import pytest

VARIABLES = ("TORCHSPAN_TEST_GPU", "TORCHSPAN_GPU_FIGURES")
"""The suite keeps them for its workers, unlike torchspan's own."""
ON_GPU = os.environ.get("TORCHSPAN_TEST_GPU") == "1"
FIGURES = os.environ.get("TORCHSPAN_GPU_FIGURES", "")


class Gpu:
    """The pytest plugin."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        only = item.get_closest_marker("stand_in_only")
        if ON_GPU and only is not None:
            pytest.skip(f"on the stand-in only: {only.args[0]}")
        if not ON_GPU and item.get_closest_marker("gpu") is not None:
            pytest.skip("needs an NVIDIA GPU: `make gpu` runs it on a machine that has one")


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
