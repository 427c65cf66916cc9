# SPDX-License-Identifier: Apache-2.0
"""Files, pipes and streams to JSON documents, in bounded memory."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from torchspan.reading.traces._otlp import UnreadableError

LONGEST_DOCUMENT = 256 * 1024 * 1024
"""Bytes of one document, a line; a longer one is skipped."""

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 1024 * 1024

Source = str | os.PathLike[str] | BinaryIO
"""A path, or a stream of bytes that is read from its current position on."""

Loads = Callable[[str], Any]
"""From a JSON text to what it says. Raises what `json.loads` does, and UnreadableError."""

Document = tuple[str, Any]
"""Where a document stands, and the document, or an UnreadableError that says what is wrong with it."""


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
    """The JSON documents of a file from its current position on, one a line.

    gzip is unpacked and a byte order mark left out. Of a file that is cut off, or still written, all whole documents
    are found. A document of more than `longest` bytes is skipped; in a pipe it ends the reading, since a pipe
    need not have an end. Raises OSError when the file cannot be read.
    """
    buffered = io.BufferedReader(cast("io.RawIOBase", file))
    try:
        is_packed = buffered.peek(2)[:2] == _GZIP
        stream = cast("BinaryIO", gzip.GzipFile(fileobj=buffered) if is_packed else buffered)
        yield from _documents(stream, loads, longest, has_end=_is_regular(file))
    finally:
        buffered.detach()  # else it would close the caller's file


def _is_regular(file: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # io.UnsupportedOperation among them: a stream in memory
        return True


def _documents(stream: BinaryIO, loads: Loads, longest: int, *, has_end: bool) -> Iterator[Document]:
    number, is_over = 0, False
    while not is_over:
        try:
            line = stream.readline(longest + 1)
            if len(line) > longest and not line.endswith(b"\n"):
                is_over = not has_end
                while has_end and (more := stream.readline(_CHUNK)) and not more.endswith(b"\n"):
                    pass
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            # What is packed is damaged or ends too early, and the bytes since the last newline are lost.
            what = "cut off" if isinstance(error, EOFError) else "damaged"
            yield f"after line {number}", UnreadableError(f"{what} (packed with gzip)")
            return
        if not line:
            return
        number += 1
        text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        if text.strip():
            yield f"line {number}", _parsed(text, loads, longest)


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
        if text.startswith((b"{", b"[")) and not text.endswith(b"\n"):
            return UnreadableError("cut off (the program was stopped while writing, or still writes)")
        return UnreadableError("not JSON")
