# SPDX-License-Identifier: Apache-2.0
"""The kind of text for Dynamo's guards."""

from __future__ import annotations

import ast
import re

from torchspan.redaction import UNKNOWN
from torchspan.redaction.bounds import cut
from torchspan.redaction.kinds_of_text import Kind

_LIMIT = 256
"""Maximum number of characters of a guard."""
_READ = 4_096
"""Characters of a guard that are read. A literal may be longer than what it becomes."""

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
    r"tensor '(?P<source>.*)' (?P<rest>"
    rf"(?:size|stride) mismatch at index \d{{1,3}}\. expected {_NUMBERS}, actual {_NUMBERS}"
    rf"|rank mismatch\. expected {_NUMBERS}, actual {_NUMBERS}"
    r"|requires_grad mismatch\. expected requires_grad=[01]"
    rf"|device index mismatch\. [Ee]xpected device index to be {_NUMBERS}, (?:actual|got) {_NUMBERS}"
    rf"|dtype mismatch\. expected (?P<expected>\w+), actual (?P<actual>\w+)"
    r"|dispatch key set mismatch\. expected (?P<keys>.*))",
    re.ASCII,
)
"""Dynamo's descriptions of a tensor that differs (torch/csrc/dynamo/guards.cpp)."""

_STATE = re.compile(r"(?P<begin>GLOBAL_STATE changed: )(?P<states>.*)")
_STATES = frozenset(
    {"grad_mode", "torch_function", "deterministic_algorithms", "deterministic_algorithms_warn_only", "allow_tf32"}
    | {"allow_fp16_reduce", "allow_bf16_reduce", "num_threads", "default_dtype", "autocast"}
)
"""PyTorch's settings, by their names in guards.cpp."""
_TYPE = re.compile(r"(?P<check>.*), type=<class .*>")

_TOKEN = re.compile(
    r"""(?<![\w.])L\[(?P<quote>['"])(?P<local>[A-Za-z_]\w*)(?P=quote)\]"""
    r"""|(?P<global>(?<![\w.])G\['[A-Za-z_]\w*'\])"""
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
_BETWEEN_CLAUSES = frozenset({"and", "or", "if", "else", "|", "&", ","})


def _expression(text: str) -> str:
    """The names and operators of an expression. Each literal is `?`, except for numbers that a size is compared with.

    Dynamo writes `L['x']` for a local name and `G['x']` for a global one. A local name becomes `x`, as in Dynamo's own
    messages. Clauses end at the words `and` and `or` of the expression, which literals contain, too. So the text is
    read as tokens first.
    """
    redacted: list[str] = []
    clause: list[re.Match[str]] = []
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "unended" or token[0] == "#":
            # Where this literal began is uncertain; what follows `#` is a comment.
            return UNKNOWN
        if token["word"] in _BETWEEN_CLAUSES or token["mark"] in _BETWEEN_CLAUSES:
            redacted += [*_clause(clause), token[0]]
            clause = []
        else:
            clause.append(token)
    return _REPEATED.sub(UNKNOWN, "".join([*redacted, *_clause(clause)]))


def _clause(tokens: list[re.Match[str]]) -> list[str]:
    about_sizes = any(token["size"] for token in tokens)
    redacted: list[str] = []
    for token in tokens:
        match token.lastgroup:
            case "local":
                redacted.append(token["local"])
            case "word":
                redacted.append(UNKNOWN if token[0] in _LITERALS else token[0])
            case "global" | "size" | "mark":
                redacted.append(token[0])
            case "number" if about_sizes and redacted[-1:] != ["["] and re.fullmatch(_NUMBERS, token[0]):
                redacted.append(token[0])
            case _:
                redacted.append(UNKNOWN)
    return redacted


def _other(line: str) -> str:
    state = _STATE.fullmatch(line)
    if state is not None:
        words = (word if word in _STATES else UNKNOWN for word in state["states"].split())
        return f"{state['begin']}{' '.join(words)}"[:_LIMIT]
    of_type = _TYPE.fullmatch(line)
    if of_type is not None:
        return f"{_condition(of_type['check'], _LIMIT)}, type=<class {UNKNOWN}>"
    return _condition(line, _LIMIT)


def _condition(text: str, limit: int) -> str:
    """An expression; `?` for any other text. No known guard is such a text."""
    redacted = _expression(text)
    return redacted if len(redacted) <= limit and _is_expression(redacted) else UNKNOWN


def _is_expression(redacted: str) -> bool:
    try:
        ast.parse(redacted.replace(UNKNOWN, " _ ").strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _reduced(text: str) -> str:
    line = text[:_READ].partition("\n")[0]
    match = _TENSOR.fullmatch(line)
    if match is None:
        return _other(line)
    source = _condition(match["source"], _LIMIT // 2)
    redacted = match["rest"]
    if match["expected"] is not None:
        expected, actual = (match[side] if match[side] in _SCALAR_TYPES else UNKNOWN for side in ("expected", "actual"))
        redacted = f"dtype mismatch. expected {expected}, actual {actual}"
    if match["keys"] is not None:
        redacted = "dispatch key set mismatch. expected ?"
    return f"tensor '{source}' {redacted}"


class GuardText(Kind):
    """A failed guard, as Dynamo writes it."""

    title = "guard"
    leaves = (
        "The condition that failed, in Dynamo's words: names of variables (`G['x']` is a global variable) and "
        "attributes, operators, sizes, strides, ranks, data types and device numbers of tensors (`tensor 'x' size "
        f"mismatch at index 0. expected 3, actual 4`). Every other literal is `{UNKNOWN}` (`n == {UNKNOWN}`), and "
        f"so is a text that is not an expression. At most {_LIMIT} characters."
    )
    leaves_with_text = "The whole condition with every literal in it, at most 2 KiB."
    is_local = True

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
