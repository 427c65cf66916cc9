# SPDX-License-Identifier: Apache-2.0
"""The environment in which `torchspan run` starts a program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from torchspan.environment_variables import TORCHSPAN_FILE, TORCHSPAN_RUN_REPORT

RUN_ID = "torchspan.run.id"
"""Resource attribute that tells this run's traces from others in the same file."""

EXPORTER = "torchspan_file"

_DEFAULTS = {
    # Nothing must wait at exit for a collector that is not there (the distribution's default is OTLP for both).
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    # A program that a signal ends loses what is still in the queue: one second of spans instead of five.
    "OTEL_BSP_SCHEDULE_DELAY": "1000",
    # A compilation at detail `passes` ends many spans at once, and a full queue drops the oldest, the roots' children.
    "OTEL_BSP_MAX_QUEUE_SIZE": "65536",
}


@dataclass(frozen=True)
class RunOptions:
    """How `torchspan run` starts a program.

    file: template of an absolute path. site: folder of OpenTelemetry's `sitecustomize`. report: folder for reports.
    variables: those of the settings that the command line gives; they win over the user's own.
    """

    file: str
    run_id: str
    site: str
    report: str
    variables: Mapping[str, str] = field(default_factory=dict)


def environment(base: Mapping[str, str], command: Sequence[str], options: RunOptions) -> dict[str, str]:
    """The program's environment: the user's own, plus what starts OpenTelemetry and torchspan in each Python process."""
    result = {**_DEFAULTS, **base}
    result["PYTHONPATH"] = _python_path(base.get("PYTHONPATH", ""), options.site)
    result["OTEL_TRACES_EXPORTER"] = _exporters(base.get("OTEL_TRACES_EXPORTER", ""))
    attributes = base.get("OTEL_RESOURCE_ATTRIBUTES", "")
    result["OTEL_RESOURCE_ATTRIBUTES"] = f"{attributes},{RUN_ID}={options.run_id}".lstrip(",")
    if "OTEL_SERVICE_NAME" not in base and "service.name=" not in attributes:
        result["OTEL_SERVICE_NAME"] = service_name(command)
    result[TORCHSPAN_FILE] = options.file
    result[TORCHSPAN_RUN_REPORT] = options.report
    return {**result, **options.variables}


def service_name(command: Sequence[str]) -> str:
    """The script's name: `train.py` of `torchrun --nproc-per-node 2 train.py`, `app.main` of `python -m app.main`."""
    names = [PurePath(word).name for word in command]
    script = next((name for name in names if name.endswith(".py")), None)
    if script:
        return script
    if "-m" in command[1:-1]:
        return command[command.index("-m", 1) + 1]
    return names[0]


def _python_path(users: str, site: str) -> str:
    """OpenTelemetry's folder first, then exactly the user's entries (an empty one means the current folder)."""
    entries = [entry for entry in users.split(os.pathsep) if entry != site] if users else []
    return os.pathsep.join([site, *entries])


def _exporters(users: str) -> str:
    names = [name.strip() for name in users.split(",")]
    return ",".join([*(name for name in names if name not in ("", "none", EXPORTER)), EXPORTER])
