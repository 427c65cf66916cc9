# SPDX-License-Identifier: Apache-2.0
"""The time of a run on the device, between two CUDA events on the program's stream.

The events are recorded on the thread of the run. A thread of torchspan asks whether the device has reached the second one, and then
completes the event of the run. Nothing here waits for the device.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from typing import Any

from torchspan.base.background import Background, Wake
from torchspan.base.exits import AT_EXIT
from torchspan.base.forks import in_each_child, renewed
from torchspan.base.reading import entries
from torchspan.engine import Deferral, Engine, Event, Listener, ObservedRun
from torchspan.hooks.device import _driver
from torchspan.words import phase, semconv
from torchspan.words.semconv import MissingGpuTime

NAME = "torchspan device times"
"""The thread's name."""

PAIRS = 256
"""Pairs of CUDA events. So many runs may be unfinished on the device at once and still get their time."""

SHORTEST_S, LONGEST_S = 0.001, 0.05
"""Seconds between two looks at unfinished runs: after a run, and when none has finished for a while."""

LIMIT_S = 60.0
"""Seconds after which a run that has not finished is completed without a time."""

FLUSH_S = 0.25
"""Seconds for which `flush` waits for runs that the device has not finished."""

TENSORS_LIMIT = 16
"""Number of a run's inputs in which a tensor on the device is looked for."""

_RECORDING = "recording a CUDA event"
"""The name by which the engine's guard knows it. After failures in a row it is paused, and runs have the reason `failed`."""

_UNKNOWN, _HOST = -1, -2
_DURATIONS = {phase.EXECUTE: semconv.EXECUTE_GPU_DURATION, phase.RUN_GRAPH: semconv.RUN_GRAPH_GPU_DURATION}


class _Pair:
    """Two CUDA events for each device: CUDA records an event on the device of its first record alone."""

    def __init__(self) -> None:
        self._by_device: dict[int, tuple[Any, Any]] = {}

    def of(self, device: int, cuda: Any) -> tuple[Any, Any]:
        """The events of `device`."""
        events = self._by_device.get(device)
        if events is None:
            events = self._by_device[device] = (cuda.Event(enable_timing=True), cuda.Event(enable_timing=True))
        return events


class _TimedRun:
    """A run between its CUDA events, and after them until the device has reached the second one.

    Attributes:
        pair: Where the events come from.
        key: The attribute for the time.
        deferral: Completes the event of the run.
        ended_s: The `time.monotonic` of its end on the host.
    """

    __slots__ = ("deferral", "end", "ended_s", "key", "pair", "start", "stream")

    deferral: Deferral
    ended_s: float

    def __init__(self, pair: _Pair, stream: Any, cuda: Any, key: str) -> None:
        self.pair, self.stream, self.key = pair, stream, key
        self.start, self.end = pair.of(stream.device_index, cuda)


