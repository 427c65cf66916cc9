# SPDX-License-Identifier: Apache-2.0
"""Thread-local callbacks follow the work into threads and pools of threads, where Python carries no context variable.

Names of the standard library are replaced only while a thread-local callback is registered anywhere in the process.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any

from torchspan.engine._local import RecordFunctionTLS, ThreadLocalState, get_record_function_tls

Function = Callable[..., Any]
_NOTHING = RecordFunctionTLS()


class Carrying:
    """Replaces three names, and puts each back where ours is still what is bound; else ours passes calls through."""

    def __init__(self) -> None:
        self._replaced: list[tuple[type, str, Function, Function]] = []
        self._waiting: dict[int, ThreadLocalState] = {}
        """What a thread that is being started goes on with, by the id of its object: no attribute is put on it."""

    def switch(self, on: bool) -> None:
        """Carry from now on, or no more. Saying so twice does nothing."""
        if on and not self._replaced:
            self._replace(threading.Thread, "start", self._start)
            self._replace(threading.Thread, "_bootstrap_inner", self._bootstrap)
            self._replace(ThreadPoolExecutor, "submit", self._submit)
        elif not on:
            while self._replaced:
                holder, name, original, ours = self._replaced.pop()
                if vars(holder).get(name) is ours:
                    setattr(holder, name, original)

    def _replace(self, holder: type, name: str, wrap: Callable[[Function], Function]) -> None:
        original = getattr(holder, name, None)
        if original is not None:
            ours = functools.wraps(original)(wrap(original))
            setattr(holder, name, ours)
            self._replaced.append((holder, name, original, ours))

    def _start(self, original: Function) -> Function:
        def start(thread: Any, /, *args: Any, **kwargs: Any) -> Any:
            if get_record_function_tls() == _NOTHING:
                return original(thread, *args, **kwargs)
            self._waiting[id(thread)] = ThreadLocalState()
            try:
                return original(thread, *args, **kwargs)  # waits until the thread has begun
            finally:
                self._waiting.pop(id(thread), None)

        return start

    def _bootstrap(self, original: Function) -> Function:
        def bootstrap(thread: Any, /) -> Any:
            state = self._waiting.pop(id(thread), None)
            if state is None:
                return original(thread)
            own = getattr(thread, "_context", None)
            if isinstance(own, Context):  # since Python 3.14 `run` is called in a context of the thread's own
                own.run(state.resume)
            return state.run(original, thread)

        return bootstrap

    def _submit(self, original: Function) -> Function:
        def submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
            # A worker is a thread that outlives this work: it must not start with what belongs to the work.
            tls = get_record_function_tls()
            if tls == _NOTHING or not callable(function) or type(pool).__module__ == "concurrent.futures.interpreter":
                return original(pool, function, *args, **kwargs)
            carried = functools.partial(ThreadLocalState().run, function)
            return _OUTSIDE.run(original, pool, carried, *args, **kwargs)

        return submit


_OUTSIDE = ThreadLocalState()
"""Made where nothing holds: at import."""
