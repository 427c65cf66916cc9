# SPDX-License-Identifier: Apache-2.0
"""Messages without the values in them.

Exception messages and logs of compilers quote what they choked on: strings of the user, names of layers, whole graphs.
What leaves the process by default is the first line, with every token a `?` that is not a word of the library's own.
"""

from __future__ import annotations

from collections.abc import Callable

from torchspan._base.bounds import VALUE_LIMIT
from torchspan._base.privacy import redact_log_line

LENGTH_LIMIT = 256
"""Characters of a template."""


def template(text: str) -> str:
    """The first line, at most `LENGTH_LIMIT` characters: the library's words, operators and types; the rest is `?`."""
    return redact_log_line(text)


def redactor(*, capture_text: bool) -> Callable[[str], str]:
    """What reduces a text of a library's to what may be recorded: `template`, or with `capture_text` a bound."""
    return _bounded if capture_text else template


def _bounded(text: str) -> str:
    return text[:VALUE_LIMIT]
