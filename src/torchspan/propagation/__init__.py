# SPDX-License-Identifier: Apache-2.0
"""Carries OpenTelemetry's context to where Python does not: into threads, work items of pools, and processes.

General layout: into threads and pools of threads it goes as a passenger of `torchspan._base.threads`. For the rest, `ROWS` says
which names of the standard library are replaced; `_context` is what arrives at the other side, `_carrier` its form as text;
`_pools`, `_processes` and `_environment` carry, `_start_up` honours what this process was started with. The folder's files
are loaded when there is something to carry: most processes that `opentelemetry-instrument` starts have nothing.

Only OpenTelemetry's context travels, no other context variable: what the program finds in its own must not depend on
whether it is traced.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextvars import Token
from functools import partial
from types import ModuleType

from opentelemetry import context as context_api
from opentelemetry.context import Context

from torchspan._base import threads
from torchspan._base.import_hooks import Undo, when_imported
from torchspan._base.patching import Function, Names

__all__ = ["install"]

# Plain tuples: a class for them would take longer than all else that is loaded here.
ROWS: tuple[tuple[str, str | None, str, str], ...] = (
    ("concurrent.futures.process", "ProcessPoolExecutor", "submit", "_pools:item"),
    ("multiprocessing.pool", "Pool", "apply_async", "_pools:item"),
    ("multiprocessing.pool", "Pool", "_map_async", "_pools:item"),
    ("multiprocessing.pool", "Pool", "imap", "_pools:item"),
    ("multiprocessing.pool", "Pool", "imap_unordered", "_pools:item"),
    ("multiprocessing.pool", "Pool", "__init__", "_pools:workers"),
    # Inductor's compile workers: started below whichever compilation is the first, kept for all of them.
    ("torch._inductor.compile_worker.subproc_pool", "SubprocPool", "__init__", "_pools:workers"),
    ("subprocess", "Popen", "__init__", "_environment:popen"),
    # What server instrumentations (ASGI, WSGI, …) call for each request; they take the name from this module.
    ("opentelemetry.instrumentation.utils", None, "_start_internal_or_server_span", "_start_up:serving"),
)
"""Names that are replaced: the module, the class in it or None, the name, and what replaces it: `module:function` in this
folder, taking `(names, original)`."""

CONSEQUENCE = "Carrying the context failed; the program goes on, in traces of their own."


class CurrentContext(threads.Passenger):
    """OpenTelemetry's current context."""

    outside = Context()

    def __init__(self) -> None:
        super().__init__(CONSEQUENCE)

    def for_thread(self) -> Context | None:
        """What does not hold the span, which may be over before the thread is."""
        if not context_api.get_current():
            return None
        from torchspan.propagation._context import at_start

        return at_start()

    def for_item(self) -> Context | None:
        """With the span itself: items are bounded."""
        return context_api.get_current() or None

    def enter(self, value: Context) -> Token[Context]:
        """Attach it."""
        return context_api.attach(value)

    def leave(self, before: Token[Context]) -> None:
        """Detach it."""
        context_api.detach(before)


def install(*, resume: Callable[[], None], flush: Callable[[], None], as_parent: bool = True) -> Undo:
    """Carry from now on, and take over what this process was started with. Returns what ends that.

    resume: switches the bridge on in a started process as it is here. It must pickle.
    flush: exports what has been recorded; called at the end of processes that end without running exit handlers.
    as_parent: whether what this process was started with is the parent of its roots; otherwise they are linked to it.
    """
    names, passenger = Names(CONSEQUENCE), CurrentContext()
    threads.add(passenger)
    undo: list[Undo] = [names.undo, partial(threads.remove, passenger)]
    if not {"TRACEPARENT", "BAGGAGE", "OTEL_PROPAGATORS"}.isdisjoint(os.environ):
        from torchspan.propagation import _start_up

        undo.append(_start_up.install(names, as_parent=as_parent))

    def processes(module: ModuleType) -> None:
        from torchspan.propagation import _processes

        _processes.install(names, module, resume, flush, as_parent=as_parent)

    for module, holder, name, carry in ROWS:
        undo.append(_when_imported(names, module, _replacing(names, holder, name, carry)))
    undo.append(_when_imported(names, "multiprocessing.process", processes))

    def stop() -> None:
        while undo:
            undo.pop()()

    return stop


def _replacing(names: Names, holder: str | None, name: str, carry: str) -> Callable[[ModuleType], None]:
    def load(original: Function) -> Function:
        module, _, function = carry.partition(":")
        make: Function = getattr(importlib.import_module(f"{__name__}.{module}"), function)
        made: Function = make(names, original)
        return made

    def replace(module: ModuleType) -> None:
        for each in [getattr(module, holder)] if holder else _holders(module, name):
            names.replace_late(each, name, load, context_api.get_current)

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
