# SPDX-License-Identifier: Apache-2.0
"""Files of observed calls: JSON of one version, written as a whole and checked as a whole.

A document has a list of observations, one for each class. Written without values it has nothing of the program but names of
classes and parameters; see `torchspan.inputs.written.encoder`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torchspan.base.files.opening import PRIVATE, open_own, replace_file
from torchspan.inputs.written.decoder import InvalidRecordError, checked, decoded
from torchspan.inputs.written.encoder import Record
from torchspan.inputs.written.portable import METHOD
from torchspan.words.environment_variables import TORCHSPAN_CAPTURE

VERSION = 1
LARGEST = 1 << 28
"""Bytes of the largest file that is read."""

_VERSION_KEY = "torchspan_inputs"
_START = re.compile(rf'\s*{{\s*"{_VERSION_KEY}"'.encode())
_WRITERS = "InputObserver.to_json, or with torchspan run --observe-inputs"
"""What writes files of observed inputs, for messages."""


class InputFileError(ValueError):
    """A file, or a text, contains no observed calls that this version of torchspan can read."""


@dataclass(frozen=True)
class Document:
    """What one file has.

    Args:
        observations: One for each class.
        unseen: Why no object of a class was observed, by the class as the user named it.
    """

    observations: Sequence[Record]
    unseen: Mapping[str, str] = field(default_factory=dict)


def title(record: Record) -> str:
    """`module.Class.forward`."""
    return f"{record['class']}.{METHOD}"


# --- writing ---------------------------------------------------------------------------------------------------------
def text_of(document: Document) -> str:
    """The document as JSON, in ASCII."""
    written = {_VERSION_KEY: VERSION, "observations": [*document.observations], "unseen": dict(document.unseen)}
    return json.dumps(written) + "\n"


def write(document: Document, file: str | os.PathLike[str], inputs: Iterable[str] = ()) -> str:
    """Write the document as a whole, for its owner alone. Returns its text.

    It replaces an earlier document of this name, unless that is one of `inputs`. Raises OSError, also for any other file that
    exists.
    """
    text, path = text_of(document), os.fspath(file)
    with contextlib.suppress(FileNotFoundError):
        os.close(open_own(path, _START, "a file of observed inputs", inputs))
    replace_file(path, text.encode("ascii"), PRIVATE)
    return text


def writes_values() -> bool:
    """Whether the environment asks for texts and values of the program."""
    return os.environ.get(TORCHSPAN_CAPTURE, "").strip().lower() == "text"


# --- reading ---------------------------------------------------------------------------------------------------------
def read(file: str | os.PathLike[str]) -> Document:
    """The document in a file. Raises InputFileError, and OSError where it cannot be opened."""
    with open(file, "rb") as opened:  # noqa: PTH123 - FilePath takes no descriptor
        content = opened.read(LARGEST + 1)
    return parsed(content, os.fspath(file))


def parsed(content: bytes | str, name: str) -> Document:
    """The document in a text. Raises InputFileError.

    Args:
        name: How messages name it.
    """
    if len(content) > LARGEST:
        raise InputFileError(f"{name} has more than {LARGEST:,} bytes: it is not a file of observed inputs.")
    start = content[:200].decode("utf-8", "replace") if isinstance(content, bytes) else content[:200]
    if start.lstrip().startswith('{"resource'):
        raise InputFileError(
            f"{name} is not a file of observed inputs: it is a file of traces. Show it with torchspan show."
        )
    if not content.strip():
        raise InputFileError(f"{name} is empty. Write it again with {_WRITERS}.")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise InputFileError(
            f"{name} is torn, or is not a file of observed inputs: it is not complete JSON. Write it again with {_WRITERS}."
        ) from None
    version = document.get(_VERSION_KEY) if isinstance(document, dict) else None
    if version is None:
        raise InputFileError(
            f"{name} is not a file of observed inputs: it has no {_VERSION_KEY!r}. Name a file that was written with {_WRITERS}."
        )
    if version != VERSION or isinstance(version, bool):
        raise InputFileError(
            f"{name} has version {str(version)[:20]} of the format, but this torchspan reads version {VERSION}. Read it with the "
            "version of torchspan that wrote it, or write it again with this one."
        )
    try:
        observations = checked(document["observations"], list)
        for record in observations:
            decoded(record)
        unseen = {path: checked(problem, str) for path, problem in checked(document["unseen"], dict).items()}
    except InvalidRecordError as error:
        raise InputFileError(f"{name} is damaged: {error}. Write it again.") from None
    except KeyError as error:
        raise InputFileError(f"{name} is damaged: it lacks {str(error)[:100]}. Write it again.") from None
    return Document(observations, unseen)


def one_of(document: Document, name: str | None, source: str) -> Record:
    """The observation of this name, or the only one there is. Raises InputFileError.

    Args:
        source: How messages name the document.
    """
    matching = [record for record in document.observations if name in {None, title(record)}]
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(map(title, document.observations))
    if not document.observations:
        why = "; ".join(f"{path}: {problem}" for path, problem in document.unseen.items())
        raise InputFileError(f"{source} has no calls{f' ({why})' if why else ''}.")
    if name is not None:
        raise InputFileError(f"{source} has no calls of {name!r}; it has calls of {names}.")
    raise InputFileError(f"{source} has calls of several methods: choose one with name=, one of {names}.")
