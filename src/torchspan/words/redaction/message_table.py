# SPDX-License-Identifier: Apache-2.0
"""The table of messages: which texts of libraries are known as a whole, and what is kept of the values in them.

A row of `known_messages/*.json` has `message`, a text of a library with typed holes for the values in it, and `source`, where the text
is from. `versions` limits the row to some versions of the library; it is for the reader alone. A hole is one of `HOLES`:

- `{type}`: a data type, or the name of a type of Python or of PyTorch.
- `{shape}`: sizes, such as `[2, 3]`, `(2, 3)` or `2x3`.
- `{operator}`: an operator in PyTorch's registry, also without the `aten::` before it. `{onnx_operator}`: one of the ONNX standard.
- `{function}`: the name of a function, a method or a class in code, with dots: `time.perf_counter`.
- `{count}`: a number that the text itself calls a size, a rank, a dimension or a count. No index, element, scalar or id has this hole.
- `{any}`: anything. Nothing of it is kept.
- `{value}`: what a text in a library's code has in the place of a value. Only the name of a type is kept, and only if it is no word that a
  program could mean otherwise: `torch.float32` and `int8`, but not `long`. Rows have more precise holes.

What stands in a hole and is not of the hole's type is `?`. Any other brace is text. Messages are compared without the whitespace at their
end. The tests refuse a bad row.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from torchspan.words.redaction import UNKNOWN
from torchspan.words.redaction.operator_registry import is_operator
from torchspan.words.redaction.type_names import ONNX_OPERATORS, is_type_name

LENGTH_LIMIT = 65_536
"""Characters of the longest message that is compared with the table."""

FILES = ("pytorch", "graph_break_explanations", "tensorrt", "onnx_parser")
"""The files of the table, in `known_messages/`."""

_MOST_IN_A_HOLE = 512
"""Characters of the longest text in a hole that may be kept."""
_KEY = 6
"""Characters of a message's beginning by which its row is looked up."""

_BEGINNING = 2_048
"""Characters of a message in which a row with a hole at its beginning is recognized, so that a long message costs what a short one does."""

# A full stop may end the sentence, and the message with it.
_SIZES = re.compile(
    r"(?:[\[(]?\d{1,19}(?:(?:, ?| ?x ?)\d{1,19}){0,31},?[\])]?|[\[(][\])]|torch\.Size\(\[[\d, ]{0,256}\]\))\.?",
    re.ASCII,
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|<locals>|<lambda>))*", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,19}\.?", re.ASCII)


Hole = Callable[[str], str]
"""What is kept of the text in a hole."""


def whole_if(is_kept: Callable[[str], object]) -> Hole:
    """A hole that keeps a text as a whole or not at all."""
    return lambda text: text if len(text) <= _MOST_IN_A_HOLE and is_kept(text) else UNKNOWN


_FUNCTION = whole_if(_DOTTED.fullmatch)

HOLES: Mapping[str, Hole] = {
    "type": whole_if(is_type_name),
    "shape": whole_if(_SIZES.fullmatch),
    "operator": whole_if(lambda text: is_operator(text) or (text.isidentifier() and is_operator(f"aten::{text}"))),
    "onnx_operator": whole_if(ONNX_OPERATORS.__contains__),
    "function": _FUNCTION,
    "count": whole_if(_NUMBER.fullmatch),
    "any": lambda _text: UNKNOWN,
    "value": whole_if(lambda text: not text.isalpha() and is_type_name(text)),
}
"""The holes of the table by their names."""


