# SPDX-License-Identifier: Apache-2.0
"""What the phases of a compilation are, and what to do where most of the time is spent in one: the table in `compile_phases.json`.

The names of `COMPILE_PHASES` are PyTorch's: those with which torch 2.11 to 2.14 calls `dynamo_timed`, `chromium_event_timed` and
`log_event_start`. The names of `STAGES` are those of spans, steps and build phases, as the waterfall shortens them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class CompilePhase(NamedTuple):
    """One phase.

    meaning: what happens in it, one sentence. advice: what to change where it takes most of the time, one sentence that names the setting;
    empty where there is none. key: PyTorch's other name of it, in `torch._dynamo.utils.compile_times()`; empty where there is none.
    """

    meaning: str
    advice: str = ""
    key: str = ""


def _groups() -> dict[str, dict[str, CompilePhase]]:
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    return {
        group: {name: CompilePhase(**row) for name, row in rows.items()} for group, rows in json.loads(text).items()
    }


_GROUPS = _groups()

STAGES: Mapping[str, CompilePhase] = _GROUPS.pop("Stages")
"""The stages of a compilation by Torch-TensorRT, of an export and of a build by TensorRT; and imports."""

GROUPS: Mapping[str, Mapping[str, CompilePhase]] = _GROUPS
"""The phases of torch.compile, by the part of PyTorch that does the work."""

COMPILE_PHASES: Mapping[str, CompilePhase] = {name: phase for group in GROUPS.values() for name, phase in group.items()}
"""Each phase that torch.compile reports. `*` stands for any text, `?` for one character."""


__all__ = ["COMPILE_PHASES", "GROUPS", "STAGES", "CompilePhase"]
