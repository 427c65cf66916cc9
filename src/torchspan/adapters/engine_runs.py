# SPDX-License-Identifier: Apache-2.0
"""The hot path: one run of one engine."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from enum import Enum
from types import FunctionType
from typing import Any

from torchspan import semconv
from torchspan.adapters._machinery.caller import is_called_by
from torchspan.adapters._machinery.wrap import Wrapping
from torchspan.engine import Event, HotPath, Observed
from torchspan.phase import EXECUTE, Phase
from torchspan.probes import Call, Probe
from torchspan.probes.describe import execution
from torchspan.subscribers.interest import Interest

_ENOUGH = (None,)
"""Lets one run pass, where nobody listens any more."""


class _Due(Enum):
    """What a run becomes: the event of an engine's first run, an event, or a count on the span around it."""

    FIRST = "first"
    EVENT = "event"
    COUNT = "count"


class Execution:
    """Decides, run by run, whether it becomes an event, is folded into the span around it, or passes unseen."""

    def __init__(self, wrapping: Wrapping, probe: Probe, hot: HotPath) -> None:
        self._wrapping = wrapping
        self._engine = wrapping.engine
        self._probe = probe
        self._phase = probe.phases[0]
        self._times = wrapping.engine.run_times
        self._is_timed = self._phase is EXECUTE  # the runs of a program's own contexts have no metric
        self._hot = hot
        self._users = self._engine.registry.interest(self._phase)
        self._is_traced = _tracing_test()

    def wrap_operator(self, original: Any) -> Any:
        """`execute_engine(input_tensors, engine)`: where nobody wants to know, little more than the bare call."""
        closure, switch = self._hot.closure(
            original,
            lambda args, kwargs: self._observe(original, args, kwargs, args[1], args[0]),
            self._wrapping.runs.fresh,
        )

        is_traced, add, clock = self._is_traced, self._times.add, time.perf_counter

        def timed_run(input_tensors: Any, engine: Any) -> Any:
            if is_traced(input_tensors):
                return original(input_tensors, engine)
            start = clock()
            try:
                result = original(input_tensors, engine)
            except BaseException as error:
                add(clock() - start, type(error))
                raise
            add(clock() - start)
            return result

        users, times, plain = self._users, self._times, original

        def told_run(input_tensors: Any, engine: Any) -> Any:
            countdown = users.countdown
            for _ in _ENOUGH if countdown is None else countdown.passes:  # at most once: one run is let pass
                return plain(input_tensors, engine)
            return self._tell(original, plain, (input_tensors, engine), {}, engine, input_tensors)

        # What is called where nobody wants a span is exchanged: while nobody wants anything else either, that costs nothing.
        def choose(*_changed: Any) -> None:
            nonlocal plain
            plain = timed_run if times.wanted else original
            switch(plain if users.countdown is None else told_run)

        times.watch(choose)
        self._engine.at_close(users.watch(choose))
        self._engine.at_close(lambda: switch(None))
        return functools.wraps(original)(closure)

    def wrap_module(self, original: Any) -> Any:
        """`forward(self, *inputs)` of a module that runs its engine itself.

        Dynamo looks inside, and must find the original there: it takes `is_compiling()` for True while it traces.
        """
        is_compiling = sys.modules["torch"].compiler.is_compiling

        @functools.wraps(original)
        def observed_forward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not args or not self._engine.active:
                return original(*args, **kwargs)
            is_heard = self._times.wanted or self._users.countdown is not None
            if not self._wrapping.runs.fresh and not self._hot.is_wanted() and not is_heard:
                return original(*args, **kwargs)
            return self._observe(original, args, kwargs, args[0], args[1:])

        return observed_forward

    def wrap_context(self, original: Any) -> Any:
        """`execute_async_v3(self, stream_handle)` of an execution context, unless the row's library calls it.

        Who calls is asked only where a run is to become something.
        """
        library, parameters = self._probe.told_by, self._probe.parameters
        if parameters is None:
            raise ValueError(f"{self._probe.target} runs contexts and does not say what its arguments are called")

        def observe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if is_called_by(library, sys._getframe(2)):  # above this and the closure
                return original(*args, **kwargs)
            return self._observe(original, args, kwargs, args[0], ())

        closure, switch = self._hot.closure(original, observe, self._wrapping.runs.fresh)
        users = self._users

        def told_run(context: Any, argument: Any) -> Any:
            countdown = users.countdown
            for _ in _ENOUGH if countdown is None else countdown.passes:  # at most once: one run is let pass
                return original(context, argument)
            if is_called_by(library, sys._getframe(2)):
                return original(context, argument)
            return self._tell(original, original, (context, argument), {}, context, ())

        self._engine.at_close(users.watch(lambda: switch(original if users.countdown is None else told_run)))
        self._engine.at_close(lambda: switch(None))
        return functools.wraps(original)(_with_parameters(closure, parameters))

    def _observe(
        self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trt_engine: Any, tensors: Any
    ) -> Any:
        if self._is_traced(tensors):
            return original(*args, **kwargs)
        due = self._engine.guard.call("deciding about a run", self._due, trt_engine)
        if due is None or due is _Due.COUNT:
            run = functools.partial(self._timed, original, None if due is None else self._hot.count)
            return self._tell(original, run, args, kwargs, trt_engine, tensors)
        event = self._start(original, args, kwargs, trt_engine, tensors, first=due is _Due.FIRST)
        return self._run(original, args, kwargs, event)

    def _due(self, trt_engine: Any) -> _Due | None:
        """What the run is to become; None for nothing."""
        runs, trace = self._wrapping.runs, self._hot.trace()
        if runs.first(trt_engine):
            return _Due.FIRST
        if trace is None:
            return None
        return _Due.EVENT if runs.allow(trt_engine, trace) else _Due.COUNT

    def _tell(
        self, original: Any, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trt_engine: Any, tensors: Any
    ) -> Any:
        """What `run` returns, which stands for `original`: no span, but an event for those of the user's who listen to runs."""
        if self._users.countdown is None or self._is_traced(tensors):
            return run(*args, **kwargs)
        event = self._start(original, args, kwargs, trt_engine, tensors, first=False, interest=self._users)
        return self._run(run, args, kwargs, event)

    def _run(self, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any], event: Event | None) -> Any:
        if event is None:
            return run(*args, **kwargs)
        return self._wrapping.run(self._probe, run, Call(None, args, kwargs), event)

    def _timed(self, original: Any, count: Callable[[float, Phase], None] | None, /, *args: Any, **kwargs: Any) -> Any:
        """What `original` returns; its duration goes to `count`, and to those who want the durations of all runs."""
        start = time.perf_counter()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            self._note(time.perf_counter() - start, type(error), count)
            raise
        self._note(time.perf_counter() - start, None, count)
        return result

    def _note(
        self, duration_s: float, error: type[BaseException] | None, count: Callable[[float, Phase], None] | None
    ) -> None:
        if self._is_timed and self._times.wanted:
            self._times.add(duration_s, error)
        if count is not None:
            self._engine.guard.call("counting a run", count, duration_s, self._phase)

    def _start(
        self,
        original: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        trt_engine: Any,
        tensors: Any,
        *,
        first: bool,
        interest: Interest | None = None,
    ) -> Event | None:
        describe = execution.RUNS[self._phase]
        described = self._engine.guard.call("describing a run", describe, trt_engine, tensors, first)
        facts = {**self._wrapping.fixed_facts(self._phase), **(described or {})}
        identity = self._wrapping.ids.get(trt_engine)
        if identity is not None:
            facts[semconv.ENGINE_ID] = identity
        origin = self._wrapping.origin(trt_engine)
        return self._engine.start(
            self._phase,
            facts,
            links=() if origin is None else (origin,),
            observed=Observed(original, args, kwargs),
            interest=interest,
        )


def _with_parameters(function: Any, names: tuple[str, str]) -> FunctionType:
    """The same function with other names for its two parameters: callers may pass arguments by name."""
    code = function.__code__
    renamed = code.replace(co_varnames=(*names, *code.co_varnames[2:]))
    return FunctionType(renamed, function.__globals__, function.__name__, None, function.__closure__)


def _tracing_test() -> Callable[[Any], bool]:
    """A test of a run's inputs: whether it is no run but torch.export or Dynamo asking for shapes.

    Those call with fake tensors, or while compiling. What cannot be looked at is a run: it fails in its own way.
    """
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    is_compiling = getattr(compiler, "is_compiling", None) or _never

    def is_traced(tensors: Any) -> bool:
        if is_compiling():
            return True
        try:
            for each in tensors:
                if isinstance(each, fake):
                    return True
        except Exception:
            return False
        return False

    return is_traced


def _never() -> bool:
    """Without torch nothing is compiling."""
    return False
