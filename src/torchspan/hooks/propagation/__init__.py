# SPDX-License-Identifier: Apache-2.0
"""Propagates OpenTelemetry's context where Python does not: into threads, work items of pools, and processes.

General layout: `_context` is the context as the other side sees it, and the carrier with which `torchspan.base.context.threads`
propagates it into threads and pools. `_carrier` is the context's form as text, in which pools, `_processes` and `_environment`
propagate it, and `_start_up` reads the context that this process was started with. The folder's other files are loaded when there
is a context to propagate. Most processes that `opentelemetry-instrument` starts have none.

Only OpenTelemetry's context is propagated, and no other context variable: the program's own variables must not depend on
whether the program is traced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opentelemetry import context as context_api

from torchspan.base import boundaries
from torchspan.base.boundaries import ErrorBoundary, undo_all
from torchspan.base.context import threads
from torchspan.base.forks import uncut
from torchspan.base.import_hooks import Undo, when_imported
from torchspan.base.patching import Function, Patches
from torchspan.hooks.propagation._context import CONSEQUENCE, CurrentContext, StartContext

if TYPE_CHECKING:
    from torchspan.start.launched.process import RunProcess

__all__ = ["install"]

_INSTRUMENTATIONS = "opentelemetry.instrumentation"


def install(
    *,
    resume: Callable[[], None],
    exports: Callable[[], Sequence[Callable[[], object]]],
    as_parent: bool = True,
    run: RunProcess | None = None,
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
    boundary, carrier = ErrorBoundary(CONSEQUENCE), CurrentContext(carries, _item)
    undo: list[Undo] = [partial(threads.remove, carrier)]

    def stop() -> None:
        boundary.close()
        undo_all(reversed(undo))

    def processes(module: ModuleType) -> Undo:
        from torchspan.hooks.propagation import _processes

        return _processes.Processes(boundary, resume, exports, carries, as_parent, run).install(module)

    try:
        threads.add(carrier)
        is_alone = run is not None and run.is_alone
        if not is_alone and not {"TRACEPARENT", "BAGGAGE", "OTEL_PROPAGATORS"}.isdisjoint(os.environ):
            from torchspan.hooks.propagation import _start_up

            undo.append(_start_up.install(boundary, as_parent=as_parent))
        undo.append(_when_imported(boundary, "subprocess", partial(_replace_popen, boundary, carries, run)))
        undo.append(_when_imported(boundary, f"{_INSTRUMENTATIONS}.utils", partial(_replace_serving, boundary)))
        undo.append(_when_imported(boundary, "multiprocessing.process", processes))
    except BaseException:
        stop()
        raise
    return stop


def _item(function: Function, context: context_api.Context) -> Function:
    """A work item for another process. What it needs is loaded when the first one is submitted in a context."""
    with uncut():
        from torchspan.hooks.propagation import _carrier

    boundaries.keep_apart()
    return partial(_carrier.within_context, _carrier.pack(context), function)


def _when_imported(boundary: ErrorBoundary, name: str, install_in: Callable[[ModuleType], Undo]) -> Undo:
    def arrived(_late: bool) -> Undo:
        return boundary.attempt(install_in, sys.modules[name]) or _nothing

    return when_imported(name, arrived)


def _replace_popen(
    boundary: ErrorBoundary, carries: Callable[[], bool], run: RunProcess | None, module: ModuleType
) -> Undo:
    """Replace `subprocess.Popen.__init__`, also for run, call, check_output, os.popen and asyncio's functions.

    What it needs is loaded when a program is started in a context.
    """

    def popen(original: Function) -> Function:
        def start(self: Any, *args: Any, **kwargs: Any) -> None:
            args, kwargs = boundary.attempt(in_context, args, kwargs) or (args, kwargs)
            original(self, *args, **kwargs)

        return start

    def in_context(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not context_api.get_current() or (run is None and not carries()):
            return None
        with uncut():
            from torchspan.hooks.propagation import _environment

        boundaries.keep_apart()
        return _environment.in_context(args, kwargs, run, carries=carries())

    patches = Patches()
    patches.replace_shared(module.Popen, "__init__", popen)
    return patches.undo


def _replace_serving(boundary: ErrorBoundary, module: Any) -> Undo:
    """A process that begins to serve requests is a long-lived worker. From then on the span of its start is not a parent.

    Below a current span, server instrumentations (ASGI, WSGI, …) treat a request as internal work, and do not read its headers. They
    call this function for each request, and import it from this module.
    """

    def start_span(*args: Any, **kwargs: Any) -> Any:
        boundary.attempt(_begin_to_serve)
        return original(*args, **kwargs)

    patches = Patches(_INSTRUMENTATIONS)
    original: Any = getattr(module, "_start_internal_or_server_span", None)
    if original is not None:
        patches.replace_functions([(original, wraps(original)(start_span))])
    return patches.undo


def _begin_to_serve() -> None:
    context = context_api.get_current()
    if isinstance(context, StartContext):
        context.end()


def _always() -> bool:
    return True


def _nothing() -> None:
    """Nothing has been replaced."""
