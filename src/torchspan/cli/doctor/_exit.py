# SPDX-License-Identifier: Apache-2.0
"""The variables that bound how long OpenTelemetry's SDK holds up the end of a program, with their present values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from torchspan._config_file import VARIABLE
from torchspan.cli.doctor._check import Check, Context, State

_LONGEST_TIMEOUT_S = 600.0
"""Above that, milliseconds were probably meant, which the specification has where exporters for Python read seconds."""


class _Bound(NamedTuple):
    """One variable. parse: raises ValueError for a text that the SDK takes for none."""

    variable: str
    default: float
    parse: Callable[[str], float] = int


class _Batches(NamedTuple):
    """How a batch processor waits."""

    name: str
    what: str
    prefix: str

    def bounds(self) -> dict[str, _Bound]:
        return {
            "delay": _Bound(f"{self.prefix}_SCHEDULE_DELAY", 5000),
            "queue": _Bound(f"{self.prefix}_MAX_QUEUE_SIZE", 2048),
            "batch": _Bound(f"{self.prefix}_MAX_EXPORT_BATCH_SIZE", 512),
            "timeout": _Bound(f"{self.prefix}_EXPORT_TIMEOUT", 30_000),
        }

    def meaning(self, values: Mapping[str, float]) -> str:
        return (
            f"{self.what} wait for at most {values['delay']:g} ms, in a queue of {values['queue']:g}. What is still queued at the "
            f"end of the program is sent in batches of {values['batch']:g}, for at most 30 s, which no variable changes: "
            f"{self.prefix}_EXPORT_TIMEOUT has no effect in the SDK for Python."
        )

    def impossible(self, values: Mapping[str, float]) -> str:
        """Why the processor refuses the values; empty where it takes them."""
        bounds = self.bounds()
        for key in ("delay", "queue", "batch"):
            if values[key] <= 0:
                return f"{bounds[key].variable}={values[key]:g} is not above 0"
        if values["batch"] > values["queue"]:
            batch, queue = bounds["batch"].variable, bounds["queue"].variable
            return f"{batch}={values['batch']:g} is above {queue}={values['queue']:g}"
        return ""


class _Periods(NamedTuple):
    """How a reader of metrics waits."""

    name: str

    def bounds(self) -> dict[str, _Bound]:
        return {
            "interval": _Bound("OTEL_METRIC_EXPORT_INTERVAL", 60_000, float),
            "timeout": _Bound("OTEL_METRIC_EXPORT_TIMEOUT", 30_000, float),
        }

    def meaning(self, values: Mapping[str, float]) -> str:
        return (
            f"Metrics are sent every {values['interval']:g} ms, and once more at the end of the program, for at most 30 s, "
            "which no variable changes: OTEL_METRIC_EXPORT_TIMEOUT limits only their collection."
        )

    def impossible(self, values: Mapping[str, float]) -> str:
        """Why the reader refuses the values; empty where it takes them."""
        if values["interval"] > 0:
            return ""
        return f"OTEL_METRIC_EXPORT_INTERVAL={values['interval']:g} is not above 0"


_ROWS = (
    _Batches("exit.spans", "Spans", "OTEL_BSP"),
    _Periods("exit.metrics"),
    _Batches("exit.logs", "Log records", "OTEL_BLRP"),
)
_TIMEOUTS = (
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT",
)


def bounds(context: Context) -> Iterable[Check]:
    """A row for the timeout of the exporters, and one for each signal."""
    yield _timeout(context)
    if context.file is not None:
        yield Check(
            "exit.configuration_file",
            State.NOTE,
            f"{VARIABLE} decides how long the SDK delays the end of a program: `schedule_delay`, "
            "`max_queue_size` and `max_export_batch_size` of each processor, `interval` of each reader. OTEL_BSP_*, "
            "OTEL_BLRP_* and OTEL_METRIC_EXPORT_* have no effect.",
        )
        return
    for row in _ROWS:
        yield _of_signal(row, context)


def _timeout(context: Context) -> Check:
    values = {name: text for name in _TIMEOUTS if (text := context.variable(name))}
    facts = {"variables": values, "default_s": 10}
    shown = ", ".join(f"{name}={text}" for name, text in values.items()) or f"{_TIMEOUTS[0]} is not set"
    for name, text in values.items():
        seconds = _number(text, float)
        if seconds is None:
            return Check(
                "exit.otlp",
                State.FAILED,
                f"{name}={text} is not a number: an exporter over gRPC cannot be created, and the SDK sets up no signal at all.",
                f"Set {name} to seconds, such as 10.",
                facts,
            )
        if seconds > _LONGEST_TIMEOUT_S:
            return Check(
                "exit.otlp",
                State.WARNING,
                f"{name}={text}: exporters for Python read it as seconds, where OpenTelemetry's specification has "
                "milliseconds. With an endpoint that does not answer, a program waits at its end for up to 30 s per signal.",
                f"Set {name} to seconds, such as {max(seconds / 1000, 1):g}.",
                facts,
            )
    return Check(
        "exit.otlp",
        State.NOTE,
        f"{shown}. One export, retries included, takes at most {values.get(_TIMEOUTS[0], '10')} s. At its end, a program "
        "waits for an export in progress and for the last one, one signal after the other.",
        facts=facts,
    )


def _of_signal(row: _Batches | _Periods, context: Context) -> Check:
    known = row.bounds()
    texts = {key: context.variable(bound.variable) for key, bound in known.items()}
    numbers = {key: _number(text, known[key].parse) for key, text in texts.items() if text}
    values = {key: _or_default(numbers.get(key), bound) for key, bound in known.items()}
    given = [known[key].variable for key in numbers]
    facts = {"variables": {bound.variable: values[key] for key, bound in known.items()}, "set": given}
    if impossible := row.impossible(values):
        summary = f"{impossible}: what exports this signal cannot be created, and the SDK sets up no signal at all."
        return Check(row.name, State.FAILED, summary, "Unset the variable, or correct the number.", facts)
    refused = [key for key, number in numbers.items() if number is None]
    if refused:
        listed = "; ".join(f"{known[key].variable}={texts[key]} is not a valid number" for key in refused)
        default = ", ".join(f"{known[key].default:g}" for key in refused)
        return Check(
            row.name, State.WARNING, f"{listed}: the default, {default}, is used.", "Set it to a number.", facts
        )
    source = f"Set here: {', '.join(given)}." if given else "All of these values are defaults."
    return Check(row.name, State.NOTE, f"{row.meaning(values)} {source}", facts=facts)


def _or_default(number: float | None, bound: _Bound) -> float:
    return bound.default if number is None else number


def _number(text: str, parse: Callable[[str], float]) -> float | None:
    try:
        number = parse(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number
