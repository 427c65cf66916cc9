# SPDX-License-Identifier: Apache-2.0
"""Finds the name that was meant by a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable

LETTERS_PER_MISTAKE = 6
"""A name of up to eleven letters may have one mistake, a name of twelve letters two, and so on."""


def closest(name: str, names: Iterable[str]) -> str | None:
    """The known name of which `name` is a misspelling. None if it differs too much from all of them."""
    mistakes, meant = min((_mistakes(name, candidate), candidate) for candidate in names)
    return meant if mistakes <= max(1, len(meant) // LETTERS_PER_MISTAKE) else None


def hint(name: str, names: Iterable[str]) -> str:
    """What to write in place of a name that is none of the known ones, for a message."""
    meant = closest(name, names)
    return f"did you mean {meant!r}?" if meant else f"expected one of {', '.join(sorted(names))}"


def _mistakes(a: str, b: str) -> int:
    """The number of letters added, left out, replaced or swapped with their neighbor (optimal string alignment distance)."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            ways = [rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (x != y)]
            if i > 1 and j > 1 and (x, a[i - 2]) == (b[j - 2], y):
                ways.append(rows[i - 2][j - 2] + 1)
            row.append(min(ways))
        rows.append(row)
    return rows[-1][-1]
