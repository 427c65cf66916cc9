# SPDX-License-Identifier: Apache-2.0
"""Who calls."""

from __future__ import annotations

from types import FrameType


def is_called_by(library: str | None, frame: FrameType) -> bool:
    """Whether the code of `frame`, the caller, belongs to `library`."""
    return library is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == library
