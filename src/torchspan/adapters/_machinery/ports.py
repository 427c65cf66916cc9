# SPDX-License-Identifier: Apache-2.0
"""The interface through which adapters use the rest of torchspan."""

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
    """The functions and objects that adapters use; the bridge makes one instance.

    redact: reduces a text of a library to the part that may be recorded.
    annotate_current: records a moment outside every event, by name and attributes.
    annotate_again: the same for frequent moments, with attributes that `semconv.emitted` has returned before, and further ones.
    parents: finds the surroundings of frequent work.
    run_policy: decides about runs of engines.
    call_policy: decides about calls of observed functions.
    sampling: picks runs without surroundings, and failed runs.
    traceparent: returns the W3C traceparent of the current span, or an empty string if no span is current.
    companions: run alongside recorded runs.
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
        """Ports without a bridge: texts become empty, no run has surroundings, and only first runs are recorded."""
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
    """The only context, if there is no bridge."""


class _FirstRuns:
    def decide(self, _runner: Any, _parent: Parent | None, *, is_first: bool) -> Decision:
        return Decision(Verdict.FIRST if is_first else Verdict.PASS)
