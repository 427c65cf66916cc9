# SPDX-License-Identifier: Apache-2.0
"""Wrappers: what an observed function becomes.

Plain closures, not proxy objects: they pickle by name like the function they replace, and cost a tenth. Each calls
the original exactly once with exactly its arguments, whatever happens on our side.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, MutableMapping
from typing import Any

from torchspan import semconv
from torchspan.adapters._machinery.engine_ids import EngineIds
from torchspan.engine import Engine, Event, Observed, Runs
from torchspan.phase import COMPILE, Phase
from torchspan.probes import RAISED, Call, Probe, signature_of

Origins = MutableMapping[Any, Any]
"""An object -> what stands in links for the event that made it: an engine's compilation, a program's export."""


class Wrapping:
    """Makes wrappers for rows, around one engine.

    `constants` are attributes that every event of a phase gets at its start (versions), `of_roots` those that an event
    with none of ours around it gets. `origins` remembers, for as long as an engine lives, which compilation made it (and
    for an exported program, which export), `ids` which bytes it was made from, and `runs` how often it ran; nothing is
    stored on these objects themselves.
    """

    def __init__(
        self,
        engine: Engine,
        constants: dict[Phase, dict[str, Any]],
        of_roots: dict[str, Any] | None = None,
    ) -> None:
        self.engine = engine
        self.constants = constants
        self.of_roots = of_roots or {}
        self.origins: Origins = weakref.WeakKeyDictionary()
        self.ids = EngineIds()
        self.runs = Runs()
        engine.wraps_with(Wrapping.run.__code__)

    # --- describing -------------------------------------------------------------------------------------------
    def _start_facts(self, probe: Probe, call: Call) -> dict[str, Any]:
        if probe.start is None:
            return {}
        return dict(self.engine.guard.call(f"describing {probe.target}", probe.start, call) or {})

    def end_facts(self, probe: Probe, call: Call, result: Any, event: Event) -> None:
        if probe.end is not None:
            name = f"describing the result of {probe.target}"
            add_facts(event, self.engine.guard.call(name, probe.end, call, result, event.tally) or {})
        self._share(probe, event)
        if probe.remembered:
            self._remember_origin(result, event.handle)
        if probe.produces is not None:
            self.engine.guard.call(f"remembering {probe.target}", self._remember, probe, call, event)

    def failure_facts(self, probe: Probe, call: Call, error: BaseException, event: Event) -> None:
        if probe.failed is not None:
            name = f"describing the failure of {probe.target}"
            add_facts(event, self.engine.guard.call(name, probe.failed, call, error, event.tally) or {})
            self._share(probe, event)

    def _share(self, probe: Probe, event: Event) -> None:
        outer = event.nearest(*probe.share_with) if probe.share_with else None
        if outer is not None:
            add_facts(outer, {key: event.additions[key] for key in probe.share if key in event.additions})

    def _remember(self, probe: Probe, call: Call, event: Event | None) -> None:
        made = None if probe.produces is None else probe.produces(call)
        if made is None:
            return
        if probe.serialized is not None:
            self.ids.made(made, probe.serialized(call))
        compilation = None if event is None else event.nearest(COMPILE)
        self.remember(made, None if compilation is None else compilation.handle)

    def remember(self, made: Any, origin: Any) -> None:
        """`made` will run, and what stands for its making in links is `origin`, if anything does."""
        self.runs.made(made)
        self._remember_origin(made, origin)

    def _remember_origin(self, made: Any, handle: Any) -> None:
        try:
            if handle is not None:
                self.origins[made] = handle
        except TypeError:  # neither hashable nor weakly referable
            return

    def origin(self, thing: Any) -> Any:
        """What stands for the event that made `thing`; None where it was not seen."""
        try:
            return self.origins.get(thing)
        except TypeError:  # then it was not remembered either
            return None

    def _links(self, probe: Probe, call: Call) -> tuple[Any, ...]:
        if probe.uses is None:
            return ()
        origin = self.origin(self.engine.guard.call(f"looking at what {probe.target} uses", probe.uses, call))
        return () if origin is None else (origin,)

    # --- wrappers ---------------------------------------------------------------------------------------------
    def begin(self, probe: Probe, call: Call, original: Any) -> Event | None:
        """Open the event of an EVENT row; None where there is nothing to observe."""
        engine, phase = self.engine, probe.phases[0]
        if not engine.active or (probe.within and self._around(probe.within) is None):
            return None
        facts = {**self.fixed_facts(phase), **self._start_facts(probe, call)}
        if getattr(original, "__torchspan_stand_in__", False):
            facts[semconv.STAND_IN] = True
        observed = Observed(original, call.args, call.kwargs)
        return engine.start(phase, facts, links=self._links(probe, call), observed=observed)

    def fixed_facts(self, phase: Phase) -> dict[str, Any]:
        """What an event of `phase` that starts here gets, whatever the call."""
        facts = self.constants.get(phase, {})
        return {**self.of_roots, **facts} if self.of_roots and self.engine.current is None else facts

    def _around(self, phases: tuple[Phase, ...]) -> Event | None:
        """The closest open event of one of `phases`."""
        current = self.engine.current if self.engine.peek() is not None else None
        return None if current is None else current.nearest(*phases)

    def event(self, probe: Probe, original: Any) -> Any:
        signature, phase = signature_of(original), probe.phases[0]
        add_to_outer = self.facts(probe, original)

        @functools.wraps(original)
        def observed_event(*args: Any, **kwargs: Any) -> Any:
            if phase.collapses and self._around((phase,)) is not None:
                return add_to_outer(*args, **kwargs)
            call = Call(signature, args, kwargs)
            event = self.begin(probe, call, original)
            return original(*args, **kwargs) if event is None else self.run(probe, original, call, event)

        return observed_event

    def run(self, probe: Probe, original: Any, call: Call, event: Event) -> Any:
        """What `original` returns for the call; `event` ends with it, however it ends."""
        try:
            result = original(*call.args, **call.kwargs)
            self.end_facts(probe, call, result, event)
        except BaseException as error:
            try:
                self.failure_facts(probe, call, error, event)
            finally:
                self.engine.finish(event, error)
            raise
        self.engine.finish(event, None, result)
        return result

    def facts(self, probe: Probe, original: Any) -> Any:
        signature = signature_of(original)

        @functools.wraps(original)
        def observed_facts(*args: Any, **kwargs: Any) -> Any:
            event = self._around(probe.phases)
            if event is None:
                return original(*args, **kwargs)
            call = Call(signature, args, kwargs)
            add_facts(event, self._start_facts(probe, call))
            result = original(*args, **kwargs)
            self.end_facts(probe, call, result, event)
            return result

        return observed_facts

    def makes(self, probe: Probe, original: Any) -> Any:
        """A call that makes an object, wherever it happens: the object's first run is an event."""
        signature, engine = signature_of(original), self.engine
        if probe.produces is None:
            raise ValueError(f"{probe.target} is a MAKES row that does not say what it produces")

        @functools.wraps(original)
        def observed_making(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if engine.active:
                call = Call(signature, args, kwargs)
                engine.guard.call(f"remembering {probe.target}", self._remember, probe, call, engine.current)
            return result

        return observed_making

    def step(self, probe: Probe, original: Any) -> Any:
        engine, peek, name = self.engine, self.engine.peek, ".".join(probe.path)
        original = original if probe.changes is None else self._changing(probe, probe.changes, original)
        counting = None if probe.count is None else self._counting(probe, original)

        @functools.wraps(original)
        def observed_step(*args: Any, **kwargs: Any) -> Any:
            event = engine.current if peek() is not None else None
            if event is None:
                return original(*args, **kwargs)
            start = time.perf_counter()
            try:
                return original(*args, **kwargs) if counting is None else counting(event, args, kwargs)
            finally:
                event.steps.add(name, time.perf_counter() - start)

        return observed_step if probe.start is None and probe.end is None else self.facts(probe, observed_step)

    def _changing(self, probe: Probe, changes: Callable[[Call], Any], original: Any) -> Any:
        """A call that changes an engine in place, inside an event or not: what its id was does not hold from here on."""
        signature, guard, name = signature_of(original), self.engine.guard, f"looking ahead of {probe.target}"

        @functools.wraps(original)
        def changing(*args: Any, **kwargs: Any) -> Any:
            guard.call(name, lambda: self.ids.changing(changes(Call(signature, args, kwargs))))
            return original(*args, **kwargs)

        return changing

    def tally(self, probe: Probe, original: Any) -> Any:
        counting = self._counting(probe, original)

        @functools.wraps(original)
        def observed_tally(*args: Any, **kwargs: Any) -> Any:
            event = self._around(probe.phases)
            return original(*args, **kwargs) if event is None else counting(event, args, kwargs)

        return observed_tally

    def _counting(self, probe: Probe, original: Any) -> Callable[[Event, Any, Any], Any]:
        """Makes the call and has the row's `count` add it to the event's tally."""
        signature, count, before = signature_of(original), probe.count, probe.before
        guard, name = self.engine.guard, f"counting {probe.target}"
        if count is None:
            raise ValueError(f"{probe.target} is a TALLY row without a count")

        def counted(event: Event, args: Any, kwargs: Any) -> Any:
            call = Call(signature, args, kwargs)
            if before is not None:
                call.before = guard.call(f"looking ahead of {probe.target}", before, call)
            start = time.perf_counter()
            try:
                result = original(*args, **kwargs)
            except BaseException:
                if probe.count_raised:
                    guard.call(name, count, event.tally, call, RAISED, time.perf_counter() - start)
                raise
            duration_s = time.perf_counter() - start
            guard.call(name, count, event.tally, call, result, duration_s)
            return result

        return counted


def add_facts(event: Event, facts: Any) -> None:
    """Add what was found out later; what was said at the start stands (the outermost call names the entry point)."""
    for key, value in facts.items():
        if key not in event.attributes:
            event.additions[key] = value
