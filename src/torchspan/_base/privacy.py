# SPDX-License-Identifier: Apache-2.0
"""Messages without the values in them.

Exception messages of compilers quote what they choked on: strings of the user, whole graphs. What leaves the process
by default is the first line of a message that a library wrote, with every literal replaced by `?`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from torchspan._base.bounds import VALUE_LIMIT

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


# --- lines of TensorRT's log ----------------------------------------------------------------------------------
_PLACE = re.compile(r"\[[\w./\\-]+\.(?:cpp|cc|cu|cuh|h|hpp)\b[^\[\]{}]*\]")
_BRACKET = re.compile(r"[\[\]{}]")
_NODE = re.compile(
    r"""( \b(?:for|of|at|in|on|from|to|between)\s+(?:the\s+)?(?:node|layer)s?:?\s
        | \b(?:node|layer|tensor|input|output|binding|plugin|name)s?:\s
        | \bgetBestTactic:\s | \bfinding\ fastest\ tactic\ for\s ).*""",
    re.VERBOSE | re.IGNORECASE,
)
_NAMED = re.compile(
    r"""(\b(?:node|layer|tensor|input|output|binding|plugin|named?)s?\s)
    (?!(?:a|after|already|an|and|are|at|be|because|before|but|by|can|cannot|contains|count|data|did|dimensions?|do|does
        |dtype|failed|for|formats?|from|had|has|have|if|in|index|inputs?|instead|is|its?|layers?|limit|may|memory|must
        |names?|network|nodes?|not|of|on|or|outputs?|precision|rank|scale|shapes?|should|size|tensors?|that|the|this|to
        |types?|used|using|was|were|when|which|will|with|within|without|would)\b)\w+""",
    re.VERBOSE | re.IGNORECASE,
)
"""A word after one of these is a name, unless it is one of those that TensorRT writes there."""
_IDENTIFIER = re.compile(r"[^\s()\[\]{}<>,;:'\"=?]*(?:[_/\\+%@#$&*~|^]|\.(?=[^\s).]))[^\s()\[\]{}<>,;'\"=?]*")
_INTERFACE = re.compile(r"\bI[A-Z][A-Za-z]+::[A-Za-z]+\b")
"""What TensorRT calls its own: `IBuilder::buildSerializedNetwork`."""
_REPEATED = re.compile(r"\?{2,}")


def redact_log_line(text: str) -> str:
    """The first line of a line of TensorRT's log, at most `LENGTH_LIMIT` characters, without values and without names.

    Its words are TensorRT's own but for what it quotes: layers and tensors, which Torch-TensorRT names after the modules
    and variables of the user. Torch-TensorRT puts them in brackets and TensorRT fused ones in braces, so everything
    from the first of these to the last goes (a name may hold a bracket), the place in TensorRT's own source apart. So
    does what follows "for node" and the like, every word that looks like an identifier, and every literal.
    """
    line = text.strip().partition("\n")[0][: 4 * LENGTH_LIMIT]
    line = _without_brackets(_PLACE.sub("?", line))
    line = _NAMED.sub(r"\1?", _NODE.sub(r"\1?", line))
    pieces, end = [], 0
    for interface in _INTERFACE.finditer(line):
        pieces += [_without_values(line[end : interface.start()]), interface[0]]
        end = interface.end()
    pieces.append(_without_values(line[end:]))
    told = _REPEATED.sub("?", "".join(pieces))
    return told if len(told) <= LENGTH_LIMIT else told[: LENGTH_LIMIT - 1] + "…"


def _without_brackets(line: str) -> str:
    """Without all from the first bracket or brace to the last; to the end, or from the start, where one has no partner."""
    brackets = list(_BRACKET.finditer(line))
    if not brackets:
        return line
    opening = sum(each[0] in "[{" for each in brackets)
    start = brackets[0].start() if brackets[0][0] in "[{" else 0
    is_closed = brackets[-1][0] in "]}" and 2 * opening <= len(brackets)
    return f"{line[:start]}?{line[brackets[-1].end() :] if is_closed else ''}"


def _without_values(text: str) -> str:
    return _IDENTIFIER.sub("?", _LITERALS.sub("?", text))


def redactor(*, capture_text: bool) -> Callable[[str], str]:
    """What reduces a line of a library's log to what may be recorded: `redact_log_line`, or with `capture_text` a bound."""
    return _bounded if capture_text else redact_log_line


def _bounded(text: str) -> str:
    return text[:VALUE_LIMIT]
