# SPDX-License-Identifier: Apache-2.0
"""The time of a run on the device, between two CUDA events on the program's stream.

The events are recorded on the thread of the run. A thread of torchspan asks whether the device has reached the second one, and then
completes the event of the run. Nothing here waits for the device.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import weakref
from typing import Any, NamedTuple

from torchspan import phase, semconv
from torchspan._base.background import Background, Wake
from torchspan._base.errors import FAILED
from torchspan._base.exits import at_exit
from torchspan._base.forks import renewed
from torchspan._base.reading import entries
from torchspan.device import _driver
from torchspan.engine import Deferral, Engine, RecordedRun
from torchspan.semconv import MissingGpuTime

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

_UNKNOWN, _HOST = -1, -2
_DURATIONS = {phase.EXECUTE: semconv.EXECUTE_GPU_DURATION, phase.RUN_GRAPH: semconv.RUN_GRAPH_GPU_DURATION}


_LIVING: weakref.WeakSet[DeviceTimes] = weakref.WeakSet()


def _flush_all() -> None:
    for times in list(_LIVING):
        times.flush()


at_exit(_flush_all)


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


class _StartedRun(NamedTuple):
    """A run whose first CUDA event is recorded."""

    pair: _Pair
    start: Any
    end: Any
    stream: Any


class _Launched(NamedTuple):
    """A run whose second CUDA event is recorded.

    Attributes:
        key: The attribute for the time.
        ended_s: The `time.monotonic` of its end on the host.
        pid: The process. A forked child completes no runs of its parent.
    """

    run: _StartedRun
    deferral: Deferral
    key: str
    ended_s: float
    pid: int


class DeviceTimes:
    """The companion that adds their time on the device to runs of engines and of graphs.

    A run has none where the program has not initialized CUDA, in a child that was forked after that, and, for a graph, where none of
    the inputs is on a device. `torchspan.gpu_time.missing` names each other reason.

    Args:
        limit_s: Seconds after which a run that the device has not finished is completed without a time.
    """

    def __init__(self, engine: Engine, limit_s: float = LIMIT_S) -> None:
        self._engine, self._limit_s = engine, limit_s
        self._pairs = [_Pair() for _ in range(PAIRS)]
        self._launched: dict[int, _Launched] = {}
        self._thread = Background(NAME, self._drain)
        self._polling = 0
        """The process whose thread looks for finished runs without being woken."""
        self._all_complete = renewed(self, "_all_complete", threading.Event)
        engine.at_stop(self.close)
        _LIVING.add(self)

    # --- on the thread of the run ---------------------------------------------------------------------------------
    def begin(self, run: RecordedRun) -> _StartedRun | None:
        """Record the first CUDA event."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if run.event.phase not in _DURATIONS or cuda is None or not cuda.is_initialized():
            return None
        device = _device_of(run.inputs)
        if device == _HOST and run.event.phase is phase.RUN_GRAPH:
            return None
        begun = self._engine.guard.begin("recording a CUDA event", self._begin, cuda, device)
        if isinstance(begun, _StartedRun):
            return begun
        _miss(run, MissingGpuTime.FAILED if begun is FAILED else begun)
        return None

    def _begin(self, cuda: Any, device: int) -> _StartedRun | str:
        """A run that has begun, or why it has no time."""
        stream = cuda.current_stream()
        if device not in {_HOST, _UNKNOWN, stream.device_index}:
            return MissingGpuTime.OTHER_DEVICE
        if cuda.is_current_stream_capturing():
            return MissingGpuTime.CAPTURING
        try:
            pair = self._pairs.pop()
        except IndexError:
            return MissingGpuTime.POOL
        try:
            start, end = pair.of(stream.device_index, cuda)
            start.record(stream)
        except BaseException:
            self._pairs.append(pair)
            raise
        return _StartedRun(pair, start, end, stream)

    def end(self, begun: _StartedRun | None, run: RecordedRun) -> None:
        """Record the second CUDA event, and complete the event of the run when the device has reached it."""
        if begun is None:
            return
        reason = self._engine.guard.begin("recording a CUDA event", self._end, begun)
        if reason is not None:
            self._pairs.append(begun.pair)
            _miss(run, MissingGpuTime.FAILED if reason is FAILED else reason)
            return
        deferral, pid = self._engine.defer(run.event), os.getpid()
        launched = _Launched(begun, deferral, _DURATIONS[run.event.phase], time.monotonic(), pid)
        self._launched[id(launched)] = launched
        if self._polling != pid and not self._thread.wake():
            self._complete(launched, _missing(MissingGpuTime.RUNNING))

    @staticmethod
    def _end(begun: _StartedRun) -> str | None:
        """Why the run has no time, if it has none."""
        if sys.modules["torch"].cuda.is_current_stream_capturing():
            return MissingGpuTime.CAPTURING
        begun.end.record(begun.stream)
        return None

    # --- on torchspan's thread ------------------------------------------------------------------------------------
    def _drain(self, wake: Wake) -> None:
        pid, pause_s = os.getpid(), SHORTEST_S
        may_ask = _driver.set_thread_local_capture()
        is_wanted = True
        while is_wanted:
            self._polling = 0  # first: a run that comes after the next line has looked wakes the thread
            if self._launched:
                self._polling = pid
            try:
                is_wanted = wake.get(timeout=pause_s if self._polling else None)
                pause_s = SHORTEST_S
            except queue.Empty:
                pause_s = min(pause_s * 2, LONGEST_S)
            if self._look(may_ask=may_ask):
                pause_s = SHORTEST_S
            if not self._launched:
                self._all_complete.set()
        self._polling = 0
        self._complete_all()

    def _look(self, *, may_ask: bool) -> bool:
        """Complete the runs that have finished. Returns whether there was one."""
        behind: set[tuple[int, int]] = set()
        """Streams with an unfinished run. Their later runs are unfinished, too."""
        has_finished = False
        for launched in list(self._launched.values()):
            stream = launched.run.stream
            key = (stream.device_index, stream.cuda_stream)
            if key in behind:
                continue
            facts = self._engine.guard.call("reading a time on the device", _read, launched) if may_ask else None
            if facts is None:
                self._complete(launched, _missing(MissingGpuTime.FAILED))
            elif facts:
                self._complete(launched, facts)
                has_finished = True
            elif time.monotonic() - launched.ended_s > self._limit_s:
                self._complete(launched, _missing(MissingGpuTime.UNANSWERED))
            else:
                behind.add(key)
        return has_finished

    def _complete(self, launched: _Launched, facts: dict[str, Any]) -> None:
        """Complete a run, unless another thread does."""
        if self._launched.pop(id(launched), None) is not None:
            self._pairs.append(launched.run.pair)  # CUDA may record an event again that it has not reached
            launched.deferral.complete(facts)

    def _complete_all(self) -> None:
        for launched in list(self._launched.values()):
            if launched.pid == os.getpid():
                self._complete(launched, _missing(MissingGpuTime.RUNNING))

    # --- on any thread --------------------------------------------------------------------------------------------
    def flush(self) -> None:
        """Complete the runs that wait: with their time if the device finishes them within `FLUSH_S`, and otherwise without.

        The caller's thread does not ask CUDA, because it may not: see `set_thread_local_capture`.
        """
        if self._launched and self._polling == os.getpid():
            self._all_complete.clear()
            self._thread.nudge()
            self._all_complete.wait(FLUSH_S)
        self._complete_all()

    def close(self) -> None:
        """Complete the runs that wait, and end the thread."""
        self._thread.stop()
        self._complete_all()


def _read(launched: _Launched) -> dict[str, float]:
    """The time of a run; empty while the device has not finished it. The device reports milliseconds."""
    if not launched.run.end.query():
        return {}
    return {launched.key: launched.run.start.elapsed_time(launched.run.end) / 1_000}


def _missing(reason: str) -> dict[str, Any]:
    return {semconv.GPU_TIME_MISSING: reason}


def _miss(run: RecordedRun, reason: str) -> None:
    run.event.additions.update(_missing(reason))


def _device_of(inputs: Any) -> int:
    """The device of the first tensor that is on one, by its number. Tensors of the program's own classes are not read."""
    torch = sys.modules["torch"]
    plain = {torch.Tensor, torch.nn.Parameter}
    tensors = [tensor for tensor in (entries(inputs) or ())[:TENSORS_LIMIT] if type(tensor) in plain]
    for tensor in tensors:
        if tensor.is_cuda:
            return int(tensor.get_device())
    return _HOST if tensors else _UNKNOWN
