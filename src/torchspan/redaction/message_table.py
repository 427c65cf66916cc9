# SPDX-License-Identifier: Apache-2.0
"""The table of messages: which texts of libraries are known as a whole, and what is kept of the values in them.

A row of `known_messages/*.json` has `message`, a text of a library with typed holes for the values in it, and `source`, where the text
is from. `versions` limits the row to some versions of the library; it is for the reader alone. A hole is one of `HOLES`:

- `{type}`: a data type, or the name of a type of Python or of PyTorch.
- `{shape}`: sizes, such as `[2, 3]`, `(2, 3)` or `2x3`.
- `{operator}`: an operator in PyTorch's registry, also without the `aten::` before it. `{onnx_operator}`: one of the ONNX standard.
- `{builtin}`: a name of Python's `builtins`.
- `{function}`: the name of a function, a method or a class in code, with dots: `time.perf_counter`.
- `{size}`, `{rank}`, `{dimension}`, `{count}`: a number that the text says is one. No index, element, scalar or id has these.
- `{any}`: anything. Nothing of it is kept.

What stands in a hole and is not of the hole's type is `?`. Any other brace is text. Messages are compared without the whitespace at their
end.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from torchspan.redaction import UNKNOWN
from torchspan.redaction.operator_registry import is_operator
from torchspan.redaction.type_names import BUILTINS, ONNX_OPERATORS, is_type_name

LENGTH_LIMIT = 65_536
"""Characters of the longest message that is compared with the table."""

FILES = ("pytorch", "graph_break_explanations", "interpreter", "torch_tensorrt", "tensorrt", "onnx_parser")
"""The files of the table, in `known_messages/`."""

_MOST_IN_A_HOLE = 512
"""Characters of the longest text in a hole that may be kept."""
_FEWEST_LETTERS = 10
"""Letters that a row has outside its holes. A shorter row would match texts that are not of its library."""
_KEY = 6
"""Characters of a message's beginning or end by which its row is looked up."""

_BEGINNING = 2_048
"""Characters of a message in which a row with holes at both ends is recognized, so that a long message costs what a short one does."""

# A full stop may end the sentence, and the message with it.
_SIZES = re.compile(
    r"(?:[\[(]?\d{1,19}(?:(?:, ?| ?x ?)\d{1,19}){0,31},?[\])]?|[\[(][\])]|torch\.Size\(\[[\d, ]{0,256}\]\))\.?",
    re.ASCII,
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|<locals>|<lambda>))*", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,19}\.?", re.ASCII)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


HOLES: Mapping[str, Callable[[str], bool]] = {
    "type": is_type_name,
    "shape": lambda text: _SIZES.fullmatch(text) is not None,
    "operator": lambda text: is_operator(text) or (text.isidentifier() and is_operator(f"aten::{text}")),
    "onnx_operator": ONNX_OPERATORS.__contains__,
    "builtin": BUILTINS.__contains__,
    "function": lambda text: _DOTTED.fullmatch(text) is not None,
    "size": _is_number,
    "rank": _is_number,
    "dimension": _is_number,
    "count": _is_number,
    "any": lambda _text: False,
}
"""Name of a hole -> whether a text is of its type."""

_HOLE = re.compile(r"\{([a-z_]+)\}")


class BadRowError(ValueError):
    """A row of the table that cannot be used, with its file, its number and the reason."""


class KnownMessage(NamedTuple):
    """A message that is known.

    Attributes:
        literals: The text before, between and behind the holes: one more than there are holes.
        holes: The names of the holes.
        source: Where the text is from.
    """

    literals: tuple[str, ...]
    holes: tuple[str, ...]
    source: str

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
            is_bounded = is_certain and (stop == other or hole == "function")
            pieces += (_in_hole(hole, text[start:stop]) if is_bounded else UNKNOWN, literal)
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


def _in_hole(hole: str, text: str) -> str:
    return text if not text or (len(text) <= _MOST_IN_A_HOLE and HOLES[hole](text)) else UNKNOWN


