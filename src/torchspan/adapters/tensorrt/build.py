# SPDX-License-Identifier: Apache-2.0
"""TensorRT's builder: an event around the build, and its progress phases below it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torchspan import semconv
from torchspan._base.reading import attribute, is_of_library
from torchspan.adapters.machinery.provenance import Provenance
from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.engine import Engine, Event, EventStack, Observed
from torchspan.phase import BUILD_PHASE
from torchspan.probes import Call, Record, Target
from torchspan.probes.describe import build
from torchspan.probes.describe.build import network_inputs


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
    start = engine.guard.around("reporting a TensorRT phase")(phases.start)
    finish = engine.guard.around("reporting the end of a TensorRT phase")(phases.finish)

    class ProgressMonitor(trt.IProgressMonitor):  # type: ignore[misc]  # made per build: the library is not imported here
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            start(phase_name, parent_phase, num_steps)
            if inner is not None:
                inner.phase_start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, number: int) -> Any:
            return True if inner is None else inner.step_complete(phase_name, number)

        def phase_finish(self, phase_name: str) -> None:
            if inner is not None:
                inner.phase_finish(phase_name)
            finish(phase_name)

    return ProgressMonitor(), phases


# ------------------------------------------------------------------------------------------------------------------
def wrap_build(
    factory: WrapperFactory,
    follow_logger: Callable[[Any], None],
    target: Target,
    action: Record,
    original: Any,
    *,
    phases: bool,
) -> Any:
    """`Builder.build_serialized_network(network, config)` as an event, with TensorRT's phases if `phases`.

    With `phases`, the configuration has torchspan's monitor during the build, chained to the program's own monitor, which is
    restored afterwards. Without `phases`, the configuration is not changed.

    Args:
        follow_logger: Called with the builder before it builds, so that the lines of its logger are recorded.
    """

    def of_program(call: Call) -> dict[str, Any]:
        """The facts of a build outside every other event: no other event describes its inputs."""
        return {**(action.start(call) if action.start else {}), **network_inputs(call)}

    programs = replace(action, start=of_program)
    follow_guarded = factory.engine.guard.around("following the program's logger")(follow_logger)

    @functools.wraps(original)
    def observed_build(*args: Any, **kwargs: Any) -> Any:
        call = Call(None, args, kwargs)
        if args and factory.engine.active:
            follow_guarded(args[0])
        event = factory.open(target, action if factory.engine.current else programs, call, original)
        if event is None:
            return original(*args, **kwargs)
        config = call.get("config", position=2) if phases else None
        if config is None or not is_of_library(type(config)):
            return factory.run(target, action, original, call, event)
        return _run_monitored(factory, target, action, original, call, event, config)

    return observed_build


def _run_monitored(
    factory: WrapperFactory, target: Target, action: Record, original: Any, call: Call, event: Event, config: Any
) -> Any:
    guard = factory.engine.guard
    chained = guard.around("making a progress monitor")(_chain)(factory, event, config)
    if chained is None:
        return factory.run(target, action, original, call, event)
    inner, monitor, build_phases = chained

    def restore() -> None:
        if config.progress_monitor is monitor:
            config.progress_monitor = inner

    def build_and_restore(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            try:
                build_phases.close()
            finally:
                guard.finish("restoring a progress monitor", restore)

    return factory.run(target, action, build_and_restore, call, event)


def _chain(factory: WrapperFactory, event: Event, config: Any) -> Any:
    inner = config.progress_monitor
    bindings = sys.modules[type(config).__module__]  # of the same TensorRT that builds: two may be loaded
    monitor, build_phases = monitor_for(bindings, factory.engine, event, inner)
    config.progress_monitor = monitor
    return inner, monitor, build_phases


# --- The ONNX parser ------------------------------------------------------------------------------------------------
def tap_parser(factory: WrapperFactory, target: Target, original: Any) -> Any:
    """`OnnxParser.__init__(self, network, logger)`, which remembers the network."""
    engine, provenance = factory.engine, factory.provenance

    @engine.guard.around(f"remembering {target}")
    def remember(call: Call) -> None:
        provenance.fills(call.args[0], call.get("network", position=1))

    @functools.wraps(original)
    def observed_init(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if engine.active:
            remember(Call(None, args, kwargs))

    return observed_init


def wrap_parse(factory: WrapperFactory, target: Target, action: Record, original: Any) -> Any:
    """A method of a parser that parses a model, as an event. `call.before` describes the state before the call."""
    before = factory.engine.guard.around(f"preparing {target}")(_before)

    @functools.wraps(original)
    def observed_parse(*args: Any, **kwargs: Any) -> Any:
        call = Call(None, args, kwargs)
        event = factory.open(target, action, call, original)
        if event is None:
            return original(*args, **kwargs)
        if args:
            call.before = before(factory.provenance, args[0])
        return factory.run(target, action, original, call, event)

    return observed_parse


def _before(provenance: Provenance, parser: Any) -> build.BeforeParse:
    return build.BeforeParse(provenance.network_of(parser), attribute(parser, "num_errors", 0))
