# SPDX-License-Identifier: Apache-2.0
"""The interface through which adapters use the rest of torchspan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torchspan.engine import Attributes, Companion, ParentProbe, RunPolicy, RunSampling


@dataclass(frozen=True, kw_only=True, slots=True)
class Ports:
    """The functions and objects that adapters use; the bridge makes one instance.

    - redact: reduces a text of a library to the part that may be recorded.
    - annotate_current: records a moment outside every event, by name and attributes.
    - annotate_again: the same for frequent moments, with attributes that `semconv.emitted` has returned before, and further ones.
    - parents: finds the surroundings of frequent work.
    - call_policy: decides about calls of observed functions.
    - sampling: decides about runs of engines and of graphs.
    - traceparent: returns the W3C traceparent of the current span, or an empty string if no span is current.
    - companions: run alongside recorded runs.
    """

    redact: Callable[[str], str]
    annotate_current: Callable[[str, Attributes], None]
    parents: ParentProbe
    call_policy: RunPolicy
    sampling: RunSampling
    traceparent: Callable[[], str] = lambda: ""
    companions: tuple[Companion, ...] = ()
    annotate_again: Callable[[str, Mapping[str, Any], Attributes], None] = lambda _name, _emitted, _more: None
