# SPDX-License-Identifier: Apache-2.0
"""The engine: paired callbacks around pieces of work, the idea of ATen's RecordFunction in Python."""

from torchspan.engine._active import ActiveWork
from torchspan.engine._callback import Callback
from torchspan.engine._dispatch import Engine, Undo
from torchspan.engine._event import Anchor, Attributes, Event, Observed, Occurrence, Steps
from torchspan.engine._guard import ErrorPolicy, Guard, Unguarded
from torchspan.engine._hot import HotPath, Switch
from torchspan.engine._registry import REGISTRY, Registry
from torchspan.engine._run_times import RunTimes
from torchspan.engine._runs import Runs

__all__ = [
    "REGISTRY",
    "ActiveWork",
    "Anchor",
    "Attributes",
    "Callback",
    "Engine",
    "ErrorPolicy",
    "Event",
    "Guard",
    "HotPath",
    "Observed",
    "Occurrence",
    "Registry",
    "RunTimes",
    "Runs",
    "Steps",
    "Switch",
    "Undo",
    "Unguarded",
]
