# SPDX-License-Identifier: Apache-2.0
"""The engine: events around pieces of work, and who receives them. Knows neither torch nor OpenTelemetry."""

from torchspan.engine.active import ActiveWork
from torchspan.engine.dispatch import Engine, Undo
from torchspan.engine.event import Anchor, Attributes, Event, Observed, Occurrence, Steps
from torchspan.engine.pipeline import Callback, Pipeline
from torchspan.engine.rate_limits import RateLimits
from torchspan.engine.run_tally import RunTally
from torchspan.engine.run_times import RunTimes
from torchspan.engine.runs import (
    Companion,
    FreshObjects,
    LimitedCalls,
    LimitedRuns,
    Parent,
    ParentProbe,
    RecordedRun,
    RunPolicy,
    Surroundings,
    Verdict,
)

__all__ = [
    "ActiveWork",
    "Anchor",
    "Attributes",
    "Callback",
    "Companion",
    "Engine",
    "Event",
    "FreshObjects",
    "LimitedCalls",
    "LimitedRuns",
    "Observed",
    "Occurrence",
    "Parent",
    "ParentProbe",
    "Pipeline",
    "RateLimits",
    "RecordedRun",
    "RunPolicy",
    "RunTally",
    "RunTimes",
    "Steps",
    "Surroundings",
    "Undo",
    "Verdict",
]
