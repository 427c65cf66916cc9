# SPDX-License-Identifier: Apache-2.0
"""Wrappers that replace observed functions, according to the action of each probe.

Each calls the original exactly once with exactly its arguments, even if torchspan fails (`torchspan.hooks.adapters.machinery.around`). This is the error
boundary: if opening an event fails, nothing is observed; if closing one fails, the failure is counted and the event still ends.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NamedTuple

from torchspan.base.boundaries import is_programs
from torchspan.engine import Engine, Event, Observed
from torchspan.engine.dispatch import OPENING
from torchspan.hooks.adapters.machinery.around import around
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.probes import GIVES, RAISED, Annotate, Call, Record, Signature, Step, Tally, Target, signature_of
from torchspan.hooks.probes.describe import place
from torchspan.hooks.probes.describe.common import without_none
from torchspan.words import semconv
from torchspan.words.phase import Phase

Facts = Mapping[str, Any]
Follow = Callable[[Any, Call, Event | None], None]
"""Receives a module whose calls are to be followed, the call that returned it, and the event of that call."""


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

    # --- events -----------------------------------------------------------------------------------------------
    def record(self, target: Target, action: Record, original: Any) -> Any:
        """A call that is an event."""
        return RecordedCalls.wrap(self, target, action, original, signature_of(original))

    def fixed_facts(self, phase: Phase) -> dict[str, Any]:
        """The facts of every event of `phase` that starts here, whatever the call."""
        facts = self._constants.get(phase, {})
        return {**self._of_roots, **facts} if self._of_roots and self.engine.current is None else dict(facts)

    def follow_made(self, select: Callable[[Call, Any], Any], call: Call, result: Any, event: Event | None) -> None:
        """Follow the module that `select` finds in a call that has returned, if modules are followed."""
        module = None if self._follow is None else select(call, result)
        if module is not None and self._follow is not None:
            self._follow(module, call, event)

    # --- facts ------------------------------------------------------------------------------------------------
    def annotate(self, target: Target, action: Annotate, original: Any) -> Any:
        """A call that adds facts to the event around it."""
        signature = signature_of(original)

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, Event] | None:
            event = self.around(action.phases)
            if event is None:
                return None
            call = Call(signature, args, kwargs)
            self.add_start(target, action.start, call, event)
            return call, event

        def end(begun: tuple[Call, Event], result: Any) -> None:
            self.add_end(target, action.end, *begun, result)

        return around(self.engine.guard, f"annotating {target}", original, begin, end)

    def described(self, target: Target, describe: Callable[[Call], Facts] | None, call: Call) -> Facts:
        """The facts of a call that are known; none if describing it fails."""
        if describe is None:
            return {}
        return without_none(self.engine.guard.call(f"describing {target}", describe, call) or {})

    def add_start(self, target: Target, describe: Callable[[Call], Facts] | None, call: Call, event: Event) -> None:
        """Add what describes a call to an event around it."""
        add_facts(event, self.described(target, describe, call))

    def add_end(self, target: Target, describe: Any, call: Call, event: Event, result: Any) -> None:
        """Add what describes the result of a call to its event, or to one around it."""
        if describe is not None:
            name = f"describing the result of {target}"
            add_facts(event, without_none(self.engine.guard.call(name, describe, call, result, event.scratch) or {}))

    def around(self, phases: tuple[Phase, ...]) -> Event | None:
        """The closest open event of one of `phases`."""
        current = self.engine.current if self.engine.peek() is not None else None
        return None if current is None else current.nearest(*phases)

    # --- counts -----------------------------------------------------------------------------------------------
    def step(self, target: Target, action: Step, original: Any) -> Any:
        """A call that is counted, with its duration, in the innermost event."""
        engine, name = self.engine, ".".join(target.path)
        counted = original if action.tally is None else self.tally(target, action.tally, original)
        if action.invalidates is not None:
            counted = self._invalidating(target, action.invalidates, counted)
        if action.follows is not None and self._follow is not None:
            counted = self._followed(target, action.follows, counted)

        def begin(_args: tuple[Any, ...], _kwargs: dict[str, Any]) -> tuple[Event, float] | None:
            event = engine.current if engine.peek() is not None else None
            return None if event is None else (event, time.perf_counter())

        def end(begun: tuple[Event, float], _outcome: Any) -> None:
            event, start_s = begun
            event.steps.add(name, time.perf_counter() - start_s)

        observed = around(engine.guard, f"timing {target}", counted, begin, end, end)
        return observed if action.annotate is None else self.annotate(target, action.annotate, observed)

    def _followed(self, target: Target, select: Callable[[Call, Any], Any], original: Any) -> Any:
        """A call that may return a module to follow."""
        signature = signature_of(original)

        def end(call: Call, result: Any) -> None:
            self.follow_made(select, call, result, None)

        return around(self.engine.guard, f"following {target}", original, functools.partial(Call, signature), end)

    def _invalidating(self, target: Target, changed: Callable[[Call], Any], original: Any) -> Any:
        """A call that changes an engine in place, inside an event or not."""
        signature, ids = signature_of(original), self.provenance.ids

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            ids.changing(changed(Call(signature, args, kwargs)))

        return around(self.engine.guard, f"looking ahead of {target}", original, begin)

    def tally(self, target: Target, action: Tally, original: Any) -> Any:
        """A call that the probe's own function counts in the event around the call."""
        signature, count, before = signature_of(original), action.count, action.before
        guard, name = self.engine.guard, f"counting {target}"

        def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Event, Call, float] | None:
            event = self.around(action.phases)
            if event is None:
                return None
            call = Call(signature, args, kwargs)
            if before is not None:
                call.before = guard.call(f"looking ahead of {target}", before, call)
            return event, call, time.perf_counter()

        def end(begun: tuple[Event, Call, float], result: Any) -> None:
            event, call, start_s = begun
            guard.call(name, count, event.scratch, call, result, time.perf_counter() - start_s)

        def failed(begun: tuple[Event, Call, float], _error: BaseException) -> None:
            if action.counts_failures:
                end(begun, RAISED)

        return around(guard, f"timing {target}", original, begin, end, failed)


