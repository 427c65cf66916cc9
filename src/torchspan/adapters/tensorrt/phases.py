# SPDX-License-Identifier: Apache-2.0
"""TensorRT's build phases, through the one progress monitor that a build can have."""

from __future__ import annotations

from typing import Any

from torchspan import semconv
from torchspan.engine import Engine, Event, EventStack, Observed
from torchspan.phase import BUILD_PHASE


class BuildPhases:
    """The phases of one build as events below it.

    TensorRT may report from several threads ("can be called from multiple internal threads", NvInfer.h), so the events lie below
    the build's event, not below the current event. Phases are identified by name. A name may occur several times, in sequence or nested.

    reported_to: the TensorRT method that is called when a phase begins.
    """

    def __init__(self, engine: Engine, build: Event, reported_to: Any = None) -> None:
        self._reported_to = reported_to
        self._stack = EventStack(engine, below=build)

    def start(self, name: str, parent: str | None, steps: int) -> None:
        """Begin a phase, below the phase called `parent` or below the build itself."""
        facts: dict[str, Any] = {semconv.BUILD_PHASE_NAME: name, semconv.BUILD_PHASE_STEPS: steps}
        observed = Observed(self._reported_to, (name, parent, steps), {})
        event = self._stack.begin(name, BUILD_PHASE, facts, target=name, parent_key=parent, observed=observed)
        if event is not None:
            event.additions[semconv.BUILD_PHASE_STEPS_DONE] = 0

    def step(self, name: str) -> None:
        """Count a completed step of a phase."""
        event = self._stack.top(name)
        if event is not None:
            event.additions[semconv.BUILD_PHASE_STEPS_DONE] += 1

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
    guard = engine.guard

    class ProgressMonitor(trt.IProgressMonitor):  # type: ignore[misc]  # made per build: the library is not imported here
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            guard.call("reporting a TensorRT phase", phases.start, phase_name, parent_phase, num_steps)
            if inner is not None:
                inner.phase_start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> Any:
            guard.call("counting a TensorRT step", phases.step, phase_name)
            return True if inner is None else inner.step_complete(phase_name, step)

        def phase_finish(self, phase_name: str) -> None:
            if inner is not None:
                inner.phase_finish(phase_name)
            guard.call("reporting the end of a TensorRT phase", phases.finish, phase_name)

    return ProgressMonitor(), phases
