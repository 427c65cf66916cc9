# SPDX-License-Identifier: Apache-2.0
"""The one form in which every benchmark says what it found."""

from dataclasses import dataclass

NO_TARGET, NOT_MEASURED = "no target", "not measured"
VERDICTS = {True: "met", False: "MISSED", None: "lost in noise", NO_TARGET: NO_TARGET, NOT_MEASURED: NOT_MEASURED}


@dataclass(frozen=True)
class Row:
    """What was measured, the figure, the target alongside it, and whether it was met.

    met: None where the noise does not allow to tell, NO_TARGET where none was set, NOT_MEASURED where
    a program was missing.
    """

    what: str
    figure: str
    target: str
    met: bool | str | None


def write(title, rows):
    """Print the rows as a table; the exit status is 1 when a target was missed."""
    lines = [(row.what, row.figure, row.target, VERDICTS[row.met]) for row in rows]
    cells = [("what", "figure", "target", "verdict"), *lines]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    print(f"\n{title}")
    for what, figure, target, verdict in cells:
        print(f"  {what:<{widths[0]}}  {figure:>{widths[1]}}  {target:>{widths[2]}}  {verdict}".rstrip(), flush=True)
    return int(any(row.met is False for row in rows))
