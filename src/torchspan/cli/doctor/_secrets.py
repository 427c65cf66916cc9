# SPDX-License-Identifier: Apache-2.0
"""Keeps credentials out of what `torchspan doctor` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

HIDDEN = "***"
_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP(_\w+)?_HEADERS$")
_USER_INFO = re.compile(r"(?<=//)[^/?#\s]*@")
_QUERY = re.compile(r"(?<=\?)[^\s#'\"]+")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)


class Secrets:
    """The credentials in an environment: values of headers; users, passwords and queries of URLs."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {value for name, text in environment.items() for value in _credentials(name, text)}
        # A value may stand in another one.
        self._values = sorted(values, key=len, reverse=True)

    def hide(self, value: Any) -> Any:
        """The value with `***` for each credential, in texts inside of lists and mappings as well."""
        if isinstance(value, str):
            return self._hidden(value)
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide(each) for each in value]
        return value

    def _hidden(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return _URL.sub(lambda url: _QUERY.sub(HIDDEN, _USER_INFO.sub(f"{HIDDEN}@", url[0])), text)


def _credentials(name: str, text: str) -> Iterator[str]:
    """The values of headers in a variable; of `Bearer abc` the second word, too."""
    if not _HEADERS.match(name):
        return
    for entry in text.split(","):
        _, equals, value = entry.partition("=")
        for each in {value.strip(), unquote(value).strip()} if equals else {entry.strip()}:
            yield from (part for part in (each, *each.split()) if part and part not in _SCHEMES)


_SCHEMES = ("Basic", "Bearer", "Digest", "Api-Key", "Token")
"""Words before a credential, which occur in other texts."""
