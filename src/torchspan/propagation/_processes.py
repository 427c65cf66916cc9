# SPDX-License-Identifier: Apache-2.0
"""Processes of `multiprocessing`, forked or spawned: what their object carries, and their end.

The context, the settings and a sign of life of the span travel inside the process object that `multiprocessing` copies or
pickles anyway, and are taken out of it again: neither the program's environment nor its objects are changed.
"""

from __future__ import annotations

import logging
import pickle
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry.context import Context

from torchspan._base.patching import Function, Names
from torchspan.propagation import _carrier
from torchspan.propagation._context import from_elsewhere
from torchspan.propagation._lifeline import Lifeline, Lifelines

logger = logging.getLogger("torchspan")

KEY = "torchspan"
"""Where it lies in the process object: its `_config` is a dictionary that every start method hands on."""

FLUSH_LIMIT_S = 5.0
"""How long the end of a process may wait for what it recorded to be exported."""


class Parcel:
    """What a started process is told.

    carrier: the context as text. lifeline: tells whether its span is still open; None where that cannot be told.
    resume: pickled function that switches the bridge on as it is in the starting process.
    """

    def __init__(self, carrier: dict[str, str], lifeline: Lifeline | None, resume: bytes) -> None:
        self.carrier = carrier
        self.lifeline = lifeline
        self.resume = resume

    def __reduce__(self) -> tuple[Callable[..., Parcel], tuple[dict[str, str], Lifeline | None, bytes]]:
        return _unpickled, (self.carrier, self.lifeline, self.resume)

    def context(self, *, as_parent: bool) -> Context | None:
        """The context in which the process was started, as it sees it."""
        lifeline = self.lifeline
        if not as_parent:
            return from_elsewhere(_carrier.unpack(self.carrier), _yes)
        return from_elsewhere(_carrier.unpack(self.carrier), _no if lifeline is None else lifeline.is_over)


def install(
    names: Names, process: ModuleType, resume: Callable[[], None], flush: Callable[[], None], *, as_parent: bool
) -> None:
    """Carry into what is started as a `multiprocessing.process.BaseProcess`. See `torchspan.propagation.install`."""
    lifelines = Lifelines(names)

    def parcel() -> Parcel:
        context = context_api.get_current()
        lifeline = names.attempt(lifelines.of, trace.get_current_span(context))
        return Parcel(_carrier.pack(context), lifeline, pickle.dumps(resume))

    names.replace(process.BaseProcess, "start", lambda original: _start(names, parcel, original))
    names.replace(
        process.BaseProcess, "_bootstrap", lambda original: _bootstrap(names, flush, original, as_parent=as_parent)
    )


def _start(names: Names, parcel: Callable[[], Parcel], original: Function) -> Function:
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        config: Any = getattr(self, "_config", None)
        packed = names.attempt(parcel) if isinstance(config, dict) and _same_interpreter() else None
        if packed is None:
            return original(self, *args, **kwargs)
        config[KEY] = packed
        try:
            return original(self, *args, **kwargs)
        finally:
            config.pop(KEY, None)

    return start


def _same_interpreter() -> bool:
    """Whether what is pickled here can be unpickled there: with another interpreter torchspan may be missing."""
    spawn = sys.modules.get("multiprocessing.spawn")
    executable = spawn.get_executable() if spawn is not None else None
    if isinstance(executable, bytes):
        executable = executable.decode(sys.getfilesystemencoding(), "surrogateescape")
    return executable in (None, sys.executable)


def _bootstrap(names: Names, flush: Callable[[], None], original: Function, *, as_parent: bool) -> Function:
    """Runs in the started process, around everything that `multiprocessing` does in it."""

    def arrive(self: Any) -> None:
        parcel = getattr(self, "_config", {}).pop(KEY, None)
        context = parcel.context(as_parent=as_parent) if isinstance(parcel, Parcel) else None
        if context is not None:
            context_api.attach(context)  # for the process's whole life

    def bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        names.attempt(arrive, self)
        try:
            return original(self, *args, **kwargs)
        finally:
            names.attempt(_flush_within_limit, flush)

    return bootstrap


def _flush_within_limit(flush: Callable[[], None]) -> None:
    """`multiprocessing` ends forked processes without running exit handlers, so nobody else would flush.

    In a thread, because an exporter without a collector takes longer than anybody wants to wait.
    """
    thread = threading.Thread(target=flush, name="torchspan flush", daemon=True)
    thread.start()
    thread.join(FLUSH_LIMIT_S)


def _unpickled(carrier: dict[str, str], lifeline: Lifeline | None, resume: bytes) -> Parcel:
    """In a spawned process, before its `_bootstrap`: the bridge is on from here."""
    try:
        pickle.loads(resume)()  # noqa: S301 - written by the process that started this one
    except Exception:
        logger.exception("Switching on in a started process failed; it goes on, without our traces.")
    return Parcel(carrier, lifeline, resume)


def _yes() -> bool:
    return True


def _no() -> bool:
    return False
