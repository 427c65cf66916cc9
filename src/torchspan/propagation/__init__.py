# SPDX-License-Identifier: Apache-2.0
"""Carries OpenTelemetry's context to where Python does not: into threads, work items of pools, and processes.

General layout: `ROWS` says which names of the standard library are replaced, `_names` how; `_context` is what arrives at the
other side, `_carrier` its form as text; `_threads`, `_pools`, `_processes` and `_environment` carry, `_start_up` honours
what this process was started with. All but the first are loaded when there is something to carry: most processes that
`opentelemetry-instrument` starts have nothing.

Only OpenTelemetry's context travels, no other context variable: what the program finds in its own must not depend on
whether it is traced.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from torchspan.imports import Undo, when_imported
from torchspan.propagation._names import Function, Names

__all__ = ["install"]


class Row(NamedTuple):
    """A name that is replaced. carry: what replaces it, `module:function` in this folder, taking `(names, original)`."""

    module: str
    holder: str | None
    name: str
    carry: str


ROWS = (
    Row("threading", "Thread", "start", "_threads:starting"),
    Row("concurrent.futures.thread", "ThreadPoolExecutor", "submit", "_pools:item"),
    Row("concurrent.futures.process", "ProcessPoolExecutor", "submit", "_pools:item"),
    Row("multiprocessing.pool", "Pool", "apply_async", "_pools:item"),
    Row("multiprocessing.pool", "Pool", "_map_async", "_pools:item"),
    Row("multiprocessing.pool", "Pool", "imap", "_pools:item"),
    Row("multiprocessing.pool", "Pool", "imap_unordered", "_pools:item"),
    Row("multiprocessing.pool", "Pool", "__init__", "_pools:workers"),
    # Inductor's compile workers: started below whichever compilation is the first, kept for all of them.
    Row("torch._inductor.compile_worker.subproc_pool", "SubprocPool", "__init__", "_pools:workers"),
    Row("subprocess", "Popen", "__init__", "_environment:popen"),
    # What server instrumentations (ASGI, WSGI, …) call for each request; they take the name from this module.
    Row("opentelemetry.instrumentation.utils", None, "_start_internal_or_server_span", "_start_up:serving"),
)


def install(*, resume: Callable[[], None], flush: Callable[[], None], as_parent: bool = True) -> Undo:
    """Carry from now on, and take over what this process was started with. Returns what ends that.

    resume: switches the bridge on in a started process as it is here. It must pickle.
    flush: exports what has been recorded; called at the end of processes that end without running exit handlers.
    as_parent: whether what this process was started with is the parent of its roots; otherwise they are linked to it.
    """
    names = Names()
    undo = [names.undo]
    if not {"TRACEPARENT", "BAGGAGE", "OTEL_PROPAGATORS"}.isdisjoint(os.environ):
        from torchspan.propagation import _start_up

        undo.append(_start_up.install(names, as_parent=as_parent))

    def processes(module: ModuleType) -> None:
        from torchspan.propagation import _processes

        _processes.install(names, module, resume, flush, as_parent=as_parent)

    undo += [_when_imported(names, row.module, _replacing(names, row)) for row in ROWS]
    undo.append(_when_imported(names, "multiprocessing.process", processes))

    def stop() -> None:
        while undo:
            undo.pop()()

    return stop


def _replacing(names: Names, row: Row) -> Callable[[ModuleType], None]:
    def load(original: Function) -> Function:
        module, _, function = row.carry.partition(":")
        carry: Function = getattr(importlib.import_module(f"{__name__}.{module}"), function)
        made: Function = carry(names, original)
        return made

    def replace(module: ModuleType) -> None:
        for holder in [getattr(module, row.holder)] if row.holder else _holders(module, row.name):
            names.replace_late(holder, row.name, load)

    return replace


def _holders(module: ModuleType, name: str) -> list[ModuleType]:
    """The modules of the same library that hold a function under its own name: `from … import …` made copies."""
    original, library = getattr(module, name, None), module.__name__.rpartition(".")[0]
    found = [
        each for key, each in list(sys.modules.items()) if key.startswith(library) and isinstance(each, ModuleType)
    ]
    return [each for each in found if original is not None and vars(each).get(name) is original]


def _when_imported(names: Names, name: str, install_in: Callable[[ModuleType], None]) -> Undo:
    def arrived(_late: bool) -> Undo:
        names.attempt(install_in, sys.modules[name])
        return _nothing

    return when_imported(name, arrived)


def _nothing() -> None:
    """The names are put back together, by `Names.undo`."""
