# SPDX-License-Identifier: Apache-2.0
"""Which library makes a call."""

from __future__ import annotations

from types import FrameType


def outside(frame: FrameType) -> FrameType:
    """The first frame, from `frame` outwards, whose code is not torchspan's."""
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("torchspan."):
        frame = frame.f_back
    return frame


def is_called_by(libraries: tuple[str, ...], frame: FrameType) -> bool:
    """Whether the code of `frame`, the caller, belongs to one of `libraries`."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in libraries
