# SPDX-License-Identifier: Apache-2.0
"""What can be set, and where it is read: arguments, then environment variables, then defaults."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import NamedTuple

from torchspan import environment_variables as env
from torchspan.exceptions import ConfigurationError

logger = logging.getLogger("torchspan")

Argument = str | float | None
"""What an argument may be: a word, a number or a flag, or not given."""


class Config(NamedTuple):
    """The settings of the bridge; `torchspan.environment_variables` says what each means.

    detail: `stages` or `passes`. tensorrt_phases: `auto`, `on` or `off`. capture: `none` or `text`.
    heartbeat: seconds between two heartbeats of long work, 0: no heartbeats, None: gaps that grow. propagation: `on`, `links` or `off`.
    without_gpu: run the pipeline without a GPU. log_correlation: add trace ids to the libraries' log records.
    reports: the program runs under `torchspan run`.
    """

    detail: str = "stages"
    tensorrt_phases: str = "auto"
    capture: str = "none"
    propagation: str = "on"
    heartbeat: float | None = None
    without_gpu: bool = False
    log_correlation: bool = False
    reports: bool = False


_CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "detail": (env.TORCHSPAN_DETAIL, ("stages", "passes")),
    "tensorrt_phases": (env.TORCHSPAN_TENSORRT_PHASES, ("auto", "on", "off")),
    "capture": (env.TORCHSPAN_CAPTURE, ("none", "text")),
    "propagation": (env.TORCHSPAN_PROPAGATION, ("on", "links", "off")),
}
_SWITCHES: dict[str, str] = {
    "without_gpu": env.TORCHSPAN_WITHOUT_GPU,
    "log_correlation": env.TORCHSPAN_LOG_CORRELATION,
}
_FLAGS = {"1": True, "true": True, "0": False, "false": False, "": False}

SHORTEST_HEARTBEAT_S, LONGEST_HEARTBEAT_S = 0.1, 86_400.0
_HEARTBEATS = "use 0 (off) or 0.1 to 86400 seconds"


def load(arguments: Mapping[str, Argument], environment: Mapping[str, str] | None = None) -> Config:
    """The configuration from `arguments` (None: not given) over `environment` (default: the process's).

    Raises ConfigurationError for an argument that does not exist or is not allowed; a variable that is not allowed is
    logged and ignored.
    """
    unknown = sorted(arguments.keys() - {*_CHOICES, *_SWITCHES, "heartbeat"})
    if unknown:
        known = ", ".join(sorted({*_CHOICES, *_SWITCHES, "heartbeat", "meter_provider", "tracer_provider"}))
        raise ConfigurationError(f"There is no argument {', '.join(unknown)}: use {known}.")
    environment = os.environ if environment is None else environment
    values: dict[str, str] = {}
    for name, (variable, allowed) in _CHOICES.items():
        argument = arguments.get(name)
        if argument is not None:
            if argument not in allowed:
                raise ConfigurationError(f"{name}={argument!r} is not allowed: use one of {', '.join(allowed)}.")
            values[name] = str(argument)
        elif variable in environment:
            value = environment[variable].strip().lower()
            if value in allowed:
                values[name] = value
            elif value:
                _ignored(variable, environment[variable], f"use one of {', '.join(allowed)}")
    return Config(
        **values,
        heartbeat=_heartbeat(arguments.get("heartbeat"), environment),
        without_gpu=_flag("without_gpu", arguments, environment),
        log_correlation=_flag("log_correlation", arguments, environment),
        reports=bool(environment.get(env.TORCHSPAN_RUN_REPORT)),
    )


def _heartbeat(argument: Argument, environment: Mapping[str, str]) -> float | None:
    if argument is not None:
        seconds = None if isinstance(argument, bool) else _seconds(argument)
        if seconds is None:
            raise ConfigurationError(f"heartbeat={argument!r} is not allowed: {_HEARTBEATS}.")
        return seconds
    value = environment.get(env.TORCHSPAN_HEARTBEAT, "")
    if not value.strip():
        return None
    seconds = _seconds(value)
    if seconds is None:
        _ignored(env.TORCHSPAN_HEARTBEAT, value, _HEARTBEATS)
    return seconds


def _seconds(value: str | float) -> float | None:
    """The value as seconds between heartbeats; None where it means nothing."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if seconds == 0 or SHORTEST_HEARTBEAT_S <= seconds <= LONGEST_HEARTBEAT_S else None


def _flag(name: str, arguments: Mapping[str, Argument], environment: Mapping[str, str]) -> bool:
    argument, variable = arguments.get(name), _SWITCHES[name]
    if argument is not None:
        return bool(argument)
    value = environment.get(variable, "")
    flag = _FLAGS.get(value.strip().lower())
    if flag is None:
        _ignored(variable, value, "use one of 0, 1")
    return bool(flag)


def _ignored(variable: str, value: str, instead: str) -> None:
    logger.warning("%s=%r is not allowed and has been ignored: %s.", variable, value, instead)
