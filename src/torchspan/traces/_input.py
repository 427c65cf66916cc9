# SPDX-License-Identifier: Apache-2.0
"""Files, pipes and streams to JSON documents, in bounded memory."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from torchspan.traces._otlp import UnreadableError

LONGEST_DOCUMENT = 256 * 1024 * 1024
"""Bytes of one document, a line or one that is printed over several lines; a longer one is skipped."""

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_REQUEST = b'{"resource'
_CHUNK = 1024 * 1024

Source = str | os.PathLike[str] | BinaryIO
"""A path, or a stream of bytes that is read from its current position on."""

Loads = Callable[[str], Any]
"""From a JSON text to what it says. Raises what `json.loads` does, and UnreadableError."""

Document = tuple[str, Any]
"""Where a document stands, and the document, or an UnreadableError that says what is wrong with it."""


class _IncompleteError(UnreadableError):
    """The text is the beginning of a document."""


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The file, open for reading. Raises OSError when it cannot be opened, and for a device, which may have no end."""
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        is_device = stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
        if is_device and not file.isatty() and not os.path.samestat(status, Path(os.devnull).stat()):
            raise OSError(errno.EINVAL, "a device, not a file of traces", os.fspath(path))
        yield file


def every_document(sources: Iterable[Source], loads: Loads = json.loads) -> Iterator[tuple[str, str, Any]]:
    """The documents of all sources, each with the name of its source and with its place there; see `documents`.

    Raises OSError when a source cannot be opened or read, and for a device.
    """
    for source in sources:
        if isinstance(source, (str, os.PathLike)):
            with opened(source) as file:
                yield from ((os.fspath(source), *document) for document in documents(file, loads))
        elif isinstance(source, io.TextIOBase) or not hasattr(source, "readable"):
            raise TypeError(
                f"a source must be a path (str or os.PathLike) or a file open in binary mode, not {source!r}"
            )
        else:
            name = str(getattr(source, "name", "stream"))
            yield from ((name, *document) for document in documents(source, loads))


def documents(file: BinaryIO, loads: Loads = json.loads, longest: int = LONGEST_DOCUMENT) -> Iterator[Document]:
    """The JSON documents of a file from its current position on: one a line, or each printed over several lines.

    gzip is unpacked and a byte order mark left out. Of a file that is cut off, or still written, all whole documents
    are found. A document of more than `longest` bytes is skipped; in a pipe it ends the reading, since a pipe
    need not have an end. Raises OSError when the file cannot be read.
    """
    buffered = io.BufferedReader(cast("io.RawIOBase", file))
    try:
        is_packed = buffered.peek(2)[:2] == _GZIP
        stream: _Stream = gzip.GzipFile(fileobj=buffered) if is_packed else buffered
        yield from _Lines(stream, loads, longest, has_end=_is_regular(file)).documents()
    finally:
        buffered.detach()  # else it would close the caller's file


def _is_regular(file: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # io.UnsupportedOperation among them: a stream in memory
        return True


class _Stream(Protocol):
    def readline(self, size: int, /) -> bytes: ...


class _Lines:
    """Lines of a stream, put together to documents."""

    def __init__(self, stream: _Stream, loads: Loads, longest: int, *, has_end: bool) -> None:
        self._stream = stream
        self._loads = loads
        self._longest = longest
        self._has_end = has_end
        self._is_over = False
        self._number = 0  # of the line that was read last
        self._damage: Document | None = None

    def documents(self) -> Iterator[Document]:
        line = self._next()
        while line:
            place = f"line {self._number}"
            after = None
            if line.strip():
                document = _parsed(line, self._loads, self._longest)
                if isinstance(document, _IncompleteError) and _depth(line) > 0:
                    text, after = self._several(line)
                    document = _parsed(text, self._loads, self._longest)
                if isinstance(document, _IncompleteError) and after:
                    document = UnreadableError("not JSON")  # another document follows: nothing is missing at the end
                yield place, document
            line = self._next() if after is None else after
        if self._damage is not None:
            yield self._damage

    def _next(self) -> bytes:
        """The next line with its newline (the last one may have none); empty at the end. A long one is cut short."""
        if self._is_over:
            return b""
        try:
            line = self._stream.readline(self._longest + 1)
            if len(line) > self._longest and not line.endswith(b"\n"):
                self._skip()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            # What is packed is damaged or ends too early, and the bytes since the last newline are lost.
            what = "cut off" if isinstance(error, EOFError) else "damaged"
            self._damage = f"after line {self._number}", UnreadableError(f"{what} (packed with gzip)")
            return b""
        self._number += 1
        return line.removeprefix(_BYTE_ORDER_MARK) if self._number == 1 else line

    def _skip(self) -> None:
        """Read to the end of the line. Of what need not have an end nothing more is read."""
        if not self._has_end:
            self._is_over = True
            return
        while (more := self._stream.readline(_CHUNK)) and not more.endswith(b"\n"):
            pass

    def _several(self, first: bytes) -> tuple[bytes, bytes]:
        """The document that begins with this line and ends on a later one, and the line after it.

        A line that begins a request is not part of it: a writer was stopped in the middle of a line, and another one
        continued. In a list of requests it is one of them.
        """
        lines, depth, length = [first], _depth(first), len(first)
        is_list = first.lstrip().startswith(b"[")
        while line := self._next():
            if line.startswith(_REQUEST) and not is_list:
                return b"".join(lines), line
            lines.append(line)
            depth += _depth(line)
            length += len(line)
            if depth <= 0 or length > self._longest:
                return b"".join(lines), self._next()
        return b"".join(lines), b""


def _depth(line: bytes) -> int:
    """How many brackets the line opens and does not close; 0 where a string is cut off, which only a torn line is."""
    pieces = _ESCAPED.sub(b"", line).split(b'"')  # outside and inside of strings by turns
    if len(pieces) % 2 == 0:
        return 0
    rest = b"".join(pieces[::2])
    return rest.count(b"{") + rest.count(b"[") - rest.count(b"}") - rest.count(b"]")


def _parsed(text: bytes, loads: Loads, longest: int) -> Any:
    """The document, or an UnreadableError that says what is wrong with it."""
    if len(text) > longest:
        return UnreadableError(f"longer than {longest // 2**20} MiB")
    try:
        return loads(text.decode("utf-8"))
    except UnreadableError as error:
        return error
    except UnicodeDecodeError:
        return UnreadableError("not UTF-8 text")
    except RecursionError:
        return UnreadableError("nested too deeply")
    except ValueError:
        is_torn = not text.endswith(b"\n") or _depth(text) > 0
        if is_torn and text.lstrip().startswith((b"{", b"[")):
            return _IncompleteError("cut off (the program was stopped while writing, or still writes)")
        return UnreadableError("not JSON")
