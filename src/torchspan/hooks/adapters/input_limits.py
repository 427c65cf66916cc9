# SPDX-License-Identifier: Apache-2.0
"""Compares calls of compiled modules with what their engines were built for: as events, as metrics, and as facts of a
compilation.

Each call outside the built sizes is an event on the span around it. A usual size that is not opt is an occasional event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torchspan.base.reading import instance_dict
from torchspan.hooks.adapters.machinery.ports import Notes
from torchspan.hooks.adapters.machinery.provenance import EngineIds
from torchspan.inputs.port import (
    Action,
    CallShape,
    CallSignature,
    Drift,
    EngineLimits,
    LimitWatch,
    Outside,
    limits_of,
    public_label,
)
from torchspan.words import semconv

DIMENSIONS_LIMIT = 20
"""Maximum number of dimensions that the event of one call lists."""

CALLS_AT_LEAST = 20
"""Number of calls of a module from which on its usual sizes are reported."""

MODULES_LIMIT = 1_000
"""Maximum number of modules below a followed module that are searched for engines."""

_NONE = -1
"""The value for an axis or a largest size that does not exist."""

Measurement = tuple[semconv.Metric, float, dict[str, Any]]


def outside_facts(outside: Sequence[Outside]) -> dict[str, Any]:
    """The attributes for the dimensions of one call that lie outside; empty if none does."""
    if not outside:
        return {}
    named = outside[:DIMENSIONS_LIMIT]
    return {
        semconv.OUTSIDE_PATHS: [public_label(outside.path) for outside in named],
        semconv.OUTSIDE_AXES: [_NONE if outside.axis is None else outside.axis for outside in named],
        semconv.OUTSIDE_SIZES: [outside.size for outside in named],
        semconv.OUTSIDE_MINIMUMS: [outside.low for outside in named],
        semconv.OUTSIDE_MAXIMUMS: [_NONE if outside.high is None else outside.high for outside in named],
    }


# --- modules that are followed ---------------------------------------------------------------------------------------
def _engine_facts(module: Any, ids: EngineIds) -> dict[str, str]:
    """The id of the module's engine; empty if the module has several engines, or one whose id is not known."""
    identities = {identity for part in _contents_of(module) if (identity := ids.get(part)) is not None}
    return {semconv.ENGINE_ID: identities.pop()} if len(identities) == 1 else {}


def _contents_of(module: Any) -> Iterator[Any]:
    """`module`, the modules below it, and the attributes of each, which include the engines."""
    below = [module]
    for inner in below:
        attributes = instance_dict(inner)
        if len(below) < MODULES_LIMIT:
            below += [child for child in attributes.get("_modules", {}).values() if child is not None]
        yield inner
        yield from attributes.values()


class CallLimits:
    """Compares the calls of one followed module with what its engines were built for, as a `Follower`.

    Args:
        engine: The id of its engine, if it has one engine.
    """

    def __init__(self, name: str, engine: dict[str, str], limits: EngineLimits, notes: Notes) -> None:
        self._name = name
        self._engine = engine
        self._notes = notes
        self._watch = LimitWatch(limits, self._report)
        self._samples, self._next = 0, 1
        self._measured: dict[str, int] = {}

    @classmethod
    def of(cls, module: Any, name: str, signature: CallSignature, notes: Notes, ids: EngineIds) -> CallLimits | None:
        """For a module that is followed from now on; None where nothing is known of its engines."""
        limits = limits_of(module, signature)
        return None if limits is None else cls(name, _engine_facts(module, ids), limits, notes)

    # --- events ------------------------------------------------------------------------------------------------------
    def new_shape(self, shape: CallShape) -> Action | None:
        """See `Follower`."""
        return self._watch.new_shape(shape)

    def _report(self, outside: tuple[Outside, ...]) -> None:
        self._notes.add(semconv.OUTSIDE_EVENT, {semconv.CALL_MODULE: self._name, **outside_facts(outside)})

    def sampled(self, shape: CallShape, *, is_new: bool) -> None:  # noqa: ARG002 - see `Follower`
        """Report the distribution of the calls each time that their number has doubled, because a span has few events."""
        if is_new:
            return
        self._samples += 1
        if self._samples < self._next:
            return
        drift = self._watch.drift()
        if drift.calls < CALLS_AT_LEAST:
            return
        self._next = 2 * self._samples
        facts = drift_facts(drift)
        if facts:
            self._notes.add(semconv.DRIFT_EVENT, {semconv.CALL_MODULE: self._name, **facts})

    # --- metrics -----------------------------------------------------------------------------------------------------
    def new_calls(self) -> Iterator[Measurement]:
        """The calls counted since the last time."""
        for fit, count in self._watch.counts().items():
            if count > self._measured.get(fit, 0):
                facts: dict[str, Any] = {semconv.CALL_MODULE: self._name, **self._engine, semconv.PROFILE_FIT: fit}
                yield semconv.METRIC_PROFILE_CALLS, count - self._measured.get(fit, 0), facts
                self._measured[fit] = count


def drift_facts(drift: Drift) -> dict[str, Any]:
    """The attributes for a size other than opt that at least half of the calls have; empty if there is no such size."""
    usual = drift.most_usual_elsewhere
    if usual is None or 2 * usual.calls < drift.calls:
        return {}
    return {
        semconv.DRIFT_CALLS: drift.calls,
        semconv.DRIFT_AT_OPT: drift.at_opt,
        semconv.DRIFT_PATH: public_label(usual.path),
        semconv.DRIFT_AXIS: usual.axis,
        semconv.DRIFT_SIZE: usual.size,
        semconv.DRIFT_SIZE_CALLS: usual.calls,
        semconv.DRIFT_OPT: usual.opt,
    }