class MessageTable:
    """Rows, looked up by the beginning or the end of a message.

    Args:
        rows: The rows. Of those that match a message and are looked up in the same way, the one with the longest text decides.
    """

    def __init__(self, rows: Iterable[KnownMessage]) -> None:
        self.rows = tuple(sorted(rows, key=lambda row: -sum(map(len, row.literals))))
        self._by_beginning: dict[str, list[KnownMessage]] = {}
        self._by_end: dict[str, list[KnownMessage]] = {}
        self._others: list[tuple[str, KnownMessage]] = []
        """Rows with a hole at both ends, with their longest literal."""
        for row in self.rows:
            first, last = row.literals[0], row.literals[-1]
            if len(first) >= _KEY:
                self._by_beginning.setdefault(first[:_KEY], []).append(row)
            elif len(last) >= _KEY:
                self._by_end.setdefault(last[-_KEY:], []).append(row)
            else:
                self._others.append((max(row.literals, key=len), row))

    def kept(self, text: str) -> str | None:
        """What may leave of a message; None if no row matches it as a whole."""
        if len(text) > LENGTH_LIMIT:
            return None
        nothing: list[KnownMessage] = []
        for row in self._by_beginning.get(text[:_KEY], nothing) + self._by_end.get(text[-_KEY:], nothing):
            kept = row.kept(text)
            if kept is not None:
                return kept
        beginning = text[:_BEGINNING]
        for literal, row in self._others:
            if literal in beginning and (kept := row.kept(text)) is not None:
                return kept
        return None


@lru_cache(maxsize=1)
def table() -> MessageTable:
    """The table of the package, read at the first call."""
    return MessageTable(row for name in FILES for row in read(name))


def read(name: str) -> list[KnownMessage]:
    """The rows of one of `FILES`."""
    return rows_of(json.loads(pkgutil.get_data(__package__, f"known_messages/{name}.json") or b""), name)


@lru_cache(maxsize=1)
def graph_breaks() -> tuple[frozenset[str], frozenset[str]]:
    """PyTorch's types of graph breaks and its general hints, as `tools/collect_graph_breaks.py` reads them from its source."""
    document = json.loads(pkgutil.get_data(__package__, "known_messages/graph_breaks.json") or b"")
    return frozenset(document["types"]), frozenset(document["hints"])


def rows_of(document: Any, name: str) -> list[KnownMessage]:
    """The rows of one file.

    Args:
        document: What the JSON text contains.
        name: Of the file, for errors.

    Raises:
        BadRowError: A row lacks its source, has an unknown key or hole, two holes that touch, whitespace at its end, or too little
            text, or repeats another row.
    """
    rows: list[KnownMessage] = []
    messages: set[str] = set()
    for number, fields in enumerate(document["rows"], 1):
        place = f"known_messages/{name}.json, row {number}"
        unknown = set(fields) - {"message", "source", "versions"}
        if unknown or not fields.get("source"):
            raise BadRowError(f"{place}: {f'unknown key {min(unknown)}' if unknown else 'it has no source'}")
        if fields["message"] in messages:
            raise BadRowError(f"{place}: it repeats another row")
        messages.add(fields["message"])
        rows.append(_row(fields["message"], fields["source"], place))
    return rows


def _row(message: str, source: str, place: str) -> KnownMessage:
    pieces = _HOLE.split(message)
    literals, holes = pieces[::2], pieces[1::2]
    unknown = next((hole for hole in holes if hole not in HOLES), None)
    if unknown is not None:
        raise BadRowError(f"{place}: {{{unknown}}} is not a hole; there are {', '.join(HOLES)}")
    if message != message.rstrip():
        raise BadRowError(f"{place}: whitespace at its end matches nothing, because messages are compared without it")
    if "" in literals[1:-1]:
        raise BadRowError(f"{place}: two holes touch, so it is unknown where one ends")
    if sum(map(str.isalpha, "".join(literals))) < _FEWEST_LETTERS:
        raise BadRowError(f"{place}: fewer than {_FEWEST_LETTERS} letters outside the holes match other texts, too")
    return KnownMessage(tuple(literals), tuple(holes), source)
