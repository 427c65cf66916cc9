# SPDX-License-Identifier: Apache-2.0
"""Messages without the values in them.

Exception messages and logs of compilers quote the values that they failed on: strings of the user, names of layers, whole
graphs. By default only a template leaves the process: the words of the texts of PyTorch, Torch-TensorRT and TensorRT stay, and
so do names of registered operators. Everything else is `?`.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from torchspan._base.bounds import VALUE_LIMIT
from torchspan._base.operators import is_operator

LENGTH_LIMIT = 256
"""Characters of a template."""

_READ = 4 * LENGTH_LIMIT
"""Characters of a line that are examined."""

_SEPARATORS = re.compile(r"([()\[\]{}<>,;=\"|!`]+)")
_COMMON_MARKS = ",.:;)"
_COLON = re.compile(r"(?<!:)(:)(?!:)")
"""A separator too. `::` is part of a word."""
_AROUND = ".'*+-&^:?…"
"""Characters that may surround a word without being part of it."""
_TOO_MANY = re.compile(r"([.'*+\-&^…]{3})[.'*+\-&^…]+|([()\[\]{}<>,;=\"|!`]{3})[()\[\]{}<>,;=\"|!`]+")
"""More than three marks in a row. A colon stays, since it separates words."""
_REPEATED = re.compile(r"\?(?:[ ,]*\?)+")

_REDUCED_LIMIT = 14
_ASKED_LIMIT = 4
"""How many words of a message are split without success, and how many of those are looked up among the operators. After that a
word stays only if the whole word is in the vocabulary. So no message costs more than one of the libraries' own."""

_SEEN_LIMIT = 4096
_seen: set[str] = set()
"""Words with punctuation that stay unchanged, such as `tensor,`. It contains no word that was replaced."""


def template(text: str) -> str:
    """The first line, at most `LENGTH_LIMIT` characters, with the libraries' own words and operators. All else is `?`.

    A word stays if it is in `words` or is a registered operator. It is judged as a whole, so a path, an address or a number
    is one `?`. Several `?` in a row become one. No more than the first 4,096 characters are read. The template of a template is
    the template itself.
    """
    line = text[: 4 * _READ].lstrip().partition("\n")[0]
    chunks = line[:_READ].split()
    if len(line) > _READ:
        chunks[-1] = "?"  # the first half of a word may be another word
    vocabulary, kept, length, last, is_cut = words(), [], 0, "", False
    patience, asks = _REDUCED_LIMIT, _ASKED_LIMIT
    for chunk in chunks:
        if chunk in vocabulary:
            piece = chunk
        elif patience == 0 or chunk.isalnum():
            if last == "?":
                continue
            piece = "?"
        elif chunk in _seen:
            piece = chunk
        else:
            piece = _reduced(chunk, vocabulary, asks=asks > 0)
            if "?" in piece and chunk != "?":
                patience -= 1
                asks -= "." in chunk or ":" in chunk
            if piece == last and piece in {"?", "?,"}:
                continue
        last = piece
        kept.append(piece)
        length += len(piece) + 1
        if length > LENGTH_LIMIT + 1:
            is_cut = True
            break
    whole = _REPEATED.sub("?", " ".join(kept))
    return f"{whole[: LENGTH_LIMIT - 1].rpartition(' ')[0] or '?'} …" if is_cut else whole


@lru_cache(maxsize=1)
def words() -> Mapping[str, None]:
    """The vocabulary, read at the first call: `tools/generate_vocabulary.py` makes it from the libraries' texts.

    Unlike a set, a dictionary of texts is not visited by each collection of garbage, of which a compilation runs a dozen.
    """
    data = pkgutil.get_data(__package__, "vocabulary.txt")
    return dict.fromkeys((data or b"").decode().split())


def redactor(*, capture_text: bool) -> Callable[[str], str]:
    """The function that reduces a text of a library to what may be recorded: `template`, or with `capture_text` a bound."""
    return _bounded if capture_text else template


def _reduced(chunk: str, words: Mapping[str, None], *, asks: bool) -> str:
    """What stays of the characters between two spaces.

    Args:
        asks: Whether operators are looked up.
    """
    core, mark = chunk[:-1], chunk[-1]
    if mark in _COMMON_MARKS and core.isalnum():  # as below, in a tenth of the time
        return chunk if core in words else f"?{mark}"
    parts = _SEPARATORS.split(chunk)  # word, separators, word, ...
    redacted = [part if index % 2 else _word(part, words, asks=asks) for index, part in enumerate(parts)]
    whole = "".join(redacted)
    if len(whole) > 3:
        whole = _TOO_MANY.sub(r"\1\2", whole)
    if whole == chunk and "?" not in chunk and len(_seen) < _SEEN_LIMIT:
        _seen.add(chunk)
    return whole


def _word(part: str, words: Mapping[str, None], *, asks: bool) -> str:
    if part in words:
        return part
    start = part.lstrip(_AROUND)
    word = start.rstrip(_AROUND)
    if word in words or _is_made_of_known(word, words, asks=asks):
        redacted = word
    elif ":" in word and len(words_and_colons := _COLON.split(word)) > 1:
        redacted = "".join(piece if piece == ":" else _word(piece, words, asks=asks) for piece in words_and_colons)
    else:
        redacted = "?" if word else ""
    before, after = part[: len(part) - len(start)], start[len(word) :]
    return f"{before}{redacted}{after}"


def _is_made_of_known(word: str, words: Mapping[str, None], *, asks: bool) -> bool:
    if "-" in word:
        return all(part in words for part in word.split("-"))
    return asks and ("." in word or ":" in word) and is_operator(word)


def _bounded(text: str) -> str:
    return text[:VALUE_LIMIT]
