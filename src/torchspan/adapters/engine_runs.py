# SPDX-License-Identifier: Apache-2.0
"""The hot path: one run of one engine.

A run passes, is counted, is timed, or is recorded:

- *pass*: no recording span is around the run, or the policy decides so. This costs one read of the context.
- *count*: the run adds to the count on the span around it.
- *time*: the duration of the run goes to the metric. This applies to every run while a reader collects, except recorded runs, whose
  event has the duration.
- *record*: the run is an event.

`torchspan.engine.runs` contains the decision and its interfaces. The closures below read one flag and one context before they build
anything. Instead of checking a condition at each run, they are replaced when the condition changes.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import weakref
from collections.abc import Callable
from time import perf_counter
from types import FunctionType
from typing import Any

from torchspan import _dynamo_safety, semconv
from torchspan._base.by_identity import ByIdentity
from torchspan._base.errors import FAILED
from torchspan._base.reading import entries
from torchspan.adapters._machinery.caller import is_called_by, outside
from torchspan.adapters._machinery.ports import Ports
from torchspan.adapters._machinery.wrap import WrapperFactory
from torchspan.engine import Anchor, Audience, Event, Observed, Pick, RecordedRun, RunTally, Surroundings, Verdict
from torchspan.engine.run_sampling import FOR_ITSELF, NoRoots
from torchspan.engine.runs import Decision, Parent
from torchspan.probes import Arguments, Call, Record, Run, Target

TwoArguments = Callable[[Any, Any], Any]

_ENOUGH = (None,)
"""Lets one run pass if no callback is registered any more."""

_OTHERS = 64
"""Maximum number of engines and threads that alternate below recording spans without a new decision at each run."""

_Counted = tuple[Callable[[], Any], float, Any, Any, Any]
"""The values needed to count runs of one object below one span: a weak reference to the object; the `time.perf_counter` until which
the decision stands; the type of tensors with data; the span's `RunTally`; and the function that stores durations for the metric, or
None."""


def wrap_run(factory: WrapperFactory, ports: Ports, target: Target, action: Run, original: Any) -> Any:
    """The replacement for a function of which each call is one run."""
    runs = EngineRuns(factory, ports, target, action, original)
    return runs.of_module() if action.arguments is None else runs.of_function(action.arguments)


class EngineRuns:
    """Wraps one function whose calls are runs."""

    def __init__(self, factory: WrapperFactory, ports: Ports, target: Target, action: Run, original: Any) -> None:
        self._factory = factory
        self._engine = factory.engine
        self._fresh = factory.provenance.fresh
        self._ports = ports
        self._target = target
        self._action = action
        self._record = Record(action.phase, end=action.end)
        self._original = original
        self._times = factory.engine.run_times[action.phase]
        self._sampling = ports.sampling
        self._callbacks = factory.engine.registry.interest(action.phase)
        self._shapes = ByIdentity[list[str]]()
        """Engine -> the input shapes of its last recorded run."""

    # --- replacements ----------------------------------------------------------------------------------------
    def of_function(self, arguments: Arguments) -> Any:
        """The replacement for a function of two arguments, one of which is the engine: an operator, or a method of an execution context."""
        original, excluded, sampling = self._original, self._action.excluded_callers, self._sampling
        engine_first, checks_inputs = arguments.engine == 0, arguments.inputs is not None
        context_of, look, fresh = self._ports.parents.context, self._ports.parents.look, self._fresh.held
        is_outside, clock = self._ports.parents.is_outside, sampling.clock
        root, passes = _root(context_of), sampling.roots.passes
        times, callbacks = self._times, self._callbacks
        tensor, reference = _tensor_type(), weakref.ref
        is_open = True
        is_timed = counts_at_once = False
        passed: TwoArguments = original
        unmeasured: TwoArguments = original
        idle: Any = _NO_RUN
        """The root context, once it is known that nothing is recorded or picked there. It lives as long as the process, so no weak
        reference is needed. It is not set while an engine waits for its first run, which is always recorded."""
        tried_in: Any = _NO_RUN
        """The root context, if runs may be picked there."""
        quiet: Callable[[], Any] = _no_context
        """A weak reference to the last other context in which nothing is recorded. Contexts do not change, so the decision about one
        stands. It is not set while an engine waits."""
        is_known, known_quiet = False, quiet
        """Whether the root context is known, and the last other known context, even while an engine waits."""
        quiet_run: TwoArguments = original
        """The function for runs in `quiet`."""
        last: tuple[Any, _Counted] | None = _NO_RUN
        """The context of the last counted run, and the values it needed; None after `close`. The context is kept alive until its span
        ends, because a weak reference costs 25 ns at each run. The object that runs holds device memory and is not kept alive."""
        others: dict[tuple[int, Any], tuple[Callable[[], Any], _Counted]] = {}
        """The same for other objects and contexts, which alternate with the last ones. The contexts are weak references."""

        # Two named parameters, not *args: a call through *args and **kwargs costs more than everything else here. The function
        # uses few names, its own and those of enclosing functions: each costs a nanosecond or two per call. A run that is only
        # counted, because that has been decided already, is counted here without any unnecessary call.
        def observed_run(first: Any, second: Any) -> Any:
            known = last
            if known is None:
                return original(first, second)
            context = context_of()
            if context is known[0]:
                runner, until_s, tensor, tally, hold = known[1]
                # If one input is a stand-in for data, all are: the first one is enough.
                try:
                    kind = type(first[0]) if first else tensor
                except Exception:  # no list: the call fails in its own way
                    kind = _Gone
                if kind is tensor and runner() is second:
                    start = perf_counter()
                    if start < until_s:
                        try:
                            result = original(first, second)
                        except BaseException as error:
                            counted(tally, perf_counter() - start, first, second, error)
                            raise
                        duration_s = perf_counter() - start
                        for append in tally.passes:
                            append(duration_s)
                            if hold is not None:
                                hold(duration_s)
                            return result
                        counted(tally, duration_s, first, second)
                        return result
            elif context is idle:
                try:
                    return passed(first, second)
                except BaseException as error:
                    counted(None, None, first, second, error)
                    raise
            elif context is tried_in:
                for moment_s in passes:
                    if moment_s is None or clock() < moment_s:
                        try:
                            return passed(first, second)
                        except BaseException as error:
                            counted(None, None, first, second, error)
                            raise
                    break
                return quietly(tried, first, second)
            elif context is quiet():
                try:
                    return quiet_run(first, second)
                except BaseException as error:
                    counted(None, None, first, second, error)
                    raise
            return elsewhere(first, second, context)

        def elsewhere(first: Any, second: Any, context: Any) -> Any:
            """A run for which the last decision does not apply: below another span, of another engine, or later."""
            nonlocal last
            if not is_open:  # another thread has restored the state that `close` removed
                return original(first, second)
            is_quiet = is_known if context is root else context is known_quiet()
            if is_quiet and id(first if engine_first else second) not in fresh:
                if excluded and is_called_by(excluded, sys._getframe(2)):  # above this, `observed_run`
                    return original(first, second)
                return quietly(tried if context is root else quiet_run, first, second)
            if others:
                try:
                    before = others.get((id(context), reference(second)))
                except TypeError:  # without weak references
                    before = None
                # If these are the values of the last run, something else has changed, and a new decision is needed.
                if before is not None and before[0]() is context and not (last and last[1] is before[1]):
                    last = context, before[1]
                    return observed_run(first, second)
            return decide(first, second, context)

        def remember(context: Any, runner: Any, until_s: float, tally: RunTally | None) -> None:
            nonlocal last
            if tally is None:
                found_quiet(context)
            elif counts_at_once:
                try:
                    runs_here = reference(runner)
                except TypeError:  # without weak references, each run is decided again
                    return
                needed = runs_here, until_s, tensor, tally, times.held.append if is_timed else None
                last = context, needed
                if len(others) >= _OTHERS:
                    others.clear()
                others[id(context), runs_here] = reference(context), needed
                tally.at_close.add(forget)

        def found_quiet(context: Any, *, is_suppressed: bool = False) -> None:
            nonlocal idle, tried_in, is_known, quiet, known_quiet, quiet_run
            may_be_picked = not is_suppressed and not isinstance(sampling.roots, NoRoots) and is_outside(context)
            if context is not root:
                quiet_run = unmeasured if is_suppressed else tried if may_be_picked else passed
                quiet = known_quiet = reference(context)
            elif may_be_picked:
                is_known, tried_in = True, root
            else:
                is_known, idle = True, root
            if fresh:  # checked last: an engine may be made meanwhile
                idle = tried_in = _NO_RUN
                quiet = _no_context

        def one_waits() -> None:
            nonlocal idle, tried_in, quiet
            idle = tried_in = _NO_RUN
            quiet = _no_context
            forget()

        def forget() -> None:
            nonlocal last
            last = _NO_RUN if is_open else None
            others.clear()

        def timed_run(first: Any, second: Any) -> Any:
            if checks_inputs:
                try:
                    kind = type(first[0]) if first else tensor
                except Exception:  # no list: the call fails in its own way
                    kind = _Gone
                if kind is not tensor and _dynamo_safety.is_symbolic(_values(first)):
                    return original(first, second)
            if excluded and is_called_by(excluded, outside(sys._getframe(1))):
                return original(first, second)
            start = perf_counter()
            try:
                result = original(first, second)
            except BaseException as error:
                counted(None, perf_counter() - start, first, second, error)
                raise
            for append in times.passes:
                append(perf_counter() - start)
                return result
            times.add(perf_counter() - start)
            return result

        def tried(first: Any, second: Any) -> Any:
            """A run without surroundings. It passes, unless it is picked."""
            nonlocal passes
            for moment_s in passes:
                if moment_s is None or clock() < moment_s:
                    return passed(first, second)
                break
            run = picked if sampling.roots.picks() else passed
            passes = sampling.roots.passes
            return run(first, second)

        def quietly(run: TwoArguments, first: Any, second: Any) -> Any:
            try:
                return run(first, second)
            except BaseException as error:
                counted(None, None, first, second, error)
                raise

        def counted(
            tally: RunTally | None,
            duration_s: float | None,
            first: Any,
            second: Any,
            error: BaseException | None = None,
        ) -> None:
            """Record the end of a run that was not an event. A failed run may become an event.

            duration_s: None for an exception that `passed` has raised. Such an exception may not be a failure of the run, or may be
                recorded already. The duration of the run is not known: reading the clock would cost as much as everything else.
            """
            if error is not None and sampling.keeps_failed and (duration_s is not None or _is_news(error)):
                runner, inputs = (first, second) if engine_first else (second, first)
                is_ignored = excluded and is_called_by(excluded, outside(sys._getframe(1)))
                if not is_ignored and self._failed(
                    (first, second), {}, runner, inputs if checks_inputs else (), duration_s or 0.0, error
                ):
                    return
            if duration_s is not None:
                self._counted(tally, duration_s, None if error is None else type(error))

        def picked(first: Any, second: Any) -> Any:
            """A run that begins a trace, if it has no surroundings."""
            if excluded and is_called_by(excluded, outside(sys._getframe(1))):
                return original(first, second)
            runner, inputs = (first, second) if engine_first else (second, first)
            return self._root(passed, (first, second), {}, runner, inputs if checks_inputs else ())

        def heard(run: TwoArguments) -> TwoArguments:
            """`run` with user callbacks, unless sampling skips this run."""

            def heard_run(first: Any, second: Any) -> Any:
                countdown = callbacks.countdown
                for _ in _ENOUGH if countdown is None else countdown.passes:  # at most once: one run passes
                    return run(first, second)
                if excluded and is_called_by(excluded, outside(sys._getframe(1))):
                    return original(first, second)
                runner, inputs = (first, second) if engine_first else (second, first)
                return self._for_callbacks(run, (first, second), {}, runner, inputs if checks_inputs else ())

            return heard_run

        def decide(first: Any, second: Any, context: Any) -> Any:
            surroundings = look(context)
            runner, inputs = (first, second) if engine_first else (second, first)
            is_quiet = surroundings is Surroundings.QUIET
            if is_quiet:
                found_quiet(context)
            if excluded and is_called_by(excluded, sys._getframe(3)):  # above this, `elsewhere` and `observed_run`
                return original(first, second)
            if is_quiet and id(runner) not in fresh:
                return quietly(tried if context is root else quiet_run, first, second)
            if surroundings is Surroundings.SUPPRESSED:
                found_quiet(context, is_suppressed=True)
                return unmeasured(first, second)
            return self._decide((first, second), {}, runner, inputs if checks_inputs else (), context, remember)

        # The functions for unrecorded runs are replaced here. While nothing is enabled, this costs nothing.
        def choose(*_changed: Any) -> None:
            nonlocal passed, passes, unmeasured, is_timed, counts_at_once, is_known, known_quiet
            if not is_open:
                return
            one_waits()
            is_known, known_quiet = False, _no_context
            passes = sampling.roots.passes
            is_timed = times.wanted
            passed, unmeasured = timed_run if is_timed else original, original
            # Runs of execution contexts are decided one by one, because the decision depends on the caller.
            counts_at_once = callbacks.countdown is None and checks_inputs
            if callbacks.countdown is not None:
                passed, unmeasured = heard(passed), heard(unmeasured)

        def close() -> None:
            nonlocal is_open, passed, is_known, known_quiet
            is_open, passed = False, original
            is_known, known_quiet = False, _no_context
            one_waits()

        self._fresh.watch(one_waits)
        sampling.watch(choose)
        times.watch(choose)
        self._engine.at_stop(callbacks.watch(choose))
        self._engine.at_stop(close)
        return functools.wraps(original)(_with_parameters(observed_run, arguments.names))

    def of_module(self) -> Any:
        """`forward(self, *inputs)` of a module that runs its engine itself.

        Dynamo traces into the replacement and must reach the original: it evaluates `is_tracing()` to True while it traces.
        """
        original, parents = self._original, self._ports.parents

        @functools.wraps(original)
        def observed_forward(*args: Any, **kwargs: Any) -> Any:
            if _dynamo_safety.is_tracing() or not args or not self._engine.active:
                return original(*args, **kwargs)
            if (
                not self._fresh.held
                and not self._times.wanted
                and self._callbacks.countdown is None
                and not self._sampling.is_active
                and parents.look(parents.context()) is Surroundings.QUIET
            ):
                return original(*args, **kwargs)
            if self._sampling.roots.picks() and not self._fresh.held:
                return self._root(decided, args, kwargs, args[0], args[1:])
            return decided(*args, **kwargs)

        def decided(*args: Any, **kwargs: Any) -> Any:
            return self._decide(args, kwargs, args[0], args[1:], parents.context(), _forget)

        return observed_forward

    # --- what happens to a run --------------------------------------------------------------------------------
    def _decide(
        self,
        args: Any,
        kwargs: Any,
        runner: Any,
        inputs: Any,
        context: Any,
        remember: Callable[[Any, Any, float, RunTally | None], None],
    ) -> Any:
        """Make the call, according to the policy's decision.

        remember: receives the context and the object for which the decision stands, the time until which it stands, and the tally
            that counts runs until then. The tally is None if nothing is recorded.
        """
        original = self._original
        if _dynamo_safety.is_symbolic(_values(inputs)):
            return original(*args, **kwargs)
        surroundings = self._ports.parents.look(context)
        if surroundings is Surroundings.SUPPRESSED:
            return self._for_callbacks(original, args, kwargs, runner, inputs)
        parent = None if isinstance(surroundings, Surroundings) else surroundings
        if parent is None:  # also if the known span of this context has ended
            remember(context, runner, 0.0, None)
        decision = self._engine.guard.call("deciding about a run", self._decision, runner, parent)
        verdict = Verdict.PASS if decision is None else decision.verdict
        if verdict is Verdict.PASS or (verdict is Verdict.COUNT and parent is None):
            timed = functools.partial(self._timed, None, runner, inputs)
            return self._for_callbacks(timed, args, kwargs, runner, inputs)
        if decision is not None and verdict is Verdict.COUNT and parent is not None:
            tally = parent.tally(self._action.phase)
            remember(context, runner, decision.until_s, tally)
            timed = functools.partial(self._timed, tally, runner, inputs)
            return self._for_callbacks(timed, args, kwargs, runner, inputs)
        is_first = verdict is Verdict.FIRST
        return self._recorded(args, kwargs, runner, inputs, is_first=is_first, pick=FOR_ITSELF if is_first else None)

    def _decision(self, runner: Any, parent: Parent | None) -> Decision:
        return self._ports.run_policy.decide(runner, parent, is_first=self._fresh.take(runner))

    def _root(self, otherwise: Callable[..., Any], args: Any, kwargs: Any, runner: Any, inputs: Any) -> Any:
        """Make the call, as a root event if it has no surroundings and the rate limit permits; otherwise call `otherwise`."""
        if _dynamo_safety.is_symbolic(_values(inputs)):
            return self._original(*args, **kwargs)
        parents, context = self._ports.parents, self._ports.parents.context()
        if parents.look(context) is not Surroundings.QUIET or not parents.is_outside(context):
            return otherwise(*args, **kwargs)
        pick = self._engine.guard.call("deciding about a run", self._sampling.root, runner)
        if pick is None:
            return otherwise(*args, **kwargs)
        return self._recorded(args, kwargs, runner, inputs, is_first=False, pick=pick)

    def _failed(
        self, args: Any, kwargs: Any, runner: Any, inputs: Any, duration_s: float, error: BaseException
    ) -> bool:
        """Record a failed run as an event after its end. Returns whether it became an event."""
        if not self._sampling.keeps_failed or not issubclass(type(error), Exception):
            return False
        name = "recording a failed run"
        found = self._engine.guard.call(name, self._afterwards, args, kwargs, runner, inputs, duration_s, error)
        return found is True

    def _afterwards(
        self, args: Any, kwargs: Any, runner: Any, inputs: Any, duration_s: float, error: BaseException
    ) -> bool:
        parents = self._ports.parents
        if _dynamo_safety.is_symbolic(_values(inputs)) or parents.look(parents.context()) is Surroundings.SUPPRESSED:
            return False
        pick = self._sampling.failed(runner)
        if pick is None:
            return False
        at_ns = Anchor().now_ns() - round(duration_s * 1e9)
        event = self._open(
            args, kwargs, runner, inputs, is_first=False, audience=Audience.PIPELINE, pick=pick, at_ns=at_ns
        )
        if event is not None:
            self._engine.close(event, error)
        return event is not None

    def _recorded(self, args: Any, kwargs: Any, runner: Any, inputs: Any, *, is_first: bool, pick: Pick | None) -> Any:
        event = self._open(args, kwargs, runner, inputs, is_first=is_first, pick=pick)
        if event is None:
            return self._original(*args, **kwargs)
        companions = self._ports.companions
        run = self._original if not companions else self._accompanied(RecordedRun(event, runner, inputs))
        return self._factory.run(self._target, self._record, run, Call(None, args, kwargs), event)

    def _accompanied(self, recorded: RecordedRun) -> Callable[..., Any]:
        guard, companions = self._engine.guard, self._ports.companions

        def run(*args: Any, **kwargs: Any) -> Any:
            begun = [(each, guard.begin(f"companion {each!r}", each.begin, recorded)) for each in companions]
            try:
                return self._original(*args, **kwargs)
            finally:
                for each, token in reversed(begun):
                    if token is not FAILED:
                        guard.finish(f"companion {each!r}", each.end, token, recorded)

        return run

    def _for_callbacks(self, run: Any, args: Any, kwargs: Any, runner: Any, inputs: Any) -> Any:
        """Call `run`, which replaces the original, with an event for user callbacks only, if any is registered."""
        if self._callbacks.countdown is None or _dynamo_safety.is_symbolic(_values(inputs)):
            return run(*args, **kwargs)
        event = self._open(args, kwargs, runner, inputs, is_first=False, audience=Audience.SUBSCRIBERS)
        if event is None:
            return run(*args, **kwargs)
        return self._factory.run(self._target, self._record, run, Call(None, args, kwargs), event)

    def _timed(self, tally: RunTally | None, runner: Any, inputs: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call the original. The run is timed if a reader collects, and counted in `tally`."""
        start = perf_counter()
        try:
            result = self._original(*args, **kwargs)
        except BaseException as error:
            duration_s = perf_counter() - start
            if not self._failed(args, kwargs, runner, inputs, duration_s, error):
                self._counted(tally, duration_s, type(error))
            raise
        self._counted(tally, perf_counter() - start, None)
        return result

    def _counted(self, tally: RunTally | None, duration_s: float, error: type[BaseException] | None) -> None:
        if self._times.wanted:
            self._times.add(duration_s, error)
        if tally is not None:
            self._engine.guard.call("counting a run", tally.add, duration_s)

    def _open(
        self,
        args: Any,
        kwargs: Any,
        runner: Any,
        inputs: Any,
        *,
        is_first: bool,
        audience: Audience = Audience.ALL,
        pick: Pick | None = None,
        at_ns: int | None = None,
    ) -> Event | None:
        facts = self._engine.guard.call("opening the event of a run", self._facts, runner, inputs, is_first) or {}
        origin = self._factory.provenance.origin(runner)
        return self._engine.open(
            self._action.phase,
            facts,
            links=() if origin is None else (origin,),
            observed=Observed(self._original, args, kwargs),
            audience=audience,
            pick=pick,
            at_ns=at_ns,
        )

    def _facts(self, runner: Any, inputs: Any, is_first: bool) -> dict[str, Any]:
        facts = self._factory.fixed_facts(self._action.phase)
        described = self._engine.guard.call("describing a run", self._action.describe, runner, inputs, is_first)
        facts.update(described or {})
        identity = self._factory.provenance.ids.get(runner)
        if identity is not None:
            facts[semconv.ENGINE_ID] = identity
        if self._changes_shapes(runner, facts.get(semconv.INPUT_SHAPES)):
            facts[semconv.EXECUTE_SHAPES_CHANGED] = True
        return facts

    def _changes_shapes(self, runner: Any, shapes: list[str] | None) -> bool:
        """Whether `runner` ran with other shapes last time. Stores these shapes as its last ones."""
        if shapes is None:
            return False
        before = self._shapes.get(runner)
        if before != shapes:
            self._shapes[runner] = shapes
        return before is not None and before != shapes


