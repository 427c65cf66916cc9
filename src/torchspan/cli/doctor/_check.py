# SPDX-License-Identifier: Apache-2.0
"""What `torchspan doctor` looks at and what it says: a context in, rows out."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torchspan.cli.doctor._configuration import ConfigurationFile, configuration_file
from torchspan.cli.doctor._secrets import Secrets

OTLP = "OTEL_EXPORTER_OTLP"
"""What the variables of OTLP exporters begin with."""


class State(enum.Enum):
    """What a row means for the reader; the value is what the JSON says."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing has to be done."""
    WARNING = "warning"
    """Something works less well than it could, or may not be what was meant."""
    FAILED = "failed"
    """Something that was requested cannot work. The exit status is 1."""


class Check(NamedTuple):
    """One row.

    Attributes:
        name: Dotted and stable, for scripts: `sdk.installed`, `settings.heartbeat`.
        summary: What was found, in a sentence.
        remedy: What to do about it; empty if nothing has to be done.
        facts: Values that JSON can hold.
    """

    name: str
    state: State
    summary: str
    remedy: str = ""
    facts: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Context:
    """What the checks look at.

    Args:
        environment: The variables of a program that would be started here.
        send: Whether a test trace may be sent.
    """

    environment: Mapping[str, str]
    send: bool = False

    @cached_property
    def file(self) -> ConfigurationFile | None:
        """The file that OTEL_CONFIG_FILE names; None where it is not set. With a file, OpenTelemetry's SDK reads its own
        variables no more, apart from those that the file itself refers to.
        """
        return configuration_file(self.environment)

    @cached_property
    def options(self) -> dict[str, Any]:
        """What the file says to torchspan's instrumentor: settings, and `enabled`."""
        node = self.file and self.file.node("instrumentation_development", "python", "torchspan")
        return dict(node) if isinstance(node, Mapping) else {}

    @cached_property
    def secrets(self) -> Secrets:
        """The credentials that no row may have."""
        return Secrets(self.environment, self.file and self.file.configuration)

    def variable(self, name: str) -> str:
        """The value of an environment variable without the blanks around it, empty where it is not set.

        OpenTelemetry takes an empty value for none.
        """
        return self.environment.get(name, "").strip()

    def for_signal(self, name: str, signal: str) -> tuple[str, str]:
        """The value of a variable of OTLP exporters, that of the signal first, and which one it is."""
        variables = (f"{OTLP}_{signal.upper()}_{name}", f"{OTLP}_{name}")
        return next(((value, variable) for variable in variables if (value := self.variable(variable))), ("", ""))


CheckFunction = Callable[[Context], Iterable[Check]]
