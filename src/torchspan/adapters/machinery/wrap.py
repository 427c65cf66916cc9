# SPDX-License-Identifier: Apache-2.0
"""Wrappers that replace observed functions, according to the action of each probe.

They are plain closures, not proxy objects: they pickle by name like the function that they replace, and cost a tenth. Each
calls the original exactly once with exactly its arguments, even if torchspan fails. This is the error boundary: if opening
an event fails, nothing is observed; if closing one fails, the failure is counted and the event still ends.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from torchspan import semconv
from torchspan._base.errors import guarded
from torchspan.adapters.machinery.provenance import Provenance
from torchspan.engine import Engine, Event, Observed
from torchspan.phase import Phase
from torchspan.probes import GIVES, RAISED, Annotate, Call, Creates, Record, Step, Tally, Target, signature_of

Facts = Mapping[str, Any]
Follow = Callable[[Any, Call, Event | None], None]
"""Receives a module whose calls are to be followed, the call that returned it, and the event of that call."""

Opening = tuple[dict[str, Any], tuple[Any, ...]]
"""The facts and the links with which an event starts."""


class WrapperFactory:
    """Makes the wrappers of one library's probes.

    Args:
        provenance: The bridge's knowledge of objects.
        constants: Facts of every event of a phase (versions).
        of_roots: Facts of events outside every other event of torchspan.
        follow: Receives each module that a probe's `follows` selects, with the call that made the module, and the event
            of that call if it has one; None: modules are not followed.
    """

    def __init__(
        self,
        engine: Engine,
        provenance: Provenance,
        constants: Mapping[Phase, Facts] | None = None,
        of_roots: Facts | None = None,
        follow: Follow | None = None,
    ) -> None:
        self.engine = engine
        self.provenance = provenance
        self._constants = constants or {}
        self._of_roots = of_roots or {}
        self._follow = follow
        engine.wraps_with(WrapperFactory.run.__code__)

    # --- events -----------------------------------------------------------------------------------------------
    def record(self, target: Target, action: Record, original: Any) -> Any:
        """A call that is an event. If its phase collapses and such an event is open, the call adds its facts to that event instead."""
        signature, phase = signature_of(original), action.phase
        add_to_outer = self.annotate(target, Annotate((phase,), start=action.start, end=action.end), original)

        def observed_event(*args: Any, **kwargs: Any) -> Any:
            if phase.collapses and self._around((phase,)) is not None:
                return add_to_outer(*args, **kwargs)
            call = Call(signature, args, kwargs)
            event = self.open(target, action, call, original)
            if event is None:
                return original(*args, **kwargs)
            # As `run`, without its frame: PyTorch takes the stack at each node of a graph.
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                self._close_failed(target, action, call, error, event)
                raise
            self._close(target, action, call, result, event)
            return result

        self.engine.wraps_with(observed_event.__code__)
        return functools.update_wrapper(observed_event, original)

    def open(self, target: Target, action: Record, call: Call, original: Any) -> Event | None:
        """Open the event of a call; None if there is nothing to observe."""
        engine = self.engine
        if not engine.active:
            return None
        is_within = not action.within or self._around(action.within) is not None
        phase = action.phase if is_within else action.elsewhere
        if phase is None:
            return None
        opening = self._opening(target, action, phase, call, original)
        if opening is None:
            return None
        facts, links = opening
        observed = Observed(original, call.args, call.kwargs)
        return engine.open(phase, facts, links=links, observed=observed)

    @guarded("opening the event of {target}", "engine.guard")
    def _opening(self, target: Target, action: Record, phase: Phase, call: Call, original: Any) -> Opening:
        facts = {**self.fixed_facts(phase), **self._taken(action.takes), **self._described(target, action.start, call)}
        if getattr(original, "__torchspan_stand_in__", False):
            facts[semconv.STAND_IN] = True
        if action.links_to is None:
            return facts, ()
        used = self.engine.guard.call(f"looking at what {target} uses", action.links_to, call)
        origin = self.provenance.origin(used)
        return facts, () if origin is None else (origin,)

    def _taken(self, keys: tuple[str, ...]) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        event = self.engine.current if keys else None
        while event is not None:
            for around in (event.attributes, event.scratch.get(GIVES) or {}):
                facts = {**{key: around[key] for key in keys if key in around}, **facts}
            event = event.parent
        return facts

    def fixed_facts(self, phase: Phase) -> dict[str, Any]:
        """The facts of every event of `phase` that starts here, whatever the call."""
        facts = self._constants.get(phase, {})
        return {**self._of_roots, **facts} if self._of_roots and self.engine.current is None else dict(facts)

    def run(self, target: Target, action: Record, original: Any, call: Call, event: Event) -> Any:
        """Call `original` and return its result. `event` ends with the call, however the call ends."""
        try:
            result = original(*call.args, **call.kwargs)
        except BaseException as error:
            self._close_failed(target, action, call, error, event)
            raise
        self._close(target, action, call, result, event)
        return result

    def _close_failed(self, target: Target, action: Record, call: Call, error: BaseException, event: Event) -> None:
        try:
            self._failed(target, action, call, error, event)
        finally:
            self.engine.close(event, error)

    def _close(self, target: Target, action: Record, call: Call, result: Any, event: Event) -> None:
        try:
            self._returned(target, action, call, result, event)
        except BaseException as interrupt:  # raised by the program while the result was described
            self.engine.close(event, interrupt)
            raise
        self.engine.close(event, None, result)

    @guarded("closing the event of {target}", "engine.guard")
    def _returned(self, target: Target, action: Record, call: Call, result: Any, event: Event) -> None:
        self._add_end(target, action.end, call, result, event)
        _share(action, event)
        if action.is_named:
            self.provenance.name(result, event)
        if action.remembers_result:
            self.provenance.remember(result, event.handle)
        if action.creates is not None:
            self._remember_created(target, action.creates, call, event)
        if action.follows is not None:
            self._follow_made(target, action.follows, call, result, event)

    @guarded("remembering {target}", "engine.guard")
    def _remember_created(self, _target: Target, creates: Creates, call: Call, event: Event) -> None:
        self.provenance.created(creates, call, event)

    @guarded("following what {target} made", "engine.guard")
    def _follow_made(
        self, _target: Target, select: Callable[[Call, Any], Any], call: Call, result: Any, event: Event | None
    ) -> None:
        module = None if self._follow is None else select(call, result)
        if module is not None and self._follow is not None:
            self._follow(module, call, event)

    @guarded("closing the event of {target}", "engine.guard")
    def _failed(self, target: Target, action: Record, call: Call, error: BaseException, event: Event) -> None:
        if action.failed is not None:
            name = f"describing the failure of {target}"
            add_facts(event, self.engine.guard.call(name, action.failed, call, error, event.scratch) or {})
            _share(action, event)

    # --- facts ------------------------------------------------------------------------------------------------
    def annotate(self, target: Target, action: Annotate, original: Any) -> Any:
        """A call that adds facts to the event around it."""
        signature = signature_of(original)

        @functools.wraps(original)
        def observed_facts(*args: Any, **kwargs: Any) -> Any:
            event = self._around(action.phases)
            if event is None:
                return original(*args, **kwargs)
            call = Call(signature, args, kwargs)
            add_facts(event, self._described(target, action.start, call))
            result = original(*args, **kwargs)
            self._add_end(target, action.end, call, result, event)
            return result

        return observed_facts

    def _described(self, target: Target, describe: Callable[[Call], Facts] | None, call: Call) -> Facts:
        if describe is None:
            return {}
        return self.engine.guard.call(f"describing {target}", describe, call) or {}

    def _add_end(self, target: Target, describe: Any, call: Call, result: Any, event: Event) -> None:
        if describe is not None:
            name = f"describing the result of {target}"
            add_facts(event, self.engine.guard.call(name, describe, call, result, event.scratch) or {})

    def _around(self, phases: tuple[Phase, ...]) -> Event | None:
        """The closest open event of one of `phases`."""
        current = self.engine.current if self.engine.peek() is not None else None
        return None if current is None else current.nearest(*phases)

    # --- counts -----------------------------------------------------------------------------------------------
    def step(self, target: Target, action: Step, original: Any) -> Any:
        """A call that is counted, with its duration, in the innermost event."""
        engine, peek, name = self.engine, self.engine.peek, ".".join(target.path)
        counted = original if action.tally is None else self.tally(target, action.tally, original)
        if action.invalidates is not None:
            counted = self._invalidating(target, action.invalidates, counted)
        if action.follows is not None and self._follow is not None:
            counted = self._followed(target, action.follows, counted)

        @functools.wraps(original)
        def observed_step(*args: Any, **kwargs: Any) -> Any:
            event = engine.current if peek() is not None else None
            if event is None:
                return counted(*args, **kwargs)
            start = time.perf_counter()
            try:
                return counted(*args, **kwargs)
            finally:
                event.steps.add(name, time.perf_counter() - start)

        return observed_step if action.annotate is None else self.annotate(target, action.annotate, observed_step)

    def _followed(self, target: Target, select: Callable[[Call, Any], Any], original: Any) -> Any:
        """A call that may return a module to follow."""
        signature = signature_of(original)

        @functools.wraps(original)
        def following(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self._follow_made(target, select, Call(signature, args, kwargs), result, None)
            return result

        return following

    def _invalidating(self, target: Target, changed: Callable[[Call], Any], original: Any) -> Any:
        """A call that changes an engine in place, inside an event or not."""
        signature, guard, ids = signature_of(original), self.engine.guard, self.provenance.ids

        @functools.wraps(original)
        def changing(*args: Any, **kwargs: Any) -> Any:
            call = Call(signature, args, kwargs)
            guard.call(f"looking ahead of {target}", lambda: ids.changing(changed(call)))
            return original(*args, **kwargs)

        return changing

    def tally(self, target: Target, action: Tally, original: Any) -> Any:
        """A call that the probe's own function counts in the event around the call."""
        signature, count, before = signature_of(original), action.count, action.before
        guard, name = self.engine.guard, f"counting {target}"

        @functools.wraps(original)
        def observed_tally(*args: Any, **kwargs: Any) -> Any:
            event = self._around(action.phases)
            if event is None:
                return original(*args, **kwargs)
            call = Call(signature, args, kwargs)
            if before is not None:
                call.before = guard.call(f"looking ahead of {target}", before, call)
            start = time.perf_counter()
            try:
                result = original(*args, **kwargs)
            except BaseException:
                if action.counts_failures:
                    guard.call(name, count, event.scratch, call, RAISED, time.perf_counter() - start)
                raise
            duration_s = time.perf_counter() - start
            guard.call(name, count, event.scratch, call, result, duration_s)
            return result

        return observed_tally


