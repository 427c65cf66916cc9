# SPDX-License-Identifier: Apache-2.0
"""What may be printed of endpoints and of answers.

An endpoint may have a password, a token in its path or in its query; an answer may repeat a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from torchspan.cli._terminal import printable
from torchspan.cli.doctor._secrets import HIDDEN

_SHOWN_SEGMENTS = {"", "api", "ingest", "logs", "metrics", "opentelemetry", "otel", "otlp", "traces", "v1", "v2"}
_SHORTEST_SECRET = 4
_LONGEST_TEXT = 200


def shown(url: str) -> str:
    """The scheme, host and port of a URL, and the parts of its path that are no secret; `***` for what is left out."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    path, _, query = rest[len(authority) :].partition("?")
    host = authority.rpartition("@")[2]
    segments = [segment if segment.lower() in _SHOWN_SEGMENTS else HIDDEN for segment in path.split("/")]
    return printable(f"{scheme}{separator}{host}{'/'.join(segments)}{f'?{HIDDEN}' if query else ''}")


def secrets_in(url: str, headers: Iterable[str] = ()) -> set[str]:
    """What must not be printed: the values of headers, and the parts of a URL that `shown` leaves out.

    headers: their values. A value such as `Bearer abc` is a secret as a whole and in its parts.
    """
    found = {part for value in headers for part in (value, *value.split())}
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        found |= {parts.username or "", parts.password or "", parts.query}
        found |= {segment for segment in parts.path.split("/") if segment.lower() not in _SHOWN_SEGMENTS}
        found |= {value for _, _, value in (pair.partition("=") for pair in parts.query.split("&"))}
    except ValueError:
        found.add(url)
    found |= {unquote(each) for each in found}
    return {each for each in found if len(each) >= _SHORTEST_SECRET}


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """One line of at most 200 characters of a text from outside, each secret in it replaced by `***`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = " ".join(text.split())
    return printable(text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…")
