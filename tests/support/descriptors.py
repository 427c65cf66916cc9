# SPDX-License-Identifier: Apache-2.0
"""Open descriptors of this process."""

import contextlib
import os


@contextlib.contextmanager
def no_more_descriptors():
    """Assert that at the end of the block as many are open as at its start."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before
