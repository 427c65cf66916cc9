# SPDX-License-Identifier: Apache-2.0
"""TensorRT's builder: an event around the build, and its progress phases below it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torchspan._base.reading import is_of_library
from torchspan.adapters._machinery.wrap import WrapperFactory
from torchspan.adapters.tensorrt.phases import monitor_for
from torchspan.engine import Event
from torchspan.probes import Call, Record, Target
from torchspan.probes.describe.build import network_inputs


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

    follow_logger: called with the builder before it builds, so that the lines of its logger are recorded.
    """

    def of_program(call: Call) -> dict[str, Any]:
        """The facts of a build outside every other event: no other event describes its inputs."""
        return {**(action.start(call) if action.start else {}), **network_inputs(call)}

    programs = replace(action, start=of_program)

    @functools.wraps(original)
    def observed_build(*args: Any, **kwargs: Any) -> Any:
        call = Call(None, args, kwargs)
        if args and factory.engine.active:
            factory.engine.guard.call("following the program's logger", follow_logger, args[0])
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
    chained = guard.call("making a progress monitor", _chain, factory, event, config)
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
