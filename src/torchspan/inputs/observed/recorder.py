# SPDX-License-Identifier: Apache-2.0
"""Records the calls of one method. What goes wrong in here is counted, and never reaches the call."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any

from torchspan.base import dynamo_safety
from torchspan.base.boundaries import Failures, is_programs, log_failure
from torchspan.inputs.observed.observations import ModuleCall, ObservedCalls
from torchspan.inputs.observed.signatures import CallSignature, UnfitCallError
from torchspan.inputs.observed.trees import Reader, SymbolicCallError, TooManyLeavesError

_OPEN_LIMIT = 1_000
"""Calls inside each other in one thread that are remembered."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A call that has begun.

    Args:
        call: None where it is not recorded.
        handled: The exception that was being handled.
    """

    call: ModuleCall | None
    handled: int


class _RecordingThread(threading.local):
    """The calls that have begun in this thread, the innermost last."""

    def __init__(self) -> None:
        self.begun: list[_Begun] = []


class ModuleRecorder:
    """Takes down the shapes of each call as it begins, and its outcome as it ends.

    Args:
        reads_caches: See `Reader`.
    """

    def __init__(self, signature: CallSignature, observations: ObservedCalls, *, reads_caches: bool = False) -> None:
        self.signature = signature
        self._observations = observations
        self._reads_caches = reads_caches
        self._thread = _RecordingThread()

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call begins. Raises nothing."""
        call = None
        try:
            call = self._read(args, kwargs)
        except SymbolicCallError:
            self._observations.skipped("symbolic")
        except UnfitCallError:
            self._observations.skipped("unfit")
        except TooManyLeavesError:
            self._observations.skipped("too_large")
        except Exception as error:
            if is_programs(error):
                raise
            self._failed()
        del self._thread.begun[:-_OPEN_LIMIT]  # those that a KeyboardInterrupt left open
        self._thread.begun.append(_Begun(call, id(sys.exc_info()[1])))

    def end(self) -> None:
        """The call that began last in this thread has returned, or its exception is being handled. Raises nothing."""
        if not self._thread.begun:  # it began before the observer was attached
            return
        begun = self._thread.begun.pop()
        call = begun.call
        if call is None:
            return
        try:
            if sys.exc_info()[1] is not None and id(sys.exc_info()[1]) != begun.handled:
                self._observations.skipped("failed")
            else:
                self._observations.ended(call)
        except Exception as error:
            if is_programs(error):
                raise
            self._failed()

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModuleCall:
        torch: Any = sys.modules["torch"]
        if torch._C._get_tracing_state() is not None or dynamo_safety.is_symbolic((*args, *kwargs.values())):
            raise SymbolicCallError
        bound = self.signature.bind(args, kwargs)
        with torch._C.DisableTorchFunction():  # modes and classes of the program's see no question about a shape
            reader = Reader(reads_caches=self._reads_caches)
            arguments = {name: reader.read(value, (name,)) for name, value in bound.arguments.items()}
        return ModuleCall(arguments, bound.by_keyword)

    def _failed(self) -> None:
        Failures.total += 1
        self._observations.skipped("errors")
        if self._observations.errors == 1:
            log_failure(
                "%s failed; the program continues, and this call is not observed.", "The observation of a call's inputs"
            )
