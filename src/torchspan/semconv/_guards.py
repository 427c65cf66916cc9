# SPDX-License-Identifier: Apache-2.0
"""The kind of text that a guard of Dynamo's is."""

from __future__ import annotations

import re

from torchspan._base.bounds import cut
from torchspan.semconv._values import UNKNOWN, Kind

_LIMIT = 256
"""Characters of a guard."""

_SCALAR_TYPES = frozenset(
    {
        "Float",
        "Double",
        "Half",
        "BFloat16",
        "Long",
        "Int",
        "Short",
        "Char",
        "Byte",
        "Bool",
        "UInt16",
        "UInt32",
        "UInt64",
    }
    | {"ComplexFloat", "ComplexDouble", "ComplexHalf", "Float8_e4m3fn", "Float8_e5m2"}
)
"""Data types by their names in C++ (c10/core/ScalarType.h)."""
_NUMBERS = r"-?\d{1,19}"
_TENSOR = re.compile(
    r"tensor '(?P<source>.*)' (?P<told>"
    rf"(?:size|stride) mismatch at index \d{{1,3}}\. expected {_NUMBERS}, actual {_NUMBERS}"
    rf"|rank mismatch\. expected {_NUMBERS}, actual {_NUMBERS}"
    r"|requires_grad mismatch\. expected requires_grad=[01]"
    rf"|device index mismatch\. [Ee]xpected device index to be {_NUMBERS}, (?:actual|got) {_NUMBERS}"
    rf"|dtype mismatch\. expected (?P<expected>\w+), actual (?P<actual>\w+)"
    r"|dispatch key set mismatch\. expected (?P<keys>.*))",
    re.ASCII,
)
"""What Dynamo says of a tensor that differs (torch/csrc/dynamo/guards.cpp)."""

_TOKEN = re.compile(
    r"""\b[LG]\[(?P<quote>['"])(?P<name>[A-Za-z_]\w*)(?P=quote)\]"""
    r"""|(?P<text>[rbuf]{0,2}(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\w*)"""
    r"""|(?P<unended>['"].*)"""
    r"""|(?P<size>\.(?:size|stride)\(\)\[\d{1,3}\])"""
    r"""|(?P<number>(?<![\w.])-?(?:\d[\w.]*|\.\d\w*))"""
    r"""|(?P<word>[A-Za-z_]\w*)"""
    r"""|(?P<mark>[-+*/%()\[\],.:=!<>&|~ ]|//)"""
    r"""|(?P<other>.)""",
    re.ASCII | re.DOTALL,
)
_LITERALS = frozenset({"True", "False", "None", "inf", "nan"})
_REPEATED = re.compile(r"\?(?:\s*\?)+")
_PATH = re.compile(r"^\s*/|:/|~/|\.\./")
"""No expression has a slash there; a path or an address has. Dynamo quotes texts, so it is in none of its guards."""
_CLAUSES = re.compile(r"( and | or )")
_SIZES = re.compile(r"\.(?:size|stride)\(\)\[\d{1,3}\]", re.ASCII)


def _expression(text: str) -> str:
    """The names and operators of an expression; each literal is `?`, but for numbers that a size is compared with."""
    return _REPEATED.sub(UNKNOWN, "".join(map(_clause, _CLAUSES.split(text))))


def _clause(text: str) -> str:
    if _PATH.search(text):
        return UNKNOWN
    about_sizes = _SIZES.search(text) is not None
    told: list[str] = []
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "name":
                told.append(token["name"])
            case "word":
                told.append(UNKNOWN if token[0] in _LITERALS else token[0])
            case "size" | "mark":
                told.append(token[0])
            case "number" if about_sizes and told[-1:] != ["["] and re.fullmatch(_NUMBERS, token[0]):
                told.append(token[0])
            case _:
                told.append(UNKNOWN)
    return "".join(told)


def _reduced(text: str) -> str:
    line = text.partition("\n")[0][: 4 * _LIMIT]
    found = _TENSOR.fullmatch(line)
    if found is None:
        return _expression(line)[:_LIMIT]
    source = _expression(found["source"])[: _LIMIT // 2]
    told = found["told"]
    for each in ("expected", "actual"):
        if found[each] is not None and found[each] not in _SCALAR_TYPES:
            told = told.replace(found[each], UNKNOWN)
    if found["keys"] is not None:
        told = "dispatch key set mismatch. expected ?"
    return f"tensor '{source}' {told}"


class Guard(Kind):
    """A guard that failed, as Dynamo writes it."""

    title = "guard"
    leaves = (
        "The condition that did not hold, in Dynamo's words: names of variables and attributes, operators, sizes, "
        "strides, ranks, data types and device numbers of tensors (`tensor 'x' size mismatch at index 0. expected 3, "
        f"actual 4`). Every other literal is `{UNKNOWN}` (`n == {UNKNOWN}`). At most {_LIMIT} characters."
    )
    leaves_with_text = "The whole condition with every literal in it, at most 2 KiB."

    def accepts(self, text: str) -> bool:
        """See `Kind`."""
        return _reduced(text) == text

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return _reduced(text)

    def whole(self, text: str) -> str:
        """See `Kind`."""
        return cut(text)

    def shortened(self, text: str, limit: int) -> str:
        """See `Kind`."""
        return cut(text, limit)