class BegunEvent(NamedTuple):
    """A call that has begun, and its event, if it has one. is_own: it is not one that was open around the call."""

    call: Call
    event: Event | None
    is_own: bool = True


class RecordedCalls:
    """The calls of one observed function, each an event.

    If the phase collapses and such an event is open, a call adds its facts to that event instead.

    Args:
        signature: Of the original; None for an extension type, and where reading it would run the program's code.
    """

    def __init__(
        self,
        factory: WrapperFactory,
        target: Target,
        action: Record,
        original: Any,
        signature: Signature | None = None,
    ) -> None:
        self.factory, self.target, self.action, self.original = factory, target, action, original
        self.engine = factory.engine
        self._signature = signature

    @classmethod
    def wrap(cls, *args: Any, **options: Any) -> Any:
        """The replacement for a function. args, options: those of the class."""
        return cls(*args, **options).replacement()

    def replacement(self) -> Any:
        """The function that takes the place of the observed one."""
        return functools.update_wrapper(self.bare(), self.original)

    def bare(self) -> Any:
        """The same function without the attributes of the observed one."""
        original, begin, end, failed = self.original, self.begin, self.end, self.failed
        guard, opening, closing = self.engine.guard, f"{OPENING}{self.target}", f"closing {self.target}"

        def observed_event(*args: Any, **kwargs: Any) -> Any:
            # As `around`, with code of its own, by which the engine recognizes it in a traceback.
            begun = guard.call(opening, begin, args, kwargs)
            if begun is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                guard.end(closing, failed, begun, error)
                raise
            guard.end(closing, end, begun, result)
            return result

        self.engine.wraps_with(observed_event.__code__)
        return observed_event

    # --- the start of a call ----------------------------------------------------------------------------------
    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BegunEvent | None:
        """Open the event of a call."""
        call, factory, action = Call(self._signature, args, kwargs), self.factory, self.action
        if is_excluded(action.excluded_callers):
            return None
        outer = factory.around((action.phase,)) if action.phase.collapses else None
        if outer is not None:
            factory.add_start(self.target, action.start, call, outer)
            return BegunEvent(call, outer, is_own=False)
        event = self.open(call)
        return None if event is None else BegunEvent(call, event)

    def open(self, call: Call) -> Event | None:
        """The event of a call; None if there is nothing to observe."""
        return self.open_as(self.action, call)

    def open_as(self, action: Record, call: Call) -> Event | None:
        """As `open`, by another action than the function's own."""
        engine, factory = self.engine, self.factory
        if not engine.active:
            return None
        is_within = not action.within or factory.around(action.within) is not None
        phase = action.phase if is_within else action.elsewhere
        if phase is None:
            return None
        described = factory.described(self.target, action.start, call)
        facts = {**factory.fixed_facts(phase), **self._taken(action.takes), **described}
        if getattr(self.original, "__torchspan_stand_in__", False):
            facts[semconv.STAND_IN] = True
        if engine.current is None and phase in semconv.CODE_LINE.on:
            called_at = place.of_call()
            facts |= {} if called_at is None else called_at.facts()
        links = () if action.links_to is None else self._origin(action.links_to, call)
        return engine.open(phase, facts, links=links, observed=Observed(self.original, call.args, call.kwargs))

    def _taken(self, keys: tuple[str, ...]) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        event = self.engine.current if keys else None
        while event is not None:
            for outer in (event.attributes, event.scratch.get(GIVES) or {}):
                facts = {**{key: outer[key] for key in keys if key in outer}, **facts}
            event = event.parent
        return facts

    def _origin(self, select: Callable[[Call], Any], call: Call) -> tuple[Any, ...]:
        used = self.engine.guard.call(f"looking at what {self.target} uses", select, call)
        origin = self.factory.provenance.origin(used)
        return () if origin is None else (origin,)

    # --- the end of a call ------------------------------------------------------------------------------------
    def end(self, begun: BegunEvent, result: Any) -> None:
        """Describe the result of a call that has returned, and close its event."""
        call, event, is_own = begun
        if event is None:
            return
        if not is_own:
            self.factory.add_end(self.target, self.action.end, call, event, result)
            return
        interrupt: BaseException | None = None
        try:
            self._returned(call, event, result)
        except BaseException as error:
            interrupt = None if isinstance(error, Exception) and not is_programs(error) else error
            raise
        finally:
            self.engine.close(event, interrupt, None if interrupt is not None else result)

    def _returned(self, call: Call, event: Event, result: Any) -> None:
        action, provenance = self.action, self.factory.provenance
        self.factory.add_end(self.target, action.end, call, event, result)
        self._share(event)
        if action.is_named:
            provenance.name(result, event)
        if action.remembers_result:
            provenance.remember(result, event.handle)
        if action.creates is not None:
            provenance.created(action.creates(call), call, event)
        if action.follows is not None:
            self.factory.follow_made(action.follows, call, result, event)

    def failed(self, begun: BegunEvent, error: BaseException) -> None:
        """Describe why a call has raised, and close its event."""
        call, event, is_own = begun
        if event is None or not is_own:
            return
        try:
            if self.action.failed is not None:
                add_facts(event, self.action.failed(call, error, event.scratch) or {})
                self._share(event)
        finally:
            self.engine.close(event, error)

    def _share(self, event: Event) -> None:
        shares = self.action.shares
        outer = None if shares is None else event.nearest(*shares.phases)
        if shares is not None and outer is not None:
            add_facts(outer, {key: event.additions[key] for key in shares.keys if key in event.additions})
            for key in shares.scratch:
                if key in event.scratch:
                    outer.scratch[key] = event.scratch[key]


_PLACE = frozenset({semconv.CODE_FILE, semconv.CODE_LINE, semconv.CODE_FUNCTION})


def add_facts(event: Event, facts: Facts) -> None:
    """Add facts that became known later. Facts from the start are kept (the outermost call names the entry point), but for the place
    of the call where that of its failure is known.

    A fact that is None removes the fact that was added before.
    """
    for key, value in facts.items():
        if value is None:
            event.additions.pop(key, None)
        elif key not in event.attributes or key in _PLACE:
            event.additions[key] = value


def outside(frame: FrameType) -> FrameType:
    """The first frame, from `frame` outwards, whose code is not torchspan's."""
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("torchspan."):
        frame = frame.f_back
    return frame


def is_excluded(callers: tuple[str, ...]) -> bool:
    """Whether one of the libraries `callers`, which have probes of their own, has made the call that is observed."""
    return bool(callers) and str(outside(sys._getframe(1)).f_globals.get("__name__", "")).partition(".")[0] in callers
