# SPDX-License-Identifier: Apache-2.0
"""Whether the program has finished its warm-up, which it reports itself."""

from __future__ import annotations

_ready = False


def mark_ready() -> None:
    """Mark the end of the warm-up: from now on the program serves requests.

    Later compilations by Torch-TensorRT and `torch.compile`, for which a request may be waiting, carry
    `torchspan.while_serving` on their spans, and the metric `torchspan.serving.compilations` counts them. The call may come
    before or after `instrument`. It applies to the process and to its later forks.
    """
    global _ready
    _ready = True


def mark_not_ready() -> None:
    """Mark the start of another warm-up, for a server that loads its next model. The reverse of `mark_ready`."""
    global _ready
    _ready = False


def is_ready() -> bool:
    """Return whether `mark_ready` was called, and `mark_not_ready` was not called after it."""
    return _ready
