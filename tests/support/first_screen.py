# SPDX-License-Identifier: Apache-2.0
"""The first screen of `torchspan show`, taken apart."""

from itertools import takewhile

WHILE_IT_RUNS = "while a program runs, torchspan watch in another terminal shows where it is"
"""The end of the line of `torchspan run` that says where the traces are."""


def findings(lines, number=1):
    """What lines below a row say about what happened, without the indent; not where the time went."""
    begin = next(index for index, line in enumerate(lines) if line.startswith(f"{number} "))
    below = [line[3:] for line in takewhile(lambda line: line.startswith("   "), lines[begin + 1 :])]
    return list(takewhile(lambda line: not line.startswith(("slowest of ", "time: ")), below))
