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


class Config(NamedTuple):
    """The settings of the bridge; `torchspan.environment_variables` says what each means.

    detail: `stages` or `passes`. tensorrt_phases: `auto`, `on` or `off`. capture: `none` or `text`.
    propagation: `on`, `links` or `off`. without_gpu: run the pipeline without a GPU. reports: the program runs under `torchspan run`.
    """

    detail: str = "stages"
    tensorrt_phases: str = "auto"
    capture: str = "none"
    propagation: str = "on"
    without_gpu: bool = False
    reports: bool = False


_CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "detail": (env.TORCHSPAN_DETAIL, ("stages", "passes")),
    "tensorrt_phases": (env.TORCHSPAN_TENSORRT_PHASES, ("auto", "on", "off")),
    "capture": (env.TORCHSPAN_CAPTURE, ("none", "text")),
    "propagation": (env.TORCHSPAN_PROPAGATION, ("on", "links", "off")),
}
_FLAGS = {"1": True, "true": True, "0": False, "false": False, "": False}


def load(arguments: Mapping[str, str | bool | None], environment: Mapping[str, str] | None = None) -> Config:
    """The configuration from `arguments` (None: not given) over `environment` (default: the process's).

    Raises ConfigurationError for an argument that does not exist or is not allowed; a variable that is not allowed is
    logged and ignored.
    """
    unknown = sorted(arguments.keys() - {*_CHOICES, "without_gpu"})
    if unknown:
        known = ", ".join(sorted({*_CHOICES, "without_gpu", "tracer_provider"}))
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
                _ignored(variable, environment[variable], allowed)
    return Config(
        **values,
        without_gpu=_flag(arguments.get("without_gpu"), env.TORCHSPAN_WITHOUT_GPU, environment),
        reports=bool(environment.get(env.TORCHSPAN_RUN_REPORT)),
    )


def _flag(argument: str | bool | None, variable: str, environment: Mapping[str, str]) -> bool:
    if argument is not None:
        return bool(argument)
    value = environment.get(variable, "")
    flag = _FLAGS.get(value.strip().lower())
    if flag is None:
        _ignored(variable, value, ("0", "1"))
    return bool(flag)


def _ignored(variable: str, value: str, allowed: tuple[str, ...]) -> None:
    logger.warning("%s=%r is not allowed and has been ignored: use one of %s.", variable, value, ", ".join(allowed))