class DeviceTimes(Listener):
    """Adds their time on the device to runs of engines and of graphs.

    A run has none where the program has not initialized CUDA, in a child that was forked after that, and, for a graph, where none of
    the inputs is on a device. `torchspan.gpu_time.missing` names each other reason.

    Args:
        limit_s: Seconds after which a run that the device has not finished is completed without a time.
    """

    name = "timing runs on the device"
    phases = frozenset(_DURATIONS)
    is_innermost = True

    def __init__(self, engine: Engine, limit_s: float = LIMIT_S) -> None:
        self._engine, self._limit_s = engine, limit_s
        self._pairs = [_Pair() for _ in range(PAIRS)]
        self._launched: dict[int, _TimedRun] = {}
        self._thread = Background(NAME, self._drain)
        self._is_polling = False
        """Whether the thread looks for finished runs without being woken."""
        self._all_complete = renewed(threading.Event())
        engine.at_stop(self.stop)
        in_each_child(self._forget)
        AT_EXIT.add(self.flush)

    def _forget(self) -> None:
        """A forked child completes no runs of its parent."""
        self._launched, self._is_polling = {}, False

    # --- on the thread of the run ---------------------------------------------------------------------------------
    def open(self, event: Event) -> _TimedRun | None:
        """Record the first CUDA event."""
        torch, run = sys.modules.get("torch"), event.observed
        if type(run) is not ObservedRun or torch is None or not torch.cuda.is_initialized():
            return None
        device, key = _device_of(run.inputs, torch), _DURATIONS[event.phase]
        if device == _HOST and event.phase is phase.RUN_GRAPH:
            return None
        timed = self._engine.guard.call(_RECORDING, self._begin, torch.cuda, device, key) or MissingGpuTime.FAILED
        if isinstance(timed, _TimedRun):
            return timed
        _miss(event, timed)
        return None

    def _begin(self, cuda: Any, device: int, key: str) -> _TimedRun | str:
        """The run, or why it has no time."""
        stream = cuda.current_stream()
        if device >= 0 and device != stream.device_index:
            return MissingGpuTime.OTHER_DEVICE
        if cuda.is_current_stream_capturing():
            return MissingGpuTime.CAPTURING
        try:
            pair = self._pairs.pop()
        except IndexError:
            return MissingGpuTime.POOL
        try:
            timed = _TimedRun(pair, stream, cuda, key)
            timed.start.record(stream)
        except BaseException:
            self._pairs.append(pair)
            raise
        return timed

    def leave(self, event: Event, token: _TimedRun | None) -> None:
        """Record the second CUDA event, and complete the event of the run when the device has reached it."""
        timed = token
        if timed is None:
            return
        reason = MissingGpuTime.FAILED
        try:
            ended = self._engine.guard.end(_RECORDING, self._end, timed)
            reason = reason if ended is None else ended
        finally:
            if reason:
                self._pairs.append(timed.pair)
                _miss(event, reason)
        if reason:
            return
        timed.deferral, timed.ended_s = self._engine.defer(event), time.monotonic()
        self._launched[id(timed)] = timed
        if not self._is_polling and not self._thread.wake():
            self._complete(timed, _missing(MissingGpuTime.RUNNING))

    @staticmethod
    def _end(timed: _TimedRun) -> str:
        """Why the run has no time; empty where it has one."""
        if sys.modules["torch"].cuda.is_current_stream_capturing():
            return MissingGpuTime.CAPTURING
        timed.end.record(timed.stream)
        return ""

    # --- on torchspan's thread ------------------------------------------------------------------------------------
    def _drain(self, wake: Wake) -> None:
        pause_s = SHORTEST_S
        may_ask = _driver.set_thread_local_capture()
        is_wanted = True
        try:
            while is_wanted:
                # Runs that follow each other do not wake the thread one by one: it looks a few times more before it sleeps.
                self._is_polling = False  # first: a run that comes after the next line has looked wakes the thread
                self._is_polling = bool(self._launched) or pause_s < LONGEST_S
                try:
                    is_wanted = wake.get(timeout=pause_s if self._is_polling else None)
                    pause_s = SHORTEST_S
                except queue.Empty:
                    pause_s = SHORTEST_S if self._look(may_ask=may_ask) else min(pause_s * 2, LONGEST_S)
                    if not self._launched:
                        self._all_complete.set()
        finally:  # if this fails, the next run wakes the thread
            self._is_polling = False
        self._complete_all()

    def _look(self, *, may_ask: bool) -> bool:
        """Complete the runs that have finished. Returns whether there was one."""
        behind: set[tuple[int, int]] = set()
        """Streams with an unfinished run. Their later runs are unfinished, too."""
        has_finished = False
        for timed in list(self._launched.values()):
            stream = timed.stream
            key = (stream.device_index, stream.cuda_stream)
            if key in behind:
                continue
            facts = self._engine.guard.call("reading a time on the device", _read, timed) if may_ask else None
            if facts is None:
                self._complete(timed, _missing(MissingGpuTime.FAILED))
            elif facts:
                self._complete(timed, facts)
                has_finished = True
            elif time.monotonic() - timed.ended_s > self._limit_s:
                self._complete(timed, _missing(MissingGpuTime.UNANSWERED))
            else:
                behind.add(key)
        return has_finished

    def _complete(self, timed: _TimedRun, facts: dict[str, Any]) -> None:
        """Complete a run, unless another thread does."""
        if self._launched.pop(id(timed), None) is not None:
            self._pairs.append(timed.pair)  # CUDA may record an event again that it has not reached
            timed.deferral.complete(facts)

    def _complete_all(self) -> None:
        for timed in list(self._launched.values()):
            self._complete(timed, _missing(MissingGpuTime.RUNNING))

    # --- on any thread --------------------------------------------------------------------------------------------
    def flush(self) -> None:
        """Complete the runs that wait: with their time if the device finishes them within `FLUSH_S`, and otherwise without.

        The caller's thread does not ask CUDA, because it may not: see `set_thread_local_capture`.
        """
        self._all_complete.clear()
        if self._launched and self._thread.nudge():
            self._all_complete.wait(FLUSH_S)
        self._complete_all()

    def stop(self) -> None:
        """Complete the runs that wait, and end the thread."""
        self._thread.stop()
        self._complete_all()


def _read(timed: _TimedRun) -> dict[str, float]:
    """The time of a run; empty while the device has not finished it. The device reports milliseconds."""
    if not timed.end.query():
        return {}
    return {timed.key: timed.start.elapsed_time(timed.end) / 1_000}


def _missing(reason: str) -> dict[str, Any]:
    return {semconv.GPU_TIME_MISSING: reason}


def _miss(event: Event, reason: str) -> None:
    event.additions.update(_missing(reason))


def _device_of(inputs: Any, torch: Any) -> int:
    """The device of the first tensor that is on one, by its number. Tensors of the program's own classes are not read."""
    tensor, parameter, device = torch.Tensor, torch.nn.Parameter, _UNKNOWN
    values = inputs if type(inputs) in {list, tuple} else entries(inputs) or ()
    for value in values[:TENSORS_LIMIT]:
        if type(value) is tensor or type(value) is parameter:
            if value.is_cuda:
                return int(value.get_device())
            device = _HOST
    return device
