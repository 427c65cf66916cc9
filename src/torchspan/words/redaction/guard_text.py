# SPDX-License-Identifier: Apache-2.0
"""The kind of text for Dynamo's guards."""

from __future__ import annotations

import ast
import re

from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.bounds import VALUE_LIMIT, cut, size
from torchspan.words.redaction.kinds_of_text import Kind
from torchspan.words.redaction.message_table import HOLES, MessageTable, row_of, whole_if
from torchspan.words.redaction.type_names import is_type_name

_LIMIT = 256
"""Maximum number of characters of a guard."""
_READ = 4_096
"""Characters of a guard that are read. A literal may be longer than what it becomes."""

_NUMBERS = r"-?\d{1,19}"
_DEVICES = "CPU|CUDA|HIP|XLA|MPS|IPU|XPU|HPU|VE|Lazy|MTIA|MAIA|PrivateUse[123]|Meta"
_KEY = (
    rf"(?:(?:Autograd|Autocast|Sparse|SparseCsr|Quantized|NestedTensor)?(?:{_DEVICES})|BackendSelect|ADInplaceOrView|Conjugate"
    r"|Negative|ZeroTensor|Functionalize|Python(?:TLSSnapshot)?|AutogradOther|AutogradNestedTensor|MkldnnCPU|FuncTorch[A-Z][A-Za-z]+)"
)
"""A dispatch key of a tensor, by its name in c10/core/DispatchKey.h."""
_KEYS = rf"DispatchKeySet\((?:{_KEY}(?:, {_KEY})*)?\)"
_ROWS = (
    "tensor '{expression}' size mismatch at index {count}. expected {count}, actual {count}",
    "tensor '{expression}' stride mismatch at index {count}. expected {count}, actual {count}",
    "tensor '{expression}' rank mismatch. expected {count}, actual {count}",
    "tensor '{expression}' requires_grad mismatch. expected requires_grad={count}",
    "tensor '{expression}' device index mismatch. expected device index to be {count}, actual {count}",
    "tensor '{expression}' device index mismatch. Expected device index to be {count}, got {count}",
    "tensor '{expression}' dtype mismatch. expected {type}, actual {type}",
    "tensor '{expression}' dispatch key set mismatch. expected {keys}, actual {keys}",
    "expected type of '{expression}' to be {class}, but found {class}",
    "{expression}, type={class}",
    "GLOBAL_STATE changed:{settings}",
    "BACKEND_MATCH failure{object}",
    "Unexpected recompilation: runtime guards failed even though they passed during recompilation-reason analysis.{object}",
)
"""What Dynamo writes in place of a condition (torch/csrc/dynamo/guards.cpp)."""

_STATES = re.compile(
    r"grad_mode|torch_function|deterministic_algorithms(?:_warn_only)?|allow_tf32|allow_(?:fp16|bf16)_reduce|num_threads"
    r"|default_dtype|autocast|autocast_cache_enabled|autocast\([a-z][a-z0-9]{0,15}\)_(?:enabled|dtype)"
)
"""A setting of PyTorch, by its name in guards.cpp."""
_MOST_SETTINGS = 20
_CLASS = re.compile(r"<class '?([^' ]*)'?[^ ]*>")
_VERSION = re.compile(r"(?:!\d{1,9}/)?\d{1,9}/\d{1,9}: ", re.ASCII)
"""The compile id of the version that has the guard, where several failed."""

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
_COMPUTING = frozenset({*"+-*/%<>!~", "//", "not"})
_SIZE_IS = re.compile(r"\.(?:size|stride)\(\)\[\d{1,3}\] == $")
_PYTORCHS_OWN = frozenset({"0", "1", "2"})


def _expression(text: str) -> str:
    """The names and operators of an expression. Each literal is `?`, except for sizes of tensors, and `None` as a type.

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
    """A number that a size is equal to is a size that was seen. Any other number that sizes are compared or computed with may be the
    program's, except for those that PyTorch itself compares sizes with.
    """
    about_sizes = any(token["size"] for token in tokens)
    is_equality = _COMPUTING.isdisjoint(token[0] for token in tokens)
    redacted: list[str] = []
    for token in tokens:
        match token.lastgroup:
            case "local":
                redacted.append(token["local"])
            case "word":
                is_type = token[0] == "None" and "".join(redacted).endswith((" is ", " is not "))
                redacted.append(UNKNOWN if token[0] in _LITERALS and not is_type else token[0])
            case "global" | "size" | "mark":
                redacted.append(token[0])
            case "number" if about_sizes and redacted[-1:] != ["["] and token[0] in _PYTORCHS_OWN:
                redacted.append(token[0])
            case "number" if is_equality and _SIZE_IS.search("".join(redacted)) and re.fullmatch(_NUMBERS, token[0]):
                redacted.append(token[0])
            case _:
                redacted.append(UNKNOWN)
    return redacted


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


def _class(text: str) -> str:
    """A type of Python or PyTorch."""
    of = _CLASS.fullmatch(text)
    if of is None:
        return text if text == "a tensor type" else UNKNOWN
    is_known = is_type_name(of[1]) or of[1] == "torch.nn.parameter.Parameter"
    return f"<class '{of[1]}'>" if is_known else f"<class {UNKNOWN}>"


def _settings(text: str) -> str:
    words = text.split()[:_MOST_SETTINGS]
    return "".join(f" {word if _STATES.fullmatch(word) else UNKNOWN}" for word in words)


_HOLES = {
    "expression": lambda text: _condition(text, _LIMIT // 2),
    "count": HOLES["count"],
    "type": HOLES["type"],
    "class": _class,
    "keys": whole_if(re.compile(_KEYS).fullmatch),
    "settings": _settings,
    "object": lambda _text: "",  # an object of the program, or advice
}
_TABLE = MessageTable(row_of(row, _HOLES) for row in _ROWS)


def _reduced(text: str) -> str:
    line = text[:_READ].partition("\n")[0]
    version = _VERSION.match(line)
    begin = "" if version is None else version[0]
    guard = line[len(begin) :]
    return begin + (_TABLE.kept(guard) or _condition(guard, _LIMIT))


class GuardText(Kind):
    """A failed guard, as Dynamo writes it.

    The condition that failed, in Dynamo's words: names of variables (`G['x']` is a global variable) and attributes, operators, sizes,
    strides, ranks, data types, dispatch keys and device numbers of tensors (`tensor 'x' size mismatch at index 0. expected 3, actual
    4`), PyTorch's settings, and types of Python and PyTorch. Every other literal is `?` (`n == ?`, `2 <= x.size()[0] <= ?`), and so is
    a text that is not an expression. At most 256 characters.
    """

    title = "guard"
    leaves_with_text = "The whole condition with every literal in it, at most 2 KiB."
    is_local = True

    def reduced(self, text: str) -> str:
        """See `Kind`."""
        return _reduced(text)

    def whole(self, text: str) -> str:
        """See `Kind`."""
        return self.shortened(text, VALUE_LIMIT)

    def shortened(self, text: str, limit: int) -> str:
        """See `Kind`. It is reduced to the same as the whole text, so that all readers of a trace conclude the same."""
        short, reduced = cut(text, limit), _reduced(text)
        if _reduced(short) != reduced:
            short = reduced if size(reduced) <= limit else UNKNOWN
        return short
