# SPDX-License-Identifier: Apache-2.0
"""The environment in which `torchspan run` starts a program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torchspan import _launched
from torchspan._launched.run_settings import RunSettings
from torchspan.environment_variables import TORCHSPAN_RUN

SITE = str(Path(_launched.__file__).parent / "site")
"""The folder of the `sitecustomize` that starts torchspan in each Python process."""


def environment(base: Mapping[str, str], settings: RunSettings, variables: Mapping[str, str]) -> dict[str, str]:
    """The program's environment: the user's own, plus what starts torchspan in each Python process.

    variables: those of the settings that the command line gives; they win over the user's own.
    """
    added = {"PYTHONPATH": _python_path(base.get("PYTHONPATH", "")), TORCHSPAN_RUN: settings.to_text()}
    return {**base, **added, **variables}


def _python_path(users: str) -> str:
    """The folder of `run` first, then exactly the user's entries (an empty one means the current folder)."""
    entries = [entry for entry in users.split(os.pathsep) if entry != SITE] if users else []
    return os.pathsep.join([SITE, *entries])
