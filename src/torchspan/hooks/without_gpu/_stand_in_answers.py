# SPDX-License-Identifier: Apache-2.0
"""The makers of the rows that need no function of their own: names for values, so that rows stay data."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import torch

from torchspan.hooks.without_gpu._cuda import FREE_BYTES, TOTAL_BYTES, OnDevice, for_program, returns, stands_in
from torchspan.hooks.without_gpu._cuda import PROPERTIES as _PROPERTIES
from torchspan.hooks.without_gpu._devices import on_cpu

if TYPE_CHECKING:
    from typing_extensions import Self


# --- CUDA streams and events ----------------------------------------------------------------------------------------
_handles = itertools.count(1)
_current = threading.local()


class Stream:
    """Stands in for `torch.cuda.Stream`. Each has its own handle; the default stream's is 0, as CUDA's is."""

    __torchspan_stand_in__ = True

    def __init__(self, device: Any = None, priority: int = 0, **_kwargs: Any) -> None:
        self.device = torch.device(on_cpu(0 if device is None else device))
        self.device_index, self.device_type = 0, 1
        self.priority = priority
        self.cuda_stream = self.stream_id = next(_handles)
        self._outer: list[Stream] = []

    def wait_stream(self, stream: Any) -> None: ...
    def wait_event(self, event: Any) -> None: ...
    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        event = StandInEvent() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Self:
        self._outer.append(current_stream())
        _current.stream = self
        return self

    def __exit__(self, *_exc_info: object) -> None:
        _current.stream = self._outer.pop()


_default = Stream()
_default.cuda_stream = _default.stream_id = 0


class StandInEvent:
    """Stands in for `torch.cuda.Event`: times are the host's monotonic clock at `record`.

    Its errors are those of PyTorch 2.14, in the same order. Those of an event that is not complete, of a second device and of a
    capture do not occur: work is done when its call returns, there is one device, and nothing is captured.
    """

    __torchspan_stand_in__ = True

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        del blocking, interprocess
        self.cuda_event = 0
        self._times = enable_timing
        self._recorded_ns: int | None = None

    def record(self, stream: Any = None) -> None:
        """Keep the time. RuntimeError for what is not a stream: `torch/csrc/cuda/Event.cpp`, `THCPEvent_record`."""
        if not (stream is None or isinstance(stream, (Stream, torch.Stream))):
            raise RuntimeError("expected stream to be a torch.Stream or torch.cuda.Stream object")
        self._recorded_ns = time.perf_counter_ns()

    def elapsed_time(self, end_event: StandInEvent) -> float:
        """Milliseconds from this event to `end_event`.

        ValueError unless both have timing, and then unless both were recorded: `c10/cuda/CUDAEvent.h`, `elapsed_time`. Before that,
        RuntimeError for what is not an event: `torch/csrc/cuda/Event.cpp`, `THCPEvent_elapsed_time`.
        """
        if not isinstance(end_event, StandInEvent):
            raise RuntimeError("expected other to be a torch.cuda.Event object")  # noqa: TRY004 - PyTorch's type
        if not (self._times and end_event._times):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded_ns is None or end_event._recorded_ns is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._recorded_ns - self._recorded_ns) / 1e6

    def wait(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...

    def query(self) -> bool:
        """True, as CUDA answers for an event that was not recorded or is complete: `c10/cuda/CUDAEvent.h`, `query`."""
        return True


class StreamContext:
    """Stands in for `torch.cuda.StreamContext` and `torch.cuda.stream(s)`. None leaves the current stream as it is."""

    __torchspan_stand_in__ = True

    def __init__(self, stream: Any = None) -> None:
        self.stream = stream
        self._outer: Any = None

    def __enter__(self) -> None:
        self._outer = current_stream()
        if self.stream is not None:
            _current.stream = self.stream

    def __exit__(self, *_exc_info: object) -> None:
        _current.stream = self._outer


def current_stream(device: Any = None) -> Any:
    """The stream chosen last in this thread, at first the default stream."""
    del device
    return getattr(_current, "stream", _default)


def default_stream(device: Any = None) -> Stream:
    """The one default stream."""
    del device
    return _default


def set_stream(stream: Any) -> None:
    """Choose this thread's stream; None leaves it as it is."""
    if stream is not None:
        _current.stream = stream


# ------------------------------------------------------------------------------------------------------------------
AVAILABLE = for_program(answer=True, library_answer=False)
DEVICE_COUNT = for_program(answer=1, library_answer=0)
NOTHING = returns(None)
ZERO = returns(0)
TRUE = returns(True)
FALSE = returns(False)
TEXT = returns("")
NAME = returns(_PROPERTIES.name)
CAPABILITY = returns((_PROPERTIES.major, _PROPERTIES.minor))
PROPERTIES = returns(_PROPERTIES)
MEMORY = returns((FREE_BYTES, TOTAL_BYTES))
ON_DEVICE = stands_in(OnDevice)
STREAM = stands_in(Stream)
EVENT = stands_in(StandInEvent)
STREAM_CONTEXT = stands_in(StreamContext)
CURRENT_STREAM = stands_in(current_stream)
DEFAULT_STREAM = stands_in(default_stream)
SET_STREAM = stands_in(set_stream)
