# SPDX-License-Identifier: Apache-2.0
"""The engine: events around pieces of work, and who receives them. Knows neither torch nor OpenTelemetry."""

from torchspan.engine.active import ActiveWork
from torchspan.engine.deferral import Deferral
from torchspan.engine.dispatch import RUNNING, Audience, Engine, Undo
from torchspan.engine.event import (
    CURRENT,
    DETACHED,
    Anchor,
    Attributes,
    Event,
    Observed,
    Occurrence,
    Placement,
    Steps,
)
from torchspan.engine.pipeline import Callback, Pipeline
from torchspan.engine.processor_time import ProcessorClock, ProcessorTime
from torchspan.engine.rate_limits import RateLimits
from torchspan.engine.run_sampling import RunSampling
from torchspan.engine.run_tally import RunTally
from torchspan.engine.run_times import RunTimes, RunTotals
from torchspan.engine.runs import (
    FOR_ITSELF,
    Accompanied,
    BegunCall,
    Companion,
    Companions,
    Decision,
    Decisions,
    FreshObjects,
    LimitedCalls,
    Parent,
    ParentProbe,
    Pick,
    RecordedRun,
    RunPolicy,
    Surroundings,
    Verdict,
)
from torchspan.engine.stack import EventStack, ThreadStacks

__all__ = [
    "CURRENT",
    "DETACHED",
    "FOR_ITSELF",
    "RUNNING",
    "Accompanied",
    "ActiveWork",
    "Anchor",
    "Attributes",
    "Audience",
    "BegunCall",
    "Callback",
    "Companion",
    "Companions",
    "Decision",
    "Decisions",
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
    "ProcessorClock",
    "ProcessorTime",
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
