# SPDX-License-Identifier: Apache-2.0
"""What may be printed of endpoints and of answers.

An endpoint may have a password, a token in its path or in its query; an answer may repeat a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from torchspan.cli._terminal import printable
from torchspan.cli.doctor._secrets import HIDDEN

_SHOWN_SEGMENTS = {"", "api", "ingest", "logs", "metrics", "opentelemetry", "otel", "otlp", "traces", "v1", "v2"}
_SCHEME = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?")
_SEPARATORS = re.compile(r"[/?#&=@]")
_SHORTEST_SECRET = 4
_LONGEST_TEXT = 200


def shown(url: str) -> str:
    """The scheme, host and port of a URL, and the parts of its path that are not secret; `***` for what is left out.

    A password may have a slash or a question mark that is not encoded: with an `@` behind one, all is left out.
    """
    scheme, authority, rest = _parts(url)
    if "@" in rest or not _SCHEME.fullmatch(scheme):
        return HIDDEN
    user, at, host = authority.rpartition("@")
    path, mark, _ = rest.partition("?")
    segments = [segment if segment.lower() in _SHOWN_SEGMENTS else HIDDEN for segment in path.split("/")]
    return printable(f"{scheme}{HIDDEN if user else ''}{at}{host}{'/'.join(segments)}{f'?{HIDDEN}' if mark else ''}")


def secrets_in(url: str, headers: Iterable[str] = ()) -> set[str]:
    """What must not be printed: the values of headers, and the parts of a URL that `shown` leaves out.

    headers: their values. A value such as `Bearer abc` is a secret as a whole and in its parts.
    """
    _, authority, rest = _parts(url)
    user = authority.rpartition("@")[0]
    found = {part for value in headers for part in (value, *value.split())}
    found |= {user, user.partition(":")[2], rest.partition("?")[2], *_SEPARATORS.split(rest)} - _SHOWN_SEGMENTS
    found |= {unquote(each) for each in found}
    return {each for each in found if len(each) >= _SHORTEST_SECRET}


def _parts(url: str) -> tuple[str, str, str]:
    """`http://`, or nothing where there is no scheme; what stands before the path; the path with all behind it."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return f"{scheme}{separator}", authority, rest[len(authority) :]


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """One line of at most 200 characters of a text from outside, each secret in it replaced by `***`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = " ".join(text.split())
    return printable(text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…")
