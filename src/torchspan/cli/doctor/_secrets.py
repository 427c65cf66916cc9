# SPDX-License-Identifier: Apache-2.0
"""Keeps credentials out of what `torchspan doctor` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

from torchspan.cli.doctor._configuration import named_texts
from torchspan.reading.answers.lines import printable

HIDDEN = "***"
_LONGEST = 400
"""Characters of a text of an exporter. It may repeat what an endpoint answers."""

_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP(_\w+)?_HEADERS$")
_ADDRESS = re.compile(r"(ENDPOINT|_PROXY)$", re.IGNORECASE)
_SHORTEST, _LONG = 4, 8
_EDGE = r"(?:(?<!\w)|(?!\w))"
"""No place inside of a word."""
_USER_INFO = re.compile(r"(?<=//)[^/?#\s]*@")
_QUERY = re.compile(r"(/[^\s?'\"]*\?)[^\s#'\"]+")
_SIGNALS_PATH = re.compile(r"/v1/(traces|metrics|logs)(?=$|[?#])")
_SAFE = "!#$%&'()*+,/:;=?@[]~"
"""What requests leaves as it is in a URL."""


class Secrets:
    """The credentials of an environment and its configuration file: values of headers; users, passwords, paths and queries of URLs.

    A value of up to three characters is none: it stands in too many other texts.

    Args:
        configuration: OpenTelemetry's model of the file; None where there is none.
    """

    def __init__(self, environment: Mapping[str, str], configuration: Any) -> None:
        values = {value for kind, text in _texts(environment, configuration) for value in _READ[kind](text)}
        forms = {
            form
            for value in values
            # As it is, as an exception quotes it, and as a URL has it.
            for form in (value, unquote(value), repr(value)[1:-1], quote(value, _SAFE, errors="replace"))
            if len(form) >= _SHORTEST
        }
        # A value may stand in another one.
        self._values = [re.compile(_pattern(form)) for form in sorted(forms, key=len, reverse=True)]

    def hide(self, value: Any) -> Any:
        """The value with `***` for each credential, in texts inside of lists and mappings as well."""
        if isinstance(value, str):
            for each in self._values:
                value = each.sub(HIDDEN, value)
            return _QUERY.sub(rf"\1{HIDDEN}", _USER_INFO.sub(f"{HIDDEN}@", value))
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(element) for key, element in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide(element) for element in value]
        return value

    def line(self, text: str) -> str:
        """What an exporter or the SDK says, as one printable line without credentials, shortened, and without a full stop."""
        line = printable(" ".join(self.hide(text).split())).removesuffix(".")
        return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _texts(environment: Mapping[str, str], configuration: Any) -> Iterator[tuple[str, str]]:
    """A key of `_READ`, and a text with credentials."""
    for name, text in environment.items():
        if _HEADERS.match(name):
            yield "headers_list", text
        elif _ADDRESS.search(name):
            yield "endpoint", text
    yield from named_texts(configuration, _READ)


def _in_value(value: str) -> Iterator[str]:
    """The value of a header; of `Bearer abc` the second word, too."""
    for secret in (value.strip(), unquote(value).strip()):
        yield from (part for part in (secret, *secret.split()) if part not in _SCHEMES)


def _in_list(text: str) -> Iterator[str]:
    """The values of a list of headers. What has no name is a value."""
    for entry in text.split(","):
        _, equals, value = entry.partition("=")
        yield from _in_value(value if equals else entry)


def _in_address(text: str) -> Iterator[str]:
    """User and password of an address, with a scheme before them or without, together and in parts; its path, and what its query has."""
    bare = re.sub(r"^[\w+.-]*://", "", text)
    user, _, after = bare.rpartition("@")
    # All of it where it cannot be said which @ ends the password.
    yield from (user, user.partition(":")[2], *re.split("[/?#@:]", user), text if re.search("[/?#]", user) else "")
    for rest in (after, bare):
        _, slash, path = rest.partition("/")
        whole = _SIGNALS_PATH.sub("", slash + path)
        yield from (whole, *re.split("[?#]", whole), *re.split("[?&#=]", whole))


def _pattern(value: str) -> str:
    """A short value is a credential only where it is a word of its own: `prod` does not stand in `product`."""
    return re.escape(value) if len(value) >= _LONG else f"{_EDGE}{re.escape(value)}{_EDGE}"


_READ = {"headers": _in_value, "headers_list": _in_list, "endpoint": _in_address}
"""What a text is -> how its credentials are found. In a configuration file, these are names of nodes."""

_SCHEMES = ("", "Basic", "Bearer", "Digest", "Api-Key", "Token")
"""Words before a credential, which occur in other texts."""
