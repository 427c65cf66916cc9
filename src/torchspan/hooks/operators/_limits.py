# SPDX-License-Identifier: Apache-2.0
"""What is recorded of each root, unless its block says otherwise."""

DEPTH = 2
"""Operators inside each other."""

GREATEST_DEPTH = 255
"""The stack of the library has 256 entries."""

MIN_DURATION_S = 1e-6
"""Seconds of the shortest operator that is a span."""
