# SPDX-License-Identifier: Apache-2.0
"""The rules of torchspan's sampler as one text, and where the rules in use come from."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from torchspan.base.logs import Log
from torchspan.base.spelling import hint
from torchspan.words import settings as _settings
from torchspan.words.sampling.rules import SETTING, Instrumented, SamplingRules

VARIABLE = "OTEL_TRACES_SAMPLER_ARG"

SHOWN = 80
"""Characters of a rule in a message."""

_KINDS = {row.name.removeprefix(SETTING): row.kind for row in _settings.SETTINGS if row.name.startswith(SETTING)}

_logger = Log("torchspan.sdk")


class RulesInUse:
    """The rules that hold now: a setting of torchspan's wins over the text, the text over the default.

    Args:
        text: Rules as in OTEL_TRACES_SAMPLER_ARG. Each one that means nothing is one warning, and has no effect.
    """

    def __init__(self, text: str | None) -> None:
        self._in_text = dict(_read(text))
        self._seen: Mapping[str, float] | None = None
        self._rules: SamplingRules | None = None

    def now(self) -> SamplingRules:
        """The rules. They change when torchspan is instrumented, and when it is not any more."""
        instrumented = Instrumented.now
        if self._rules is None or instrumented is not self._seen:
            settings = _from_environment() if instrumented is None else instrumented
            self._seen, self._rules = instrumented, SamplingRules(**{**self._in_text, **settings})
        return self._rules


@functools.cache
def _from_environment() -> Mapping[str, float]:
    """The settings of a process in which torchspan is not instrumented."""
    return _settings.sampling(_settings.load({}))


def _read(text: str | None) -> Iterator[tuple[str, float]]:
    for rule in parsed(text):
        if isinstance(rule, str):
            _logger.warning("torchspan's sampler ignores %s", rule)
        else:
            yield rule


def parsed(text: str | None) -> Iterator[tuple[str, float] | str]:
    """The rules of a text as names and values; for one that means nothing, a text that says what it is and why."""
    seen: set[str] = set()
    for rule in () if text is None else str(text).split(","):
        name, equals, value = (part.strip().lower() for part in rule.partition("="))
        if not equals:
            name, value = "other", name  # a number alone is what `traceidratio` takes
        if not rule.strip():
            continue
        try:
            if name in seen:
                raise ValueError(f"an earlier rule sets {name!r} already")
            number = _number(name, value)
        except ValueError as error:
            shown = rule.strip() if len(rule) <= SHOWN else f"{rule.strip()[:SHOWN]}…"
            yield f"the rule {shown!r} in {VARIABLE}: {error}."
        else:
            seen.add(name)
            yield name, number


def _number(name: str, value: str) -> float:
    kind = _KINDS.get(name)
    if kind is None:
        raise ValueError(f"there is no rule {name[:SHOWN]!r} ({hint(name[:SHOWN], _KINDS)})")
    try:
        return float(kind.parse(value))
    except ValueError:
        raise ValueError(f"expected {kind.expected}") from None
