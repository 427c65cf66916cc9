# SPDX-License-Identifier: Apache-2.0
"""Which library makes a call."""

from __future__ import annotations

from types import FrameType


def is_called_by(libraries: tuple[str, ...], frame: FrameType) -> bool:
    """Whether the code of `frame`, the caller, belongs to one of `libraries`."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in libraries
