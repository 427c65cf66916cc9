# SPDX-License-Identifier: Apache-2.0
"""Whether the program has begun to serve, which only the program knows."""

from __future__ import annotations

_ready = False


def mark_ready(*, ready: bool = True) -> None:
    """Say that the program is warm and serves from now on: whatever it compiles after this is marked.

    Such compilations, for which a request may be waiting, carry `torchspan.while_serving` on their spans and metrics.
    It may be called before or after the bridge is enabled and holds for the process and its later forks.

    ready: False takes it back, for a server that loads the next model before it continues.
    """
    global _ready
    _ready = ready


def is_ready() -> bool:
    """Whether `mark_ready` was called last with True."""
    return _ready
