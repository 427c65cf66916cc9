# SPDX-License-Identifier: Apache-2.0
"""The hot path: one run of one engine.

A run needs a decision (`torchspan.engine.runs.Decisions`). What it was is remembered for the OpenTelemetry context in which the run was
made, as a state. The next run in that context does what the state says:

| state | what is known of the context | a run |
|---|---|---|
| `UNDECIDED` | nothing yet | is decided about |
| `PASSING` | nothing is recorded, counted or measured | is made; only its failure is an event |
| `SUPPRESSED` | nothing may be recorded, counted or measured | is made, and its failure is not an event |
| `MEASURED` | nothing is recorded, and durations are wanted | is timed |
| `OFFERED` | nothing surrounds it, and a rule picks some runs | is decided about if it is picked; otherwise it is made or timed |
| `COUNTED` | a span records, and the engine has its events | is timed and counted on the span |
| `CLOSED` | torchspan is disabled | is made |

| from | to | when |
|---|---|---|
| `UNDECIDED` | `PASSING`, `MEASURED` | no event, no count |
| `UNDECIDED` | `OFFERED` | no rule has picked this run |
| `UNDECIDED` | `SUPPRESSED` | instrumentation is suppressed |
| `UNDECIDED` | `COUNTED` | the span or the engine has no events left |
| `COUNTED` | `UNDECIDED` | the span has ended; for one engine, the time is over until which its runs are counted |
| each | `UNDECIDED` | rules change, durations begin or cease to be wanted, the first callback comes or the last one goes |
| each | `CLOSED` | the engine of events stops |

A run that is an event leaves no state. Neither does any run while a callback of the user is registered for the phase: each is decided
about. The first run of an engine is decided about in each state: `Provenance.fresh` has the engine until then. Only runs of an operator
are measured and counted by a state. For others, the caller or the inputs have to be examined at each run.

A state is replaced as a whole, so threads never read a part of one. What is remembered goes with its context.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from enum import Enum
from time import perf_counter
from types import FunctionType
from typing import Any, NamedTuple

from torchspan.base import by_identity, dynamo_safety
from torchspan.base.reading import entries
from torchspan.engine import Decision, Decisions, Event, RunTally, Verdict
from torchspan.engine.run_sampling import Roots
from torchspan.engine.run_times import RunTimes
from torchspan.engine.runs import PASS
from torchspan.hooks.adapters.machinery.ports import Ports
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory, is_excluded
from torchspan.hooks.adapters.run_events import RunCall, RunEvents
from torchspan.hooks.probes import Arguments, Runs, Target

_BEGINNING, _ENDING, _COUNTING = "beginning a run", "ending a run", "counting a run"

TwoArguments = Callable[[Any, Any], Any]

CONTEXTS_LIMIT = 1_000
"""Maximum number of contexts with a state. Beyond that, all of them are decided about again."""

ENGINES_LIMIT = 64
"""Maximum number of engines that are counted below one span without a decision at each run."""


class RunState(Enum):
    """What happens to runs: see the module's docstring."""

    UNDECIDED = "undecided"
    PASSING = "passing"
    SUPPRESSED = "suppressed"
    MEASURED = "measured"
    OFFERED = "offered"
    COUNTED = "counted"
    CLOSED = "closed"


_UNSEEN = (RunState.PASSING, RunState.OFFERED)
"""The states in which the function itself may make the run."""


class _BegunRun(NamedTuple):
    """A run that has been decided about and has begun.

    Attributes:
        event: Its event, if it has one.
        tally: Counts the run, below a span.
        start_s: When it began, by `time.perf_counter`; 0 for a run that is not timed.
    """

    call: RunCall
    event: Event | None
    tally: RunTally | None = None
    start_s: float = 0.0


class _InState:
    """The state of one context. It does not change.

    Attributes:
        state: Its name.
        run: Makes a run in this state.
        roots: The rule that picks runs here; None without one.
        context: A weak reference, which removes what is remembered together with the context.
    """

    __slots__ = ("context", "roots", "run", "state")

    def __init__(self, state: RunState, run: TwoArguments, roots: Roots | None = None) -> None:
        self.state = state
        self.run = run
        self.roots = roots
        self.context: Any = None


