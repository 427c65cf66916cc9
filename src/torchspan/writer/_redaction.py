# SPDX-License-Identifier: Apache-2.0
"""Messages without the values in them.

Exception messages of compilers quote what they choked on: strings of the user, whole graphs. What leaves the process
by default is the first line of a message that a library wrote, with every literal replaced by `?`.
"""

from __future__ import annotations

import re

LENGTH_LIMIT = 256
"""Characters of a message that are kept."""

_LITERALS = re.compile(
    r"""
      (?:[bBrRuUfF]{0,2})(?P<quote>'''|\"\"\"|'|"|`).*?(?:(?P=quote)|$)   # quoted, also where the end is missing
    | 0[xX][0-9a-fA-F]+                                                  # addresses
    | [^\s()\[\]{}<>,;:'"=]*\d[^\s()\[\]{}<>,;:'"=]*                     # a word with a digit in it is a value
    """,
    re.VERBOSE,
)
_OPERATOR = re.compile(r"(?:torch\.(?:_?ops\.)|aten::|prims::|aten\.)[\w.:]+")
"""Names of PyTorch's own operators, which hold digits and are no values (`aten::special_i1e`)."""


def redact(message: str) -> str:
    """The first line, at most `LENGTH_LIMIT` characters, every literal a `?`; names of operators stay."""
    line = message.strip().partition("\n")[0][: 4 * LENGTH_LIMIT]
    pieces, end = [], 0
    for operator in _OPERATOR.finditer(line):
        pieces += [_LITERALS.sub("?", line[end : operator.start()]), operator[0]]
        end = operator.end()
    pieces.append(_LITERALS.sub("?", line[end:]))
    text = "".join(pieces)
    return text if len(text) <= LENGTH_LIMIT else text[: LENGTH_LIMIT - 1] + "…"
