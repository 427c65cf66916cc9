# SPDX-License-Identifier: Apache-2.0
"""The bridge is enabled once for both runs of a program."""

import pytest


@pytest.fixture(autouse=True)
def instrumented(instrument):
    instrument()
