# SPDX-License-Identifier: Apache-2.0
"""Propagates OpenTelemetry's context where Python does not: into threads, work items of pools, and processes.

General layout: `_context` is the context as the other side sees it, and the carrier with which `torchspan._context.threads`
propagates it into threads and pools of threads. For the rest, `ROWS` lists the names of the standard library that are replaced.
`_carrier` is the context's form as text. `_pools`, `_processes` and `_environment` propagate it, and `_start_up` reads the
context that this process was started with. The folder's other files are loaded when there is a context to propagate. Most processes
that `opentelemetry-instrument` starts have none.

Only OpenTelemetry's context is propagated, and no other context variable: the program's own variables must not depend on
whether the program is traced.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opentelemetry import context as context_api

from torchspan._base import boundaries
from torchspan._base.boundaries import ErrorBoundary, undo_all
from torchspan._base.forks import uncut
from torchspan._base.import_hooks import Undo, when_imported
from torchspan._base.patching import Function, Patches
from torchspan._context import threads
from torchspan.propagation._context import CONSEQUENCE, CurrentContext

if TYPE_CHECKING:
    from torchspan.propagation._below_run import BelowRun

__all__ = ["install"]

# Plain tuples: a class for them would take longer to load than everything else here.
ROWS: tuple[tuple[str, str | None, str, str], ...] = (
    ("concurrent.futures.process", "ProcessPoolExecutor", "submit", "_pools:item"),
    ("multiprocessing.pool", "Pool", "apply_async", "_pools:item"),
    ("multiprocessing.pool", "Pool", "_map_async", "_pools:item"),
    ("multiprocessing.pool", "Pool", "imap", "_pools:item"),
    ("multiprocessing.pool", "Pool", "imap_unordered", "_pools:item"),
    # Inductor's compile workers: started below the first compilation, and kept for all.
    ("torch._inductor.compile_worker.subproc_pool", "SubprocPool", "__init__", "_pools:workers"),
    ("subprocess", "Popen", "__init__", "_environment:popen"),
    # Server instrumentations (ASGI, WSGI, …) call this function for each request, and import it from this module.
    ("opentelemetry.instrumentation.utils", None, "_start_internal_or_server_span", "_start_up:serving"),
)
"""Names that are replaced: the module, the class in it or None, the name, and what replaces it: `module:function` in this
folder, taking `(boundary, original)`."""


def install(
    *,
    resume: Callable[[], None],
    exports: Callable[[], Sequence[Callable[[], object]]],
    as_parent: bool = True,
    run: BelowRun | None = None,
) -> Undo:
    """Propagate from now on, and adopt the context that this process was started with. Returns the undo.

    Args:
        resume: Enables torchspan in a started process as it is here. It must pickle.
        exports: Returns the functions that export what has been recorded, none if nothing has. Called at the end of
            processes that end without running exit handlers.
        as_parent: Whether the span that this process was started with is the parent of its roots. Otherwise they
            are linked to it.
        run: torchspan's part in this process below `torchspan run`. It decides whether anything may be propagated,
            and has the span in which this process was started.
    """
    carries = _always if run is None else run.carries
    boundary, carrier = ErrorBoundary(CONSEQUENCE), CurrentContext(carries)
    undo: list[Undo] = [partial(threads.remove, carrier)]

    def stop() -> None:
        boundary.close()
        undo_all(reversed(undo))

    def processes(module: ModuleType) -> Undo:
        from torchspan.propagation import _processes

        return _processes.install(boundary, module, resume, exports, carries, as_parent=as_parent, run=run)

    try:
        threads.add(carrier)  # first, so that its replacements of pools' methods lie below those made here
        is_alone = run is not None and run.is_alone
        if not is_alone and not {"TRACEPARENT", "BAGGAGE", "OTEL_PROPAGATORS"}.isdisjoint(os.environ):
            from torchspan.propagation import _start_up

            undo.append(_start_up.install(boundary, as_parent=as_parent))
        for module, holder, name, make in ROWS:
            undo.append(_when_imported(boundary, module, partial(_replace, boundary, carries, holder, name, make)))
        if run is not None:
            below = partial(_replace_popen, boundary, run)
            undo.append(_when_imported(boundary, "subprocess", below))
        undo.append(_when_imported(boundary, "multiprocessing.process", processes))
    except BaseException:
        stop()
        raise
    return stop


def _replace_popen(boundary: ErrorBoundary, run: BelowRun, module: ModuleType) -> Undo:
    def popen(original: Function) -> Function:
        def start(*args: Any, **kwargs: Any) -> None:
            in_context = boundary.attempt(load) if boundary.is_open and context_api.get_current() else None
            (in_context or original)(*args, **kwargs)

        def load() -> Function:
            with uncut():
                from torchspan.propagation import _below_run

            return _below_run.popen(boundary, run, original)

        return start

    patches = Patches()
    patches.replace_shared(module.Popen, "__init__", popen)
    return patches.undo


def _replace(
    boundary: ErrorBoundary,
    carries: Callable[[], bool],
    holder: str | None,
    name: str,
    make: str,
    module: ModuleType,
) -> Undo:
    patches = Patches(module.__name__.rpartition(".")[0])
    replacement = partial(_loaded_when_needed, boundary, carries, make)
    try:
        if holder is not None:
            patches.replace_shared(getattr(module, holder), name, replacement)
        elif (original := getattr(module, name, None)) is not None:
            patches.replace_functions([(original, wraps(original)(replacement(original)))])
    except BaseException:
        patches.undo()
        raise
    return patches.undo


def _loaded_when_needed(
    boundary: ErrorBoundary, carries: Callable[[], bool], make: str, original: Function
) -> Function:
    """The replacement of `original`. `make` and its file are loaded at the first call that has a context."""
    replacement: Function | None = None

    def load() -> Function:
        file, _, function = make.partition(":")
        with uncut():
            module = importlib.import_module(f"{__name__}.{file}")
        value: Function = getattr(module, function)(boundary, original)
        boundaries.keep_apart()
        return value

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal replacement
        if not boundary.is_open or not boundary.attempt(context_api.get_current) or not boundary.attempt(carries):
            return original(*args, **kwargs)
        if replacement is None:
            replacement = boundary.attempt(load) or original
        return replacement(*args, **kwargs)

    return call


def _when_imported(boundary: ErrorBoundary, name: str, install_in: Callable[[ModuleType], Undo]) -> Undo:
    def arrived(_late: bool) -> Undo:
        return boundary.attempt(install_in, sys.modules[name]) or _nothing

    return when_imported(name, arrived)


def _always() -> bool:
    return True


def _nothing() -> None:
    """Nothing has been replaced."""
