# SPDX-License-Identifier: Apache-2.0
"""What `torchspan run` hands to the processes below it, in one environment variable."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

from torchspan.environment_variables import TORCHSPAN_RUN

EXIT_S = 2.0
"""Seconds after its own end for which a program may wait for exporters that `run` made."""


class RunSettings(NamedTuple):
    """One run of `torchspan run`, as its processes know it.

    id: 16 hexadecimal digits; tells the spans of this run from others in the same file.
    file: template of an absolute path, `%p` allowed: where the processes write their spans.
    reports: the folder for their reports.
    span: the W3C traceparent of the span `torchspan.run`.
    started_ns: when that span starts, in nanoseconds since 1970.
    exit_s: seconds after its own end for which a program may wait for exporters that `run` made.
    """

    # A frozen dataclass would take longer to make than all else that is loaded here.

    id: str
    file: str
    reports: str
    span: str
    started_ns: int
    exit_s: float = EXIT_S

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> RunSettings | None:
        """The settings in TORCHSPAN_RUN, or None when this process does not run under `torchspan run`.

        environ: read instead of this process's environment. A value that is not the text of settings counts as none.
        """
        text = (os.environ if environ is None else environ).get(TORCHSPAN_RUN)
        if not text:
            return None
        try:
            values = json.loads(text)
            return cls(
                id=str(values["id"]),
                file=str(values["file"]),
                reports=str(values["reports"]),
                span=str(values["span"]),
                started_ns=int(values["started_ns"]),
                exit_s=float(values["exit_s"]),
            )
        except (ValueError, TypeError, KeyError):
            return None

    def to_text(self) -> str:
        """The value of TORCHSPAN_RUN: JSON, ASCII alone."""
        return json.dumps(self._asdict(), separators=(",", ":"))