class KnownMessage(NamedTuple):
    """A message that is known.

    Attributes:
        literals: The text before, between and behind the holes: one more than there are holes.
        holes: The holes.
    """

    literals: tuple[str, ...]
    holes: tuple[Hole, ...]

    def kept(self, text: str) -> str | None:
        """`text` with what its holes let through; None if it is another message.

        A value may contain the text between two holes, so that it is unknown where the hole ends. Nothing of such a hole is kept. The
        time is proportional to the length of `text`.
        """
        first, last = self.literals[0], self.literals[-1]
        if not self.holes:
            return text if text == first else None
        end = len(text) - len(last)
        if end < len(first) or not (text.startswith(first) and text.endswith(last)):
            return None
        between = self.literals[1:-1]
        earliest = _found(text, between, len(first), end)
        if earliest is None:
            return None
        latest = _found_last(text, between, len(first), end)
        pieces, start, is_certain = [first], len(first), True
        for hole, literal, stop, other in zip(
            self.holes, self.literals[1:], (*earliest, end), (*latest, end), strict=True
        ):
            # A name has nothing of what is written behind it, so its end is certain.
            is_bounded = is_certain and (stop == other or hole is _FUNCTION)
            inside = text[start:stop]
            pieces += (inside and (hole(inside) if is_bounded else UNKNOWN), literal)
            start, is_certain = stop + len(literal), stop == other
        return "".join(pieces)


def _found(text: str, literals: tuple[str, ...], start: int, end: int) -> list[int] | None:
    """Where each literal is, as early as possible behind the one before it; None if one is missing."""
    places = []
    for literal in literals:
        place = text.find(literal, start, end)
        if place < 0:
            return None
        places.append(place)
        start = place + len(literal)
    return places


def _found_last(text: str, literals: tuple[str, ...], start: int, end: int) -> list[int]:
    """Where each literal is, as late as possible before the one behind it. They are all there."""
    places: list[int] = []
    for literal in reversed(literals):
        end = text.rfind(literal, start, end)
        places.append(end)
    return places[::-1]


class MessageTable:
    """Rows, looked up by the beginning of a message.

    Args:
        rows: The rows. Of those that match a message and are looked up in the same way, the one with the longest text decides.
    """

    def __init__(self, rows: Iterable[KnownMessage]) -> None:
        self.rows = tuple(sorted(rows, key=lambda row: -sum(map(len, row.literals))))
        self._by_beginning: dict[str, list[KnownMessage]] = {}
        self._others: list[tuple[str, str, KnownMessage]] = []
        """Rows with a hole at the beginning, with their last and their longest literal."""
        for row in self.rows:
            if len(row.literals[0]) >= _KEY:
                self._by_beginning.setdefault(row.literals[0][:_KEY], []).append(row)
            else:
                self._others.append((row.literals[-1], max(row.literals, key=len), row))

    def kept(self, text: str) -> str | None:
        """What may leave of a message; None if no row matches it as a whole."""
        if len(text) > LENGTH_LIMIT:
            return None
        beginning = text[:_BEGINNING]
        others = (row for last, longest, row in self._others if text.endswith(last) and longest in beginning)
        rows = chain(self._by_beginning.get(text[:_KEY], ()), others)
        return next((kept for row in rows if (kept := row.kept(text)) is not None), None)


@lru_cache(maxsize=1)
def table() -> MessageTable:
    """The table of the package, read at the first call: the rows of its files, and PyTorch's types of graph breaks and hints."""
    rows = (row_of(row["message"]) for name in FILES for row in read(name)["rows"])
    return MessageTable(chain(rows, (KnownMessage((phrase.rstrip(),), ()) for phrase in chain(*graph_breaks()))))


def read(name: str) -> Any:
    """What one of the files in `known_messages/` contains."""
    return json.loads(pkgutil.get_data(__package__, f"known_messages/{name}.json") or b"")


@lru_cache(maxsize=1)
def graph_breaks() -> tuple[frozenset[str], frozenset[str]]:
    """PyTorch's types of graph breaks and its general hints, as `tools/collect_graph_breaks.py` reads them from its source."""
    document = read("graph_breaks")
    return frozenset(document["types"]), frozenset(document["hints"])


def row_of(message: str, holes: Mapping[str, Hole] = HOLES) -> KnownMessage:
    """A message with holes, as a row."""
    pieces = re.split(rf"\{{({'|'.join(holes)})\}}", message)
    return KnownMessage(tuple(pieces[::2]), tuple(holes[name] for name in pieces[1::2]))