def wrap_run(factory: WrapperFactory, ports: Ports, target: Target, action: Runs, original: Any) -> Any:
    """The replacement for a function of which each call is one run."""
    return EngineRuns(factory, ports, target, action, original).replacement()


class EngineRuns:
    """Makes the runs of one observed function.

    Inside, a run has two arguments. They are those of the function, or, for `forward` of a module, the module and the pair of its
    positional and keyword arguments.
    """

    def __init__(self, factory: WrapperFactory, ports: Ports, target: Target, action: Runs, function: Any) -> None:
        engine, phase, arguments = factory.engine, action.phase, action.arguments
        self._engine, self._guard, self._action, self._function = engine, engine.guard, action, function
        self._context_of, self._sampling = ports.parents.context, ports.sampling
        self._fresh, self._times = factory.provenance.fresh, engine.run_times[phase]
        self._decisions = Decisions(ports.parents, ports.sampling, phase, self._fresh)
        self._events = RunEvents(factory, ports, target, action, function)
        self._callbacks = engine.registry.interest(phase)
        self._tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        self._is_operator = arguments is not None and arguments.inputs is not None
        self._original: TwoArguments = function if arguments is not None else self._call_module
        self._undecided = _InState(RunState.UNDECIDED, self.decide)
        self.states: dict[int, _InState] = {}
        """The address of a context -> its state."""
        self._sampling.watch(self.forget)
        self._times.watch(self.forget)
        engine.at_stop(self._callbacks.watch(self.forget))
        engine.at_stop(self.forget)

    # --- replacements -----------------------------------------------------------------------------------------
    def replacement(self) -> Any:
        """The function that takes the place of the observed one."""
        arguments = self._action.arguments
        return self._of_module() if arguments is None else self._of_function(arguments)

    def _of_function(self, arguments: Arguments) -> Any:
        """Two named parameters, not *args: a call through *args and **kwargs costs more than everything else here."""
        runs, engine, guard, original = self, self._engine, self._guard, self._original
        context, waiting, place, new = self._context_of, self._fresh.held, arguments.engine, self._undecided
        picked = _InState(RunState.UNDECIDED, functools.partial(self.decide, is_picked=True))

        def observed_run(first: Any, second: Any) -> Any:
            if not engine.active:
                return original(first, second)
            state = new if waiting and id((first, second)[place]) in waiting else runs.states.get(id(context()), new)
            if (roots := state.roots) is not None and roots.draw() >= roots.due:
                state = picked
            try:
                return state.run(first, second)
            except BaseException as error:
                guard.end(_ENDING, runs.failed_in, state, first, second, error)
                raise

        return functools.wraps(self._function)(_with_parameters(observed_run, arguments.names))

    def _of_module(self) -> Any:
        """`forward(self, *inputs)` of a module that runs its engine itself.

        Dynamo traces into the replacement and must reach the original: it evaluates `is_tracing()` to True while it traces.
        """
        function = self._function
        run = self._of_function(Arguments(names=("module", "arguments"), engine=0, inputs=None))

        @functools.wraps(function)
        def observed_forward(*args: Any, **kwargs: Any) -> Any:
            if dynamo_safety.is_tracing() or not args:
                return function(*args, **kwargs)
            return run(args[0], (args[1:], kwargs))

        return observed_forward

    def _call_module(self, module: Any, arguments: Any) -> Any:
        args, kwargs = arguments
        return self._function(module, *args, **kwargs)

    def _call(self, first: Any, second: Any) -> RunCall:
        arguments = self._action.arguments
        if arguments is None:
            return RunCall(first, second[0], (first, *second[0]), second[1])
        runner, inputs = (first, second) if arguments.engine == 0 else (second, first)
        return RunCall(runner, inputs if self._is_operator else (), (first, second), {})

    # --- states -----------------------------------------------------------------------------------------------
    def state(self) -> RunState:
        """The state of runs in the current context."""
        if not self._engine.active:
            return RunState.CLOSED
        return self.states.get(id(self._context_of()), self._undecided).state

    def forget(self) -> None:
        """Decide about the next run in each context."""
        self.states = {}

    def decide(self, first: Any, second: Any, *, is_picked: bool = False) -> Any:
        """Decide about a run, remember the decision, and make the run.

        Args:
            is_picked: A number has been drawn, and picks the run.
        """
        begun = self._guard.call(_BEGINNING, self._begin, first, second, is_picked)
        if begun is None:
            return self._original(first, second)
        try:
            result = self._original(first, second)
        except BaseException as error:
            self._guard.end(_ENDING, self._end, begun, None, error)
            raise
        self._guard.end(_ENDING, self._end, begun, result)
        return result

    def _begin(self, first: Any, second: Any, is_picked: bool) -> _BegunRun | None:
        call = self._call(first, second)
        if is_excluded(self._action.excluded_callers) or dynamo_safety.is_symbolic(_values(call.inputs)):
            return None
        states = self.states  # read before the decision: if anything changes meanwhile, what is remembered is discarded
        decide = functools.partial(self._decisions.decide, call.runner, is_picked=is_picked)
        decision = self._engine.guard.call("deciding about a run", decide)
        if decision is None:
            decision = PASS
        elif decision.verdict is Verdict.RECORD:
            event = self._events.begin(call, decision)
            return None if event is None else _BegunRun(call, event)
        elif self._callbacks.countdown is None:
            self._remember(states, call.runner, decision)
        event = self._event_for_callbacks(call)
        if decision.verdict is Verdict.SUPPRESS:
            return None if event is None else _BegunRun(call, event)
        return _BegunRun(call, event, decision.tally, perf_counter())

    def _event_for_callbacks(self, call: RunCall) -> Event | None:
        countdown = self._callbacks.countdown
        for _ in (None,) if countdown is None else countdown.passes:  # at most once: one run passes
            return None
        return self._events.begin_for_callbacks(call)

    def _end(self, begun: _BegunRun, result: Any, error: BaseException | None = None) -> None:
        duration_s = perf_counter() - begun.start_s
        try:
            if begun.start_s:
                self._ended(begun.tally, begun.call, duration_s, error)
        finally:
            if begun.event is not None:
                self._events.end(begun.call, begun.event, result, error)

    def _remember(self, states: dict[int, _InState], runner: Any, decision: Decision) -> None:
        tally = decision.tally
        if tally is not None:
            if len(tally.until_s) >= ENGINES_LIMIT:
                tally.until_s.clear()
            tally.until_s[id(runner)] = decision.until_s
        in_state = self._state_after(decision)
        if in_state is None:
            return
        context = self._context_of()
        try:
            in_state.context = by_identity.reference(context, states)
        except TypeError:  # a context without weak references: each run in it is decided about
            return
        if len(states) >= CONTEXTS_LIMIT:
            states.clear()
        states[id(context)] = in_state

    def _state_after(self, decision: Decision) -> _InState | None:
        verdict, tally = decision.verdict, decision.tally
        if verdict is Verdict.SUPPRESS:
            return _InState(RunState.SUPPRESSED, self._original)
        if tally is not None and self._is_operator:
            return _InState(RunState.COUNTED, self._counting(tally))
        if tally is not None or (self._times.wanted and not self._is_operator):
            return None
        state = RunState.MEASURED if self._times.wanted else RunState.PASSING
        run = self._timing() if self._times.wanted else self._original
        if verdict is Verdict.UNPICKED:
            return _InState(RunState.OFFERED, run, self._sampling.roots)
        return _InState(state, run)

    def _timing(self) -> TwoArguments:
        """Makes runs of an operator that are timed. If one input is a stand-in for data, all are: such a run is decided about."""
        runs, original, tensor, guard, hold = self, self._original, self._tensor, self._guard, self._holding()

        def timed(first: Any, second: Any) -> Any:
            if not (type(first) is list and (not first or type(first[0]) is tensor)):
                return runs.decide(first, second)
            start_s = perf_counter()
            try:
                result = original(first, second)
            except BaseException as error:
                guard.end(_ENDING, runs.failed, first, second, error, None, start_s)
                raise
            hold(perf_counter() - start_s)
            return result

        return timed

    def _counting(self, tally: RunTally) -> TwoArguments:
        """Makes runs as `_timing` does, and counts them below a span. One function: a call of another costs too much here."""
        runs, original, tensor, guard, hold = self, self._original, self._tensor, self._guard, self._holding(tally)
        until_s = tally.until_s.get

        def counted(first: Any, second: Any) -> Any:
            has_data = type(first) is list and (not first or type(first[0]) is tensor)
            if not (has_data and tally.is_open and (start_s := perf_counter()) < until_s(id(second), start_s)):
                return runs.decide(first, second)
            try:
                result = original(first, second)
            except BaseException as error:
                guard.end(_ENDING, runs.failed, first, second, error, tally, start_s)
                raise
            hold(perf_counter() - start_s)
            return result

        return counted

    def _holding(self, tally: RunTally | None = None) -> Callable[[float], None]:
        """Holds the duration of a run, in seconds: for the metric, if that is wanted, and for `tally`. Only what is due is guarded."""
        guard = self._guard
        holders: list[tuple[RunTally | RunTimes, Callable[[], None]]] = [] if tally is None else [(tally, tally.sum_up)]
        if self._times.wanted:
            holders.append((self._times, self._times.collect))

        def hold(duration_s: float) -> None:
            for holder, sum_up in holders:
                holder.durations_s.append(duration_s)
                if len(holder.durations_s) >= holder.due:
                    guard.end(_COUNTING, sum_up)

        return hold

    # --- runs without an event --------------------------------------------------------------------------------
    def count(self, tally: RunTally | None, duration_s: float, error: BaseException | None = None) -> None:
        """Record the duration of a run, in seconds: for the metric, if that is wanted, and for `tally`."""
        if self._times.wanted:
            self._times.add(duration_s, None if error is None else type(error))
        if tally is not None and tally.add(duration_s):
            self._guard.end(_COUNTING, tally.sum_up)

    def failed_in(self, in_state: _InState, first: Any, second: Any, error: BaseException) -> None:
        """Record the end of a run that has failed, where nothing in this state has seen it."""
        if in_state.state in _UNSEEN and in_state.run is self._original:
            self.failed(first, second, error)

    def failed(
        self, first: Any, second: Any, error: BaseException, tally: RunTally | None = None, start_s: float = 0.0
    ) -> None:
        """Record the end of a run that has failed.

        Args:
            start_s: 0 where the run was not timed. Reading the clock at each run would cost as much as everything
                else.
        """
        self._ended(tally, self._call(first, second), perf_counter() - start_s if start_s else 0.0, error)

    def _ended(self, tally: RunTally | None, call: RunCall, duration_s: float, error: BaseException | None) -> None:
        """Count a run. Record one that has failed as an event after its end instead."""
        if error is not None and self._keeps(call, error) and self._events.add_failed(call, duration_s, error):
            return
        if duration_s:
            self.count(tally, duration_s, error)

    def _keeps(self, call: RunCall, error: BaseException) -> bool:
        is_left_out = not issubclass(type(error), Exception) or is_excluded(self._action.excluded_callers)
        return not (is_left_out or dynamo_safety.is_symbolic(_values(call.inputs)))


def _values(inputs: Any) -> tuple[Any, ...]:
    """The inputs of a list or tuple. Other objects are not read: iterating over them may run code, or exhaust them."""
    return tuple(entries(inputs) or ())


def _with_parameters(function: Any, names: tuple[str, str]) -> FunctionType:
    """The same function with other names for its two parameters: callers may pass arguments by name."""
    code = function.__code__
    renamed = code.replace(co_varnames=(*names, *code.co_varnames[2:]))
    return FunctionType(renamed, function.__globals__, function.__name__, None, function.__closure__)
