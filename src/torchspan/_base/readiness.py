# SPDX-License-Identifier: Apache-2.0
"""Whether the program has finished its warm-up, which it says itself."""

from __future__ import annotations

_ready = False


def mark_ready(*, ready: bool = True) -> None:
    """Mark the end of the warm-up: from now on the program serves requests.

    Compilations after this call, for which a request may be waiting, carry `torchspan.while_serving` on their spans and
    metrics. The call may come before or after `instrument`. It applies to the process and to its later forks.

    Args:
        ready: False starts another warm-up, for a server that loads its next model.

    Raises:
        TypeError: `ready` is not a bool.
    """
    global _ready
    if not isinstance(ready, bool):
        raise TypeError(f"ready must be True or False, not {ready!r}")
    _ready = ready


def is_ready() -> bool:
    """Return whether the last call of `mark_ready` was with True."""
    return _ready
