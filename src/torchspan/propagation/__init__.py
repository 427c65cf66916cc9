# SPDX-License-Identifier: Apache-2.0
"""Carries OpenTelemetry's context to where Python does not: into threads, work items of pools, and processes.

General layout: `_context` is what arrives at the other side, `_carrier` its form as text, `_names` how names are replaced;
`_threads`, `_pools`, `_processes` and `_environment` carry, each replacing names of one kind of the standard library's,
once the program has imported them; `_start_up` honours what this process was started with.

Only OpenTelemetry's context travels, no other context variable: what the program finds in its own must not depend on
whether it is traced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

from torchspan.imports import Undo, when_imported
from torchspan.propagation import _start_up, _threads
from torchspan.propagation._names import Names

__all__ = ["install"]

Flush = Callable[[], None]
Resume = Callable[[], None]


def install(*, resume: Resume, flush: Flush, as_parent: bool = True) -> Undo:
    """Carry from now on, and take over what this process was started with. Returns what ends that.

    resume: switches the bridge on in a started process as it is here. It must pickle.
    flush: exports what has been recorded; called at the end of processes that end without running exit handlers.
    as_parent: whether what this process was started with is the parent of its roots; otherwise they are linked to it.
    """
    names = Names()
    inherited = _start_up.variables()

    def pools(module: ModuleType) -> None:
        from torchspan.propagation import _pools

        _pools.install(names, module)

    def threads(module: ModuleType) -> None:
        _threads.install(names, module)

    def servers(module: ModuleType) -> None:
        _start_up.watch_servers(names, module)

    def processes(module: ModuleType) -> None:
        from torchspan.propagation import _processes

        _processes.install(names, module, resume, flush, as_parent=as_parent)

    def environment(module: ModuleType) -> None:
        from torchspan.propagation import _environment

        _environment.install(names, module, inherited)

    undo = [
        names.undo,
        _start_up.install(names, inherited, as_parent=as_parent),
        _when_imported(names, "threading", threads),
        _when_imported(names, "concurrent.futures.thread", pools),
        _when_imported(names, "concurrent.futures.process", pools),
        _when_imported(names, "multiprocessing.pool", pools),
        _when_imported(names, "torch._inductor.compile_worker.subproc_pool", pools),
        _when_imported(names, "multiprocessing.process", processes),
        _when_imported(names, "subprocess", environment),
        _when_imported(names, "opentelemetry.instrumentation.utils", servers),
    ]

    def stop() -> None:
        while undo:
            undo.pop()()

    return stop


def _when_imported(names: Names, name: str, install_in: Callable[[ModuleType], None]) -> Undo:
    def arrived(_late: bool) -> Undo:
        names.attempt(install_in, sys.modules[name])
        return _nothing

    return when_imported(name, arrived)


def _nothing() -> None:
    """The names are put back together, by `Names.undo`."""
