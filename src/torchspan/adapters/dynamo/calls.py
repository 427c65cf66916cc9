# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled frames: whether compiled code fitted the call, and which calls ran eagerly because nothing is compiled any more.

PyTorch has one hook per process for this (`set_guard_complete_hook`). PyTorch calls it after each guard check with the result;
`torch.compiler.set_enable_guard_collectives` sets the hook too. torchspan sets the hook only while a reader collects metrics. A hook
that the program has set, before or meanwhile, is still called, and its return value decides.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from torchspan._base import reading
from torchspan._base.forks import renewed
from torchspan._base.frames import current_frames
from torchspan._base.patching import Patches

Hook = Callable[[Any], Any]

_CONVERTING = "torch._dynamo.convert_frame"


class _Checks:
    """The hook, and its counts.

    An exception that leaves the hook ends the process (C++'s `std::terminate`), and in a Python function Ctrl-C may raise one at
    any moment. So the hook consists only of C functions, which raise nothing.
    """

    def __init__(self) -> None:
        self._missed = functools.lru_cache(maxsize=0)(bool)  # caches nothing, returns the result, and counts its calls

        class Answers(dict):  # type: ignore[type-arg]
            __missing__ = staticmethod(self._missed)

        self.hook: Hook = functools.lru_cache(maxsize=0)(Answers({True: True}).__getitem__)

    def all(self) -> int:
        """Number of guard checks."""
        return _calls(self.hook)

    def misses(self) -> int:
        """Number of guard checks that no compiled code passed."""
        return _calls(self._missed)


def _calls(counting: Any) -> int:
    return int(counting.cache_info().misses)


class CompiledCalls:
    """Counts calls of compiled frames, while counting is enabled and Dynamo is hooked.

    After a call that no compiled code fits, Dynamo compiles the frame in the same thread. If no compilation follows, the frame has
    reached a recompile limit, or `torch.compiler.set_stance` has disabled compilation. PyTorch reports nothing in these cases.
    """

    def __init__(self) -> None:
        self._checks = _Checks()
        self._compiled = functools.lru_cache(maxsize=0)(bool)
        self._is_wanted = self._is_hooked = False
        self._setter: _Setter | None = None
        self._lock = renewed(self, "_lock", threading.Lock)

    # --- numbers ----------------------------------------------------------------------------------------------
    def hits(self) -> int:
        """Number of calls that compiled code fitted."""
        misses = self._checks.misses()  # first: a miss is in both numbers
        return self._checks.all() - misses

    def misses(self) -> int:
        """Number of calls that no compiled code fitted, although some existed."""
        return self._checks.misses()

    def eager(self) -> int:
        """Number of calls that no compiled code fitted and that compiled none, without the call that reached the limit."""
        followed = _calls(self._compiled)
        return self._checks.misses() - followed - sum(map(_is_about_to_compile, current_frames().values()))

    # --- when -------------------------------------------------------------------------------------------------
    def want(self, is_wanted: bool) -> None:
        """Enable or disable counting."""
        with self._lock:
            self._is_wanted = is_wanted
            self._look_again()

    def hook(self) -> Callable[[], None]:
        """Record that Dynamo is hooked. Returns the undo."""

        def hooked(is_hooked: bool) -> None:
            with self._lock:
                self._is_hooked = is_hooked
                self._look_again()

        hooked(True)
        return functools.partial(hooked, False)

    def compiles(self, *, has_entries: bool) -> None:
        """Record that a compilation begins. has_entries: whether compiled code existed, so that the call was a miss."""
        if has_entries and self._setter is not None:
            self._compiled(True)

    def _look_again(self) -> None:
        is_on = self._is_wanted and self._is_hooked
        if is_on and self._setter is None:
            original = reading.loaded("torch._C._dynamo.eval_frame", "set_guard_complete_hook")
            if original is not None:
                self._setter = _Setter(original, self._checks.hook)
        elif not is_on and self._setter is not None:
            self._setter.close()
            self._setter = None


class _Setter:
    """Replaces the function that sets the hook. The program still sets and gets its own hook.

    original: sets the hook, and returns the previous one. count: torchspan's hook.
    """

    def __init__(self, original: Callable[[Any], Any], count: Hook) -> None:
        self._original = original
        self._count = count
        self._is_open = True
        self._lock = renewed(self, "_lock", threading.RLock)
        self._patches = Patches("torch")
        self._of_program = original(None)
        self._set: Any = None
        self._change_to(self._of_program)

        @functools.wraps(original)
        def set_guard_complete_hook(hook: Any) -> Any:
            with self._lock:
                if not self._is_open:
                    return original(hook)
                before, self._of_program = self._of_program, hook
                self._change_to(hook)
                return before

        self._patches.replace_functions([(original, set_guard_complete_hook)])

    def close(self) -> None:
        """Restore the program's hook."""
        with self._lock:
            self._patches.undo()
            self._is_open = False
            found = self._original(None)  # not torchspan's if the program set a hook without the replaced function
            self._original(self._of_program if found is self._set else found)

    def _change_to(self, of_program: Hook | None) -> None:
        self._set = self._count if of_program is None else _counted(of_program, self._count)
        self._original(self._set)


def _counted(hook: Hook, count: Hook) -> Hook:
    """The program's own hook, with its results counted."""

    @functools.wraps(hook)
    def counted(fits: Any) -> Any:
        return count(bool(hook(fits)))

    return counted


def _is_about_to_compile(frame: FrameType | None) -> bool:
    """Whether the thread that runs `frame` is between a miss and the compilation, for example waiting for Dynamo's lock."""
    while frame is not None:
        if frame.f_globals.get("__name__") == _CONVERTING:
            name = frame.f_code.co_name
            if name == "_compile":
                return False
            if name == "__call__" and "frame_state" in frame.f_code.co_varnames:
                return frame.f_locals.get("cache_entry") is not None
        frame = frame.f_back
    return False
