# SPDX-License-Identifier: Apache-2.0
"""TensorRT's builder: an event around the build, and its progress phases below it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from torchspan.base.reading import attribute, is_of_library
from torchspan.engine import Engine, Event, EventStack, Observed
from torchspan.hooks.adapters.machinery.around import around
from torchspan.hooks.adapters.machinery.wrap import BegunEvent, RecordedCalls, WrapperFactory
from torchspan.hooks.probes import Call, Record, Target
from torchspan.hooks.probes.describe import build
from torchspan.hooks.probes.describe.build import network_inputs
from torchspan.words import semconv
from torchspan.words.phase import BUILD_PHASE


# --- TensorRT's build phases ----------------------------------------------------------------------------------------
class BuildPhases:
    """The phases of one build as events below it.

    TensorRT may report from several threads ("can be called from multiple internal threads", NvInfer.h), so the events lie below
    the build's event, not below the current event. Phases are identified by name. A name may occur several times, in sequence or nested.

    Args:
        reported_to: The TensorRT method that is called when a phase begins.
    """

    def __init__(self, engine: Engine, build: Event, reported_to: Any = None) -> None:
        self._reported_to = reported_to
        self._stack = EventStack(engine, below=build)

    def start(self, name: str, parent: str | None, steps: int) -> None:
        """Begin a phase, below the phase called `parent` or below the build itself."""
        facts: dict[str, Any] = {semconv.BUILD_PHASE_NAME: name}
        observed = Observed(self._reported_to, (name, parent, steps), {})
        self._stack.begin(name, BUILD_PHASE, facts, target=name, parent_key=parent, observed=observed)

    def finish(self, name: str) -> None:
        """End a phase. Does nothing for a phase that has not begun."""
        self._stack.end(name)

    def close(self) -> None:
        """Close what TensorRT left open, innermost first."""
        self._stack.close()


def monitor_for(trt: Any, engine: Engine, build: Event, inner: Any) -> tuple[Any, BuildPhases]:
    """A progress monitor that reports to `engine` and passes every call on to `inner`, the program's own monitor.

    It never cancels a build. Only `inner` decides, and without it the answer is always True. (Contrary to the API's
    documentation, an answer of None or an exception cancels the build: this was measured.)
    """
    phases = BuildPhases(engine, build, trt.IProgressMonitor.phase_start)
    call, end = engine.guard.call, engine.guard.end

    class ProgressMonitor(trt.IProgressMonitor):  # type: ignore[misc]  # made per build: the library is not imported here
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            call("reporting a TensorRT phase", phases.start, phase_name, parent_phase, num_steps)
            if inner is not None:
                inner.phase_start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, number: int) -> Any:
            return True if inner is None else inner.step_complete(phase_name, number)

        def phase_finish(self, phase_name: str) -> None:
            if inner is not None:
                inner.phase_finish(phase_name)
            end("reporting the end of a TensorRT phase", phases.finish, phase_name)

    return ProgressMonitor(), phases


# ------------------------------------------------------------------------------------------------------------------
class Builds(RecordedCalls):
    """`Builder.build_serialized_network(network, config)` as an event, with TensorRT's phases if `phases`.

    With `phases`, the configuration has torchspan's monitor during the build, chained to the program's own monitor, which is
    restored afterwards. Without `phases`, the configuration is not changed.

    Args:
        follow_logger: Called with the builder before it builds, so that the lines of its logger are recorded.
    """

    def __init__(
        self,
        factory: WrapperFactory,
        follow_logger: Callable[[Any], None],
        target: Target,
        action: Record,
        original: Any,
        *,
        phases: bool,
    ) -> None:
        super().__init__(factory, target, action, original)
        self._guard = factory.engine.guard
        self._follow_logger = follow_logger
        self._has_phases = phases
        self._of_program = replace(action, start=self._describe_programs)

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BegunEvent | None:
        """See `RecordedCalls`. `call.before` has the monitors."""
        if args and self.factory.engine.active:
            self._guard.call("following the program's logger", self._follow_logger, args[0])
        begun = super().begin(args, kwargs)
        if begun is not None and self._has_phases:
            config = begun.call.get("config", position=2)
            if config is not None and is_of_library(type(config)):
                begun.call.before = self._guard.call("making a progress monitor", self._chain, config, begun.event)
        return begun

    def open(self, call: Call) -> Event | None:
        """See `RecordedCalls`."""
        action = self.action if self.factory.engine.current else self._of_program
        return self.open_as(action, call)

    def end(self, begun: BegunEvent, result: Any) -> None:
        """See `RecordedCalls`."""
        try:
            self._restore(begun)
        finally:
            super().end(begun, result)

    def failed(self, begun: BegunEvent, error: BaseException) -> None:
        """See `RecordedCalls`."""
        try:
            self._restore(begun)
        finally:
            super().failed(begun, error)

    def _describe_programs(self, call: Call) -> dict[str, Any]:
        """The facts of a build outside every other event: no other event describes its inputs."""
        return {**(self.action.start(call) if self.action.start else {}), **network_inputs(call)}

    def _chain(self, config: Any, event: Event) -> _Chained:
        inner = config.progress_monitor
        bindings = sys.modules[type(config).__module__]  # of the same TensorRT that builds: two may be loaded
        monitor, phases = monitor_for(bindings, self.factory.engine, event, inner)
        config.progress_monitor = monitor
        return _Chained(config, inner, monitor, phases)

    def _restore(self, begun: BegunEvent) -> None:
        if begun.call.before is not None:
            try:
                begun.call.before.phases.close()
            finally:
                self._guard.end("restoring a progress monitor", begun.call.before.restore)


class _Chained(NamedTuple):
    """The monitors of one build: the program's own, `inner`, and torchspan's."""

    config: Any
    inner: Any
    monitor: Any
    phases: BuildPhases

    def restore(self) -> None:
        """Let the configuration have the program's monitor again."""
        if self.config.progress_monitor is self.monitor:
            self.config.progress_monitor = self.inner


# --- The ONNX parser ------------------------------------------------------------------------------------------------
def tap_parser(factory: WrapperFactory, target: Target, original: Any) -> Any:
    """`OnnxParser.__init__(self, network, logger)`, which remembers the network."""
    engine, provenance = factory.engine, factory.provenance

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        return Call(None, args, kwargs) if engine.active else None

    def end(call: Call, _result: Any) -> None:
        provenance.fills(call.args[0], call.get("network", position=1))

    return around(engine.guard, f"remembering {target}", original, begin, end)


class Parses(RecordedCalls):
    """The calls of a method of a parser that parses a model, as events. `call.before` describes the state before the call."""

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BegunEvent | None:
        """See `RecordedCalls`."""
        begun = super().begin(args, kwargs)
        if begun is not None and args:
            begun.call.before = self.factory.engine.guard.call(f"preparing {self.target}", self._before, args[0])
        return begun

    def _before(self, parser: Any) -> build.BeforeParse:
        return build.BeforeParse(self.factory.provenance.network_of(parser), attribute(parser, "num_errors", 0))
