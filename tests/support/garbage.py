# SPDX-License-Identifier: Apache-2.0
"""What earlier tests left behind, kept away from tests that count what Dynamo compiles."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def not_collected() -> Iterator[None]:
    """Inside, no garbage is collected: Dynamo compiles a finalizer that runs meanwhile, since its frame is one as others are."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
