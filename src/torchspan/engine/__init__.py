# SPDX-License-Identifier: Apache-2.0
"""The engine: events around pieces of work, and who receives them. Knows neither torch nor OpenTelemetry."""

from torchspan.engine.active import ActiveWork
from torchspan.engine.deferral import Deferral
from torchspan.engine.dispatch import Audience, Engine, Undo
from torchspan.engine.event import Anchor, Attributes, Event, Observed, Occurrence, Steps
from torchspan.engine.pipeline import Callback, Pipeline
from torchspan.engine.placement import CURRENT, DETACHED, STACKED, Below, Placement
from torchspan.engine.rate_limits import RateLimits
from torchspan.engine.run_sampling import Pick, RunSampling
from torchspan.engine.run_tally import RunTally
from torchspan.engine.run_times import RunTimes
from torchspan.engine.run_totals import RunTotals
from torchspan.engine.runs import (
    Companion,
    FreshObjects,
    LimitedCalls,
    Parent,
    ParentProbe,
    RecordedRun,
    RunPolicy,
    Surroundings,
    Verdict,
)
from torchspan.engine.stack import EventStack, ThreadStacks

__all__ = [
    "CURRENT",
    "DETACHED",
    "STACKED",
    "ActiveWork",
    "Anchor",
    "Attributes",
    "Audience",
    "Below",
    "Callback",
    "Companion",
    "Deferral",
    "Engine",
    "Event",
    "EventStack",
    "FreshObjects",
    "LimitedCalls",
    "Observed",
    "Occurrence",
    "Parent",
    "ParentProbe",
    "Pick",
    "Pipeline",
    "Placement",
    "RateLimits",
    "RecordedRun",
    "RunPolicy",
    "RunSampling",
    "RunTally",
    "RunTimes",
    "RunTotals",
    "Steps",
    "Surroundings",
    "ThreadStacks",
    "Undo",
    "Verdict",
]
