# SPDX-License-Identifier: Apache-2.0
"""The engine: events around pieces of work, and who receives them. Knows neither torch nor OpenTelemetry."""

from torchspan.engine.active import ActiveWork
from torchspan.engine.dispatch import Engine, Undo
from torchspan.engine.event import Anchor, Attributes, Event, Observed, Occurrence, Steps
from torchspan.engine.hot import HotPath, Switch
from torchspan.engine.pipeline import Callback, Pipeline
from torchspan.engine.run_times import RunTimes
from torchspan.engine.runs import Runs

__all__ = [
    "ActiveWork",
    "Anchor",
    "Attributes",
    "Callback",
    "Engine",
    "Event",
    "HotPath",
    "Observed",
    "Occurrence",
    "Pipeline",
    "RunTimes",
    "Runs",
    "Steps",
    "Switch",
    "Undo",
]