def ignoring(libraries: tuple[str, ...], wrapper: Any, original: Any) -> Any:
    """`wrapper`, except for calls made by `libraries`, which have their own probes: such calls go to `original`."""
    if not libraries:
        return wrapper

    @functools.wraps(original)
    def observed(*args: Any, **kwargs: Any) -> Any:
        if is_called_by(libraries, sys._getframe(1)):
            return original(*args, **kwargs)
        return wrapper(*args, **kwargs)

    return observed


def add_facts(event: Event, facts: Facts) -> None:
    """Add facts that became known later. Facts from the start are kept (the outermost call names the entry point).

    A fact that is None removes the fact that was added before.
    """
    for key, value in facts.items():
        if value is None:
            event.additions.pop(key, None)
        elif key not in event.attributes:
            event.additions[key] = value


def _share(action: Record, event: Event) -> None:
    shares = action.shares
    outer = None if shares is None else event.nearest(*shares.phases)
    if shares is not None and outer is not None:
        add_facts(outer, {key: event.additions[key] for key in shares.keys if key in event.additions})
        for key in shares.scratch:
            if key in event.scratch:
                outer.scratch[key] = event.scratch[key]


def outside(frame: FrameType) -> FrameType:
    """The first frame, from `frame` outwards, whose code is not torchspan's."""
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("torchspan."):
        frame = frame.f_back
    return frame


def is_called_by(libraries: tuple[str, ...], frame: FrameType) -> bool:
    """Whether the code of `frame`, the caller, belongs to one of `libraries`."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in libraries
