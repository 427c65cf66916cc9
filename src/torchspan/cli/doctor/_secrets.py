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
_USER_INFO = re.compile(r"(?<=//)[^/?#\s]*@")
_QUERY = re.compile(r"(?<=\?)[^\s#'\"]+")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)


class Secrets:
    """The credentials of an environment and its configuration file: values of headers; users, passwords and queries of URLs."""

    def __init__(self, context: Context) -> None:
        texts = [text for name, text in context.environment.items() if _HEADERS.match(name)]
        if context.file is not None:
            texts.extend(headers(context.file.configuration))
        values = {value for text in texts for value in _credentials(text)}
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


def _credentials(text: str) -> Iterator[str]:
    """The values of a list of headers; of `Bearer abc` the second word, too."""
    for entry in text.split(","):
        _, equals, value = entry.partition("=")
        for each in {value.strip(), unquote(value).strip()} if equals else {entry.strip()}:
            yield from (part for part in (each, *each.split()) if part and part not in _SCHEMES)


_SCHEMES = ("Basic", "Bearer", "Digest", "Api-Key", "Token")
"""Words before a credential, which occur in other texts."""
