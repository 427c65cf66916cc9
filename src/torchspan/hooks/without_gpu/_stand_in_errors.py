# SPDX-License-Identifier: Apache-2.0
"""What `torchspan.testing` raises: one base type, and one type for each thing a caller can do about it."""

from __future__ import annotations


class WithoutGpuError(RuntimeError):
    """Base of the exceptions that `torchspan.testing` itself raises.

    A RuntimeError, because that is what PyTorch raises when a CUDA call finds no GPU: programs that catch it continue.
    """


class TooLateError(WithoutGpuError):
    """`without_gpu()` was called after torch_tensorrt was imported, or after CUDA was initialized."""


class NeedsGpuError(WithoutGpuError):
    """The program called something that needs a GPU and has no replacement.

    Args:
        call: What was called, as a dotted name if it is known.
        advice: What to do, as a sentence for the message.

    Attributes:
        call: What was called.
    """

    def __init__(self, call: str, advice: str = "") -> None:
        super().__init__(call, advice)
        self.call = call
        self._advice = advice or _DEFAULT_ADVICE

    def __str__(self) -> str:
        return (
            f"{self.call} needs a GPU. This process runs without one (torchspan.testing.without_gpu()), and nothing here can "
            f"stand in for it. {self._advice}"
        )


_DEFAULT_ADVICE = "Run this part on a machine with a GPU, or guard it with `if not torchspan.testing.is_without_gpu()`."
