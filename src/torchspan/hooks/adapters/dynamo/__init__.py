# SPDX-License-Identifier: Apache-2.0
"""torch.compile: frames and backward graphs, with their phases, as Dynamo reports them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any

from torchspan.base import dynamo_safety
from torchspan.base.boundaries import undo_all
from torchspan.base.import_hooks import when_imported
from torchspan.base.patching import Patches
from torchspan.base.reading import attribute, loaded, method
from torchspan.engine import Engine, Undo
from torchspan.hooks.adapters.dynamo import recorded
from torchspan.hooks.adapters.dynamo.frames import Frames
from torchspan.hooks.adapters.dynamo.workers import Workers
from torchspan.hooks.adapters.imports import Imports
from torchspan.hooks.adapters.machinery.apply import Wrappers, apply_probes
from torchspan.hooks.adapters.machinery.around import around
from torchspan.hooks.adapters.machinery.ports import Ports
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Call, Probe, Tap, Target, signature_of
from torchspan.hooks.probes.describe import declarations
from torchspan.hooks.probes.dynamo import PROBES, WORKERS
from torchspan.words.redaction import message_table

LIBRARY = "torch._dynamo"

Handle = Callable[[Call], None]


def install(engine: Engine, ports: Ports, imports: Imports, *, graph_runs: bool = False) -> Undo:
    """Hook into Dynamo, which has been imported, and into modules of Inductor once they are imported. Returns the undo.

    Args:
        imports: Reports imports in phases of Dynamo.
        graph_runs: Whether the runs of compiled graphs are events.
    """
    patches = Patches("torch")
    engine.at_stop(patches.undo)  # an interrupt may stop this function before it returns
    rows = [_resolved(probe, LIBRARY) for probe in PROBES]
    reported = next((row.original for row in rows if row.probe.action == Tap("dynamo:reported")), None)
    frames = Frames(engine, reported)
    imports.phase_here = frames.phase_here
    message_table.table()  # takes some milliseconds, which would otherwise delay the first call of a compiled function
    undo: list[Undo] = [patches.undo]
    wrappers = _wrappers(engine, frames, graph_runs)
    engine.guard.call("hooking into Dynamo", _hook, engine, patches, rows, wrappers)
    if graph_runs:
        undo.append(recorded.record(engine, ports))
    dynamo_safety.dynamo_arrived()  # for the modules that have been imported since
    undo += [when_imported(probe.target.module, partial(_arrived, engine, wrappers, probe)) for probe in WORKERS]
    return lambda: undo_all(reversed(undo))


def resolve_probes() -> list[ResolvedProbe]:
    """Every probe, resolved in the PyTorch that is loaded. Imports and changes nothing."""
    of_inductor = (_resolved(probe, probe.target.module) for probe in WORKERS)
    return [*(_resolved(probe, LIBRARY) for probe in PROBES), *of_inductor]


def stance() -> str:
    """The stance of torch.compiler, if the program has called `torch.compile`; otherwise empty."""
    backends = loaded("torch._dynamo.eval_frame", "cached_backends")
    has_called = type(backends) is dict and any(backend is not None for backend in list(backends.values()))
    return (declarations.stance_name() or "") if has_called else ""


def _resolved(probe: Probe, library: str) -> ResolvedProbe:
    version = version_of(sys.modules.get("torch")) if library in sys.modules else None
    return resolve(probe, version, None)


def _arrived(engine: Engine, wrappers: Wrappers, probe: Probe, _late: bool) -> Undo:
    """Apply one of Inductor's probes, whose module has been imported."""
    patches = Patches("torch")
    engine.at_stop(patches.undo)
    rows = [_resolved(probe, probe.target.module)]
    engine.guard.call("hooking into Inductor", apply_probes, engine, patches, rows, wrappers)
    return patches.undo


def _hook(engine: Engine, patches: Patches, rows: list[ResolvedProbe], wrappers: Wrappers) -> None:
    for code in _codes_of_events():
        engine.wraps_with(code)
    apply_probes(engine, patches, rows, wrappers)


def _wrappers(engine: Engine, frames: Frames, records_graphs: bool) -> Wrappers:
    workers = Workers(engine, frames)
    captured = partial(tap, engine, frames.captured)
    taps = {
        "dynamo:reported": partial(_reporting, engine, frames),
        "dynamo:measured": partial(tap, engine, frames.measured),
        "dynamo:hit": partial(tap, engine, frames.hit),
        "dynamo:broke": partial(tap, engine, frames.broke),
        "dynamo:captured": partial(_returning, engine, frames, captured) if records_graphs else captured,
        "dynamo:generator": partial(tap, engine, frames.refused),
        "dynamo:wrapped": partial(tap, engine, frames.wrapped),
    }
    return Wrappers(
        factory=WrapperFactory(engine, Provenance()),
        around={
            "dynamo:lock": frames.waits.wrap,
            "dynamo:thread": workers.thread,
            "dynamo:process": workers.process,
        },
        taps={handler: partial(_skipped, wrap) for handler, wrap in taps.items()},
    )


def _skipped(wrap: Callable[[Target, Any], Any], target: Target, original: Any) -> Any:
    """The replacement that `wrap` makes, which Dynamo does not trace."""
    observed = wrap(target, original)
    sys.modules[LIBRARY].eval_frame.skip_code(observed.__code__)
    return observed


def _codes_of_events() -> Iterator[CodeType]:
    """The code objects in which the events of a frame and of the backend's phase begin and end. A traceback contains them."""
    graph = loaded("torch._dynamo.output_graph", "OutputGraph")
    methods = [] if graph is None else [method(graph, "call_user_compiler")]
    for function in (loaded("torch._dynamo.convert_frame", "_compile"), *methods):
        code = attribute(function, "__code__")
        if type(code) is CodeType:
            yield code


def _returning(
    engine: Engine, frames: Frames, wrap: Callable[[Target, Any], Any], target: Target, original: Any
) -> Any:
    """`call_user_compiler`, returning a graph whose runs are recorded."""

    @functools.wraps(original)
    def compiling(self: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = original(self, *args, **kwargs)
        recording = engine.guard.call("recording a compiled graph", frames.compiled, self, compiled)
        return compiled if recording is None else recording

    return wrap(target, compiling)


def tap(engine: Engine, handle: Handle, target: Target, original: Any) -> Any:
    """The original, with `handle` called first while torchspan is enabled."""
    signature = signature_of(original)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if engine.active:
            handle(Call(signature, args, kwargs))

    return around(engine.guard, f"following {target}", original, begin)


def _reporting(engine: Engine, frames: Frames, target: Target, original: Any) -> Any:
    """As `tap`, for what Dynamo reports. What has ended is cut where that fails or is interrupted: Dynamo does not report an end again."""
    guard, report, cut = engine.guard, frames.report, frames.cut
    name, cutting = f"following {target}", "ending what Dynamo has reported"

    def reported(*args: Any, **kwargs: Any) -> Any:
        try:
            if engine.active and not guard.call(name, report, *args[:1]):
                guard.end(cutting, cut, *args)
            return original(*args, **kwargs)
        except BaseException:
            guard.end(cutting, cut, *args)
            raise

    return functools.update_wrapper(reported, original)


__all__ = ["LIBRARY", "PROBES", "install", "resolve_probes", "tap"]
