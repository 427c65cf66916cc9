# SPDX-License-Identifier: Apache-2.0
"""torch.compile: frames and backward graphs, with their phases, as Dynamo reports them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import CodeType
from typing import Any

from torchspan import _dynamo_safety
from torchspan._base.boundaries import undo_all
from torchspan._base.import_hooks import when_imported
from torchspan._base.patching import Patches
from torchspan._base.reading import attribute, loaded, method
from torchspan.adapters.dynamo import recorded
from torchspan.adapters.dynamo.frames import Frames
from torchspan.adapters.dynamo.workers import Workers
from torchspan.adapters.imports import Imports
from torchspan.adapters.machinery.apply import apply_probes
from torchspan.adapters.machinery.around import around
from torchspan.adapters.machinery.ports import Ports
from torchspan.adapters.machinery.resolve import ResolvedProbe, resolve, version_of
from torchspan.engine import Engine, Undo
from torchspan.probes import Call, Probe, Record, Tap, Target, signature_of
from torchspan.probes.describe import declarations
from torchspan.probes.dynamo import PROBES, WORKERS
from torchspan.redaction import message_table

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
    engine.guard.call("hooking into Dynamo", _hook, engine, patches, rows, frames, graph_runs)
    if graph_runs:
        undo.append(recorded.record(engine, ports))
    _dynamo_safety.dynamo_arrived()  # for the modules that have been imported since
    workers = Workers(engine, frames)
    undo += [when_imported(probe.target.module, partial(_arrived, engine, workers, probe)) for probe in WORKERS]
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


def _arrived(engine: Engine, workers: Workers, probe: Probe, _late: bool) -> Undo:
    """Apply one of Inductor's probes, whose module has been imported."""
    patches = Patches("torch")
    engine.at_stop(patches.undo)
    around = {"dynamo:thread": workers.thread, "dynamo:process": workers.process}
    rows = [_resolved(probe, probe.target.module)]
    engine.guard.call("hooking into Inductor", apply_probes, engine, patches, rows, partial(_around, around))
    return patches.undo


def _hook(
    engine: Engine, patches: Patches, rows: Iterable[ResolvedProbe], frames: Frames, records_graphs: bool
) -> None:
    taps = {
        "dynamo:measured": frames.measured,
        "dynamo:hit": frames.hit,
        "dynamo:broke": frames.broke,
        "dynamo:captured": frames.captured,
        "dynamo:generator": frames.refused,
        "dynamo:wrapped": frames.wrapped,
    }
    for code in _codes_of_events():
        engine.wraps_with(code)
    around = {"dynamo:lock": frames.waits.wrap}

    def wrap(probe: Probe, original: Any) -> Any:
        if records_graphs and probe.action == Tap("dynamo:captured"):
            original = _returning(engine, frames, original)
        if not isinstance(probe.action, Tap):
            return _around(around, probe, original)
        if probe.action == Tap("dynamo:reported"):
            observed = _reporting(engine, frames, probe.target, original)
        else:
            observed = tap(engine, taps[probe.action.handler], probe.target, original)
        sys.modules[LIBRARY].eval_frame.skip_code(attribute(observed, "__code__"))  # Dynamo traces none of them
        return observed

    apply_probes(engine, patches, rows, wrap)


def _codes_of_events() -> Iterator[CodeType]:
    """The code objects in which the events of a frame and of the backend's phase begin and end. A traceback contains them."""
    graph = loaded("torch._dynamo.output_graph", "OutputGraph")
    methods = [] if graph is None else [method(graph, "call_user_compiler")]
    for function in (loaded("torch._dynamo.convert_frame", "_compile"), *methods):
        code = attribute(function, "__code__")
        if type(code) is CodeType:
            yield code


def _around(around: Mapping[str, Callable[[Target, Record, Any], Any]], probe: Probe, original: Any) -> Any:
    if not isinstance(probe.action, Record) or probe.action.around is None:
        raise TypeError(f"{probe.target} names no wrapper")
    return around[probe.action.around](probe.target, probe.action, original)


def _returning(engine: Engine, frames: Frames, original: Any) -> Any:
    """`call_user_compiler`, returning a graph whose runs are recorded."""

    @functools.wraps(original)
    def compiling(self: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = original(self, *args, **kwargs)
        recording = engine.guard.call("recording a compiled graph", frames.compiled, self, compiled)
        return compiled if recording is None else recording

    return compiling


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
