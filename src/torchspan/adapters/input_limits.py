# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled modules against what their engines were built for, as facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchspan import semconv
from torchspan.inputs.leaves import public_label
from torchspan.inputs.limits import Outside

DIMENSIONS_LIMIT = 20
"""Dimensions outside that one call names."""

_NONE = -1
"""In place of an axis, or of a largest size, where there is none."""


def outside_facts(outside: Sequence[Outside]) -> dict[str, Any]:
    """The dimensions of one call that lie outside; nothing where there is none."""
    if not outside:
        return {}
    named = outside[:DIMENSIONS_LIMIT]
    return {
        semconv.OUTSIDE_PATHS: [public_label(each.path) for each in named],
        semconv.OUTSIDE_AXES: [_NONE if each.axis is None else each.axis for each in named],
        semconv.OUTSIDE_SIZES: [each.size for each in named],
        semconv.OUTSIDE_MINIMA: [each.low for each in named],
        semconv.OUTSIDE_MAXIMA: [_NONE if each.high is None else each.high for each in named],
    }
