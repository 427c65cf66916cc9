# SPDX-License-Identifier: Apache-2.0
"""Numbers as a reader takes them in: three digits and a unit."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from torchspan.reading.traces import Attributes
from torchspan.words import semconv

_TIMES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_MOST_DAYS = 9_999_999
"""Days that nine columns hold in full."""
_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))


def duration(ns: float) -> str:
    """`850 ns`, `12.3 ms`, `2 m 05 s`, `27 h 03 m`, `20 d`, `2e+08 d`: at most nine columns."""
    if ns >= 360_000_000_000_000:
        days = ns / 86_400e9
        return f"{days:.0f} d" if days < _MOST_DAYS else f"{days:.0e} d"
    if ns >= 3_599_500_000_000:
        minutes = round(ns / 60e9)
        return f"{minutes // 60} h {minutes % 60:02} m"
    if ns >= 99_950_000_000:
        seconds = round(ns / 1e9)
        return f"{seconds // 60} m {seconds % 60:02} s"
    return _scaled(ns, _TIMES)


def moment(ns: int) -> str:
    """`2026-11-25 20:37:47Z`, of nanoseconds since 1970."""
    return dt.datetime.fromtimestamp(ns // 1_000_000_000, dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def size(count: float) -> str:
    """Bytes in decimal units: `18.5 MB`."""
    return _scaled(count, _SIZES)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """`1 engine`, `2 engines`."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def times(count: float) -> str:
    """How often, as `x3` with a real multiplication sign."""
    return f"\N{MULTIPLICATION SIGN}{count:.0f}"


def share(part: float, whole: float) -> str:
    """`48 %`; what is little but not nothing is `<1 %`."""
    percent = 100 * part / whole if whole else 0.0
    return "<1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def _scaled(value: float, units: tuple[tuple[int, str], ...]) -> str:
    for index, (factor, unit) in enumerate(units):
        # 999.6 ms reads better as 1.00 s, which is the reason for the margin.
        if value >= factor * 0.9995 or index == len(units) - 1:
            number = value / factor
            digits = 0 if factor == 1 or number >= 99.95 else 1 if number >= 9.995 else 2
            return f"{number:.{digits}f} {unit}"
    raise AssertionError


# --- Places in the program ------------------------------------------------------------------------------------------
def source_line(attributes: Attributes) -> str:
    """`model.py:12`, the path from the current folder on if the file is below it; empty without a file."""
    file, line = attributes.get(semconv.CODE_FILE), attributes.get(semconv.CODE_LINE)
    if not file:
        return ""
    shown = str(file).removeprefix(_current_folder())
    return shown if line is None else f"{shown}:{line}"


def _current_folder() -> str:
    """What the paths below the current folder begin with; empty where there is none."""
    try:
        return str(Path.cwd()).rstrip(os.sep) + os.sep
    except OSError:  # it was deleted
        return ""