def _values(inputs: Any) -> tuple[Any, ...]:
    """The inputs of a list or tuple. Other objects are not read: iterating over them may run code, or exhaust them."""
    return tuple(entries(inputs) or ())


def _root(context_of: Callable[[], Any]) -> Any:
    """The root context; if it cannot be determined, an object that is never current."""
    try:
        return contextvars.Context().run(context_of)
    except Exception:
        return _NO_RUN


def _tensor_type() -> Any:
    """The type of inputs that contain data. Other types need a closer check."""
    return getattr(sys.modules.get("torch"), "Tensor", None)


def _with_parameters(function: Any, names: tuple[str, str]) -> FunctionType:
    """The same function with other names for its two parameters: callers may pass arguments by name."""
    code = function.__code__
    renamed = code.replace(co_varnames=(*names, *code.co_varnames[2:]))
    return FunctionType(renamed, function.__globals__, function.__name__, None, function.__closure__)


_PASSED_BY = ("torchspan.adapters.engine_runs", "torchspan.engine.run_sampling", "torchspan.adapters._machinery.wrap")
"""The modules that a run passes through on its way to the original."""

_ENDED_BY = ("timed_run", "_recorded")
"""The functions of this module that record the exception of a run."""


def _is_news(error: BaseException) -> bool:
    """Whether `error`, which has just passed a function of this module, came from a run and has not been recorded.

    The policy of a callback may also have raised it.
    """
    entry = error.__traceback__
    while entry is not None:
        code, module = entry.tb_frame.f_code, str(entry.tb_frame.f_globals.get("__name__", ""))
        if module not in _PASSED_BY:
            return not module.startswith("torchspan.") or module.startswith("torchspan.testing")
        if module == __name__ and code.co_name in _ENDED_BY:
            return False
        entry = entry.tb_next
    return True


def _forget(_context: Any, _runner: Any, _until_s: float, _tally: RunTally | None) -> None:
    """Remember nothing: a module's runs are decided one by one."""


class _Gone:
    """Nothing refers to its only instance."""


_no_context = weakref.ref(_Gone())
"""Refers to nothing: cheaper to call than a function."""

_NO_RUN: tuple[Any, _Counted] = (_Gone(), (_no_context, 0.0, None, None, None))
