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
    ObservedRun,
    Occurrence,
    Placement,
    Steps,
)
from torchspan.engine.listener import Listener
from torchspan.engine.processor_time import ProcessorClock
from torchspan.engine.rate_limits import RateLimits
from torchspan.engine.run_sampling import RunSampling
from torchspan.engine.run_tally import RunTally
from torchspan.engine.run_times import RunTotals
from torchspan.engine.runs import (
    FOR_ITSELF,
    BegunCall,
    Decision,
    Decisions,
    LimitedCalls,
    ParentProbe,
    Pick,
    RunPolicy,
    Surroundings,
    Verdict,
)
from torchspan.engine.stack import EventStack

__all__ = [
    "CURRENT",
    "DETACHED",
    "FOR_ITSELF",
    "RUNNING",
    "ActiveWork",
    "Anchor",
    "Attributes",
    "Audience",
    "BegunCall",
    "Decision",
    "Decisions",
    "Deferral",
    "Engine",
    "Event",
    "EventStack",
    "LimitedCalls",
    "Listener",
    "Observed",
    "ObservedRun",
    "Occurrence",
    "ParentProbe",
    "Pick",
    "Placement",
    "ProcessorClock",
    "RateLimits",
    "RunPolicy",
    "RunSampling",
    "RunTally",
    "RunTotals",
    "Steps",
    "Surroundings",
    "Undo",
    "Verdict",
]
