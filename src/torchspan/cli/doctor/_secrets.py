# SPDX-License-Identifier: Apache-2.0
"""Keeps credentials out of what `torchspan doctor` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from torchspan.cli.doctor._check import Context
from torchspan.cli.doctor._configuration import headers

HIDDEN = "***"
_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP(_\w+)?_HEADERS$")
_ADDRESS = re.compile(r"(ENDPOINT|_PROXY)$", re.IGNORECASE)
_SHORTEST, _LONG = 4, 8
_USER_INFO = re.compile(r"(?<=//)[^/?#\s]*@")
_QUERY = re.compile(r"(?<=\?)[^\s#'\"]+")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)


class Secrets:
    """The credentials of an environment and its configuration file: values of headers; users, passwords and queries of URLs.

    A value of up to three characters is none: it stands in too many other texts.
    """

    def __init__(self, context: Context) -> None:
        texts = [text for name, text in context.environment.items() if _HEADERS.match(name)]
        if context.file is not None:
            texts.extend(headers(context.file.configuration))
        values = {value for text in texts for value in _credentials(text)}
        for name, text in context.environment.items():
            if _ADDRESS.search(name):
                values |= set(_user_info(text))
        # A value may stand in another one.
        listed = sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True)
        self._values = re.compile("|".join(map(_pattern, listed))) if listed else None

    def hide(self, value: Any) -> Any:
        """The value with `***` for each credential, in texts inside of lists and mappings as well."""
        if isinstance(value, str):
            return self._hidden(value)
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(element) for key, element in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide(element) for element in value]
        return value

    def _hidden(self, text: str) -> str:
        if self._values is not None:
            text = self._values.sub(HIDDEN, text)
        return _URL.sub(lambda url: _QUERY.sub(HIDDEN, _USER_INFO.sub(f"{HIDDEN}@", url[0])), text)


def _credentials(text: str) -> Iterator[str]:
    """The values of a list of headers; of `Bearer abc` the second word, too."""
    for entry in text.split(","):
        _, equals, value = entry.partition("=")
        for secret in {value.strip(), unquote(value).strip()} if equals else {entry.strip()}:
            yield from (part for part in (secret, *secret.split()) if part and part not in _SCHEMES)


def _user_info(text: str) -> Iterator[str]:
    """User and password of an address, with a scheme before them or without; the password alone, too."""
    before, at, _ = text.rpartition("@")
    if at:
        whole = before.rpartition("//")[2]
        _, colon, password = whole.partition(":")
        for secret in (whole, password if colon else ""):
            yield from (secret, unquote(secret))


def _pattern(value: str) -> str:
    """A short value is a credential only where it is a word of its own: `prod` does not stand in `product`."""
    return re.escape(value) if len(value) >= _LONG else rf"(?<!\w){re.escape(value)}(?!\w)"


_SCHEMES = ("Basic", "Bearer", "Digest", "Api-Key", "Token")
"""Words before a credential, which occur in other texts."""
