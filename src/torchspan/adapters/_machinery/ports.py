# SPDX-License-Identifier: Apache-2.0
"""What adapters need of the outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.engine import (
    Attributes,
    Companion,
    Parent,
    ParentProbe,
    RateLimits,
    RunPolicy,
    RunSampling,
    Surroundings,
)
from torchspan.engine.runs import Decision, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """What adapters need of the outside; the bridge makes it once.

    redact: reduces a text that a library wrote to what may be recorded. annotate_current: records something that happens
    now, outside every event, by name and attributes. annotate_again: the same of something frequent, with attributes that
    `semconv.emitted` has returned before and further ones. parents: looks at what surrounds frequent work. run_policy: decides
    about runs of engines. call_policy: decides about calls of observed functions. sampling: picks runs that nothing surrounds,
    and failed ones. traceparent: the W3C traceparent of the current span, empty where there is none. companions: work alongside recorded
    runs.
    """

    redact: Callable[[str], str]
    annotate_current: Callable[[str, Attributes], None]
    parents: ParentProbe
    run_policy: RunPolicy
    call_policy: RunPolicy
    sampling: RunSampling
    traceparent: Callable[[], str] = lambda: ""
    companions: tuple[Companion, ...] = ()
    annotate_again: Callable[[str, Mapping[str, Any], Attributes], None] = lambda _name, _emitted, _more: None

    @classmethod
    def closed(cls) -> Ports:
        """Ports without a bridge: texts become empty, nothing surrounds a run, and first runs alone are recorded."""
        policy = _FirstRuns()
        return cls(
            redact=lambda _text: "",
            annotate_current=lambda _name, _attributes: None,
            parents=_NoParents(),
            run_policy=policy,
            call_policy=policy,
            sampling=RunSampling(RateLimits()),
        )


class _NoParents:
    def __init__(self) -> None:
        context = _NoContext()
        self.context: Callable[[], Any] = lambda: context

    def look(self, _context: Any) -> Parent | Surroundings:
        return Surroundings.QUIET

    def is_outside(self, _context: Any) -> bool:
        return True


class _NoContext:
    """Stands for the one context there is."""


class _FirstRuns:
    def decide(self, _runner: Any, _parent: Parent | None, *, is_first: bool) -> Decision:
        return Decision(Verdict.FIRST if is_first else Verdict.PASS)
