# SPDX-License-Identifier: Apache-2.0
"""A simulated GPU behind `torch.cuda`: work takes time and ends when a test lets it; the errors are those of a real device.

Each rule names where it comes from. Paths that begin with `torch/include` or `torch/cuda` are of the wheel of PyTorch 2.14; `aten`
and `torch/csrc` are of its repository. "Runtime API" is NVIDIA's CUDA Runtime API (`cuda_runtime_api.h` has the same text), "Guide" is
NVIDIA's CUDA C++ Programming Guide.
"""

import contextlib
import math
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

import torch

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
"""Modes of a capture and of a thread. Runtime API, Data types, `cudaStreamCaptureMode`."""

INVALID_VALUE = "invalid argument"
INITIALIZATION = "initialization error"
INVALID_HANDLE = "invalid resource handle"
ILLEGAL_ADDRESS = "an illegal memory access was encountered"
UNSAFE = "operation not permitted when stream is capturing"
INVALIDATED = "operation failed due to a previous error during capture"
CAPTURED_EVENT = "operation not permitted on an event last recorded in a capturing stream"

ERRORS = {
    INVALID_VALUE: (1, "cudaErrorInvalidValue"),
    INITIALIZATION: (3, "cudaErrorInitializationError"),
    INVALID_HANDLE: (400, "cudaErrorInvalidResourceHandle"),
    ILLEGAL_ADDRESS: (700, "cudaErrorIllegalAddress"),
    UNSAFE: (900, "cudaErrorStreamCaptureUnsupported"),
    INVALIDATED: (901, "cudaErrorStreamCaptureInvalidated"),
    CAPTURED_EVENT: (907, "cudaErrorCapturedEvent"),
}
"""Text -> number and name. Runtime API, Data types, `cudaError`; the texts are those of `cudaGetErrorString` in libcudart 13.0."""

SYNCHRONIZING = frozenset(
    {
        "Event.synchronize",
        "Event.wait",
        "Stream.synchronize",
        "Stream.wait_event",
        "Stream.wait_stream",
        "synchronize",
    }
)
"""Calls that make the host wait for the device, or a stream for another one."""


def cuda_error(text):
    """What PyTorch raises for an error of the CUDA runtime.

    `torch.AcceleratorError`, a RuntimeError, since 2.8: `c10/cuda/CUDAException.cpp`, `c10_cuda_check_implementation`; the second line
    is of `c10/cuda/CUDAMiscFunctions.cpp`, `get_cuda_error_help`. The hints that follow there are left out.
    """
    code, name = ERRORS.get(text, (999, "cudaErrorUnknown"))
    types = "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html"
    error = torch.AcceleratorError(f"CUDA error: {text}\nSearch for `{name}' in {types} for more information.")
    error.error_code = code
    return error


class Call(NamedTuple):
    """A call that was made. thread: the thread's name. module: the `__name__` of the module that called."""

    name: str
    thread: str
    module: str


@dataclass(eq=False)
class Capture:
    """A sequence that `cudaStreamBeginCapture` began and `cudaStreamEndCapture` has not ended."""

    thread: int
    mode: int
    is_valid: bool = True
    is_over: bool = False


class _Queue:
    """What a `cudaStream_t` stands for: work that the device does one after the other."""

    def __init__(self, device_index, handle):
        self.device_index = device_index
        self.handle = handle
        self.busy_until_ns = 0
        self.capture = None


class _OfThread(threading.local):
    """What each thread has for itself: device, streams and mode. `torch/include/c10/cuda/CUDAStream.h`, `setCurrentCUDAStream`."""

    def __init__(self):
        self.device_index = 0
        self.streams = {}
        self.mode = GLOBAL


class SimulatedStream:
    """`torch.cuda.Stream`. Two of them are equal if they stand for one stream of CUDA: `torch/cuda/streams.py`, `Stream.__eq__`."""

    _gpu = None

    def __init__(self, device=None, priority=0, *, _queue=None):
        self._queue = _queue or self._gpu._new_queue(device)
        self.device_index = self._queue.device_index
        self.device = torch.device("cuda", self.device_index)
        self.cuda_stream = self.stream_id = self._queue.handle
        self.priority = priority

    def __eq__(self, other):
        return isinstance(other, SimulatedStream) and self._queue is other._queue

    def __hash__(self):
        return hash((self.cuda_stream, self.device))

    def query(self):
        """Whether all work is done. A query is unsafe during a capture: Guide, CUDA Graphs, Prohibited and Unhandled Operations."""
        self._gpu._called("Stream.query")
        self._gpu._runtime()
        self._gpu._refuse_unsafe()
        return self._queue.busy_until_ns <= self._gpu._now_ns()

    def record_event(self, event=None):
        """Record an event, a new one unless one is passed: `torch/cuda/streams.py`, `Stream.record_event`."""
        event = self._gpu.Event() if event is None else event
        self._gpu._called("Event.record")
        event._record(self)
        return event

    def synchronize(self):
        self._gpu._called("Stream.synchronize")
        self._gpu._wait_until(self._queue.busy_until_ns)

    def wait_event(self, event):
        self._gpu._called("Stream.wait_event")
        event._block(self._queue)

    def wait_stream(self, stream):
        self._gpu._called("Stream.wait_stream")
        self._queue.busy_until_ns = max(self._queue.busy_until_ns, stream._queue.busy_until_ns)


class SimulatedEvent:
    """`torch.cuda.Event`. CUDA's event is created by the first `record`: `torch/include/c10/cuda/CUDAEvent.h`, line 27."""

    _gpu = None

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        del blocking, interprocess, external
        self._gpu._called("Event")
        self._has_timing = bool(enable_timing)
        self._device_index = None
        self._capture = None
        self._at_ns = 0

    @property
    def device(self):
        """None before the first `record`: `torch/include/c10/cuda/CUDAEvent.h`, `device`."""
        return None if self._device_index is None else torch.device("cuda", self._device_index)

    def record(self, stream=None):
        """Complete once all work that its stream has now is done. Runtime API, Event Management, `cudaEventRecord`."""
        self._gpu._called("Event.record")
        self._record(self._gpu._current_stream() if stream is None else stream)

    def _record(self, stream):
        """An event stays on the device of its first record: `torch/include/c10/cuda/CUDAEvent.h`, `record`, lines 136 to 142.

        `torch/csrc/cuda/Event.cpp` refuses what is not a stream (2.14).
        """
        if not isinstance(stream, SimulatedStream):
            raise RuntimeError("expected stream to be a torch.Stream or torch.cuda.Stream object")
        queue = stream._queue
        self._gpu._runtime()
        self._gpu._needs_context(queue.device_index)
        if self._device_index is None:
            self._device_index = queue.device_index
        if self._device_index != queue.device_index:
            raise RuntimeError(
                f"Event device {self._device_index} does not match recording stream's device {queue.device_index}."
            )
        _refuse_invalidated(queue)
        self._capture = queue.capture
        self._at_ns = self._gpu._end_of(queue)

    def query(self):
        """Whether it is complete; True before the first `record`: `torch/include/c10/cuda/CUDAEvent.h`, `query`, lines 103 to 119."""
        self._gpu._called("Event.query")
        return self._query()

    def _query(self):
        """Refuses an event of a capture, in every mode, also after the capture: Runtime API, Stream Management,
        `cudaThreadExchangeStreamCaptureMode`, "attempting cudaEventQuery on an event that was last recorded inside a capture
        sequence". That is an invalid operation, which invalidates the capture: Guide, CUDA Graphs, Invalidation.

        Seen on an H100 (PyTorch 2.11, CUDA 13.0, driver 580): after the capture the error is "invalid argument", and in a forked child
        an event that was complete is still complete. That one which was not has no answer there is an assumption.
        """
        if self._device_index is None:
            return True
        is_complete = self._at_ns <= self._gpu._now_ns()
        if self._gpu._is_in_bad_fork() and self._capture is None and is_complete:
            return True
        self._gpu._runtime()
        if self._capture is not None:
            if self._capture.is_over:
                raise cuda_error(INVALID_VALUE)
            self._capture.is_valid = False
            raise cuda_error(CAPTURED_EVENT)
        self._gpu._refuse_unsafe()
        return is_complete

    def elapsed_time(self, end_event):
        """Milliseconds. The order of the errors is that of `torch/include/c10/cuda/CUDAEvent.h`, `elapsed_time`, lines 195 to 215.

        Two events of different devices are refused: Guide, Multi-Device System, Stream and Event Behavior. That the error is "invalid
        resource handle" is an assumption, and so is that a forked child gets no time. `torch/csrc/cuda/Event.cpp` refuses what is not
        an event (2.14).
        """
        self._gpu._called("Event.elapsed_time")
        if not isinstance(end_event, SimulatedEvent):
            raise RuntimeError("expected other to be a torch.cuda.Event object")
        if not (self._has_timing and end_event._has_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._device_index is None or end_event._device_index is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self._query() and end_event._query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        self._gpu._runtime()
        if self._device_index != end_event._device_index:
            raise cuda_error(INVALID_HANDLE)
        return (end_event._at_ns - self._at_ns) / 1e6

    def wait(self, stream=None):
        self._gpu._called("Event.wait")
        self._block((self._gpu._current_stream() if stream is None else stream)._queue)

    def _block(self, queue):
        """Later work of the stream begins after the event: Runtime API, Stream Management, `cudaStreamWaitEvent`."""
        self._gpu._runtime()
        queue.busy_until_ns = max(queue.busy_until_ns, self._at_ns)

    def synchronize(self):
        """Returns at once before the first `record`: `torch/include/c10/cuda/CUDAEvent.h`, `synchronize`."""
        self._gpu._called("Event.synchronize")
        if self._device_index is not None:
            self._gpu._wait_until(self._at_ns)


def _refuse_invalidated(queue):
    """Guide, CUDA Graphs, Invalidation: "further use of any streams which are being captured […] will return an error"."""
    if queue.capture is not None and not queue.capture.is_valid:
        raise cuda_error(INVALIDATED)


class AsynchronousDevice:
    """GPUs on which time stands still until a test calls `run` or `finish`; with `real_time`, it passes by itself.

    Attributes:
        calls: Every call on the device that was made, in order, also those that were refused.
        violations: Why calls raised AssertionError, which torchspan's guards would catch. A fixture asserts that there are none.
        forbid_synchronizing: Whether calls of SYNCHRONIZING raise AssertionError.
        error: The text of a CUDA error that every call of the runtime raises from now on, such as ILLEGAL_ADDRESS. Such errors stay:
            Runtime API, Data types, `cudaErrorIllegalAddress`, "any further CUDA work will return the same error".
        is_initialized: Whether the program has initialized CUDA. A call that would do so raises AssertionError.
        contexts: Devices that have a CUDA context. A call that would make one raises AssertionError, except for the program's own
            `launch`, `set_device` and `Stream`.
        memory: Device -> bytes that are free, and all.
    """

    def __init__(self, devices=1, *, real_time=False):
        self.calls = []
        self.violations = []
        self.forbid_synchronizing = False
        self.error = None
        self.is_initialized = True
        self.contexts = {0}
        self.memory = dict.fromkeys(range(devices), (20 << 30, 24 << 30))
        self.Event = type("Event", (SimulatedEvent,), {"_gpu": self})
        self.Stream = type("Stream", (SimulatedStream,), {"_gpu": self})
        self._real_time = real_time
        self._simulated_ns = 0
        self._last_ns = math.inf
        self._ends_ns = []
        self._captures = []
        self._defaults = [_Queue(index, 0) for index in range(devices)]
        self._handles = iter(range(1, sys.maxsize))
        self._of_thread = _OfThread()
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def install(self, monkeypatch):
        """Put it behind `torch.cuda` for the length of a test."""
        functions = {
            "Event": self.Event,
            "Stream": self.Stream,
            "current_device": self.current_device,
            "current_stream": self.current_stream,
            "default_stream": self.default_stream,
            "device_count": lambda: len(self._defaults),
            "is_available": lambda: True,
            "is_current_stream_capturing": self.is_current_stream_capturing,
            "is_initialized": self.has_been_initialized,
            "mem_get_info": self.mem_get_info,
            "set_device": self.set_device,
            "stream": self.on,
            "synchronize": self.synchronize,
        }
        for name, function in functions.items():
            monkeypatch.setattr(torch.cuda, name, function)
        monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", self.has_primary_context)

    # --- what a test does ----------------------------------------------------------------------------------------------
    def launch(self, seconds, stream=None):
        """Queue work that takes this long on the device, on the current stream unless one is named. Captured work is not done."""
        queue = (self._current_stream() if stream is None else stream)._queue
        self._runtime()
        _refuse_invalidated(queue)
        self.contexts.add(queue.device_index)
        if queue.capture is None:
            end_ns = self._end_of(queue, round(seconds * 1e9))
            with self._lock:
                self._ends_ns.append(end_ns)

    def run(self, seconds):
        """Let time pass on the device."""
        self._advance_to(self._now_ns() + round(seconds * 1e9))

    def finish(self, pieces=None):
        """Let time pass until so many more pieces of the work that is queued now are done, in the order of their ends; None: all."""
        ends_ns = sorted(end_ns for end_ns in self._ends_ns if self._now_ns() < end_ns < math.inf)
        if ends_ns:
            self._advance_to(ends_ns[-1] if pieces is None else ends_ns[pieces - 1])

    @property
    def is_dead(self):
        """Whether the device stands still. What was queued on a dead device is never done."""
        return self._last_ns < math.inf

    @is_dead.setter
    def is_dead(self, is_dead):
        self._last_ns = self._now_ns() if is_dead else math.inf

    @contextlib.contextmanager
    def on(self, stream):
        """`torch.cuda.stream(s)`: also makes the stream's device current; None leaves all as it is.

        `torch/cuda/__init__.py`, `StreamContext`; the device is set by `torch/csrc/cuda/Module.cpp`, `THCPModule_setStream_wrap`.
        """
        if stream is None:
            yield
            return
        of_thread = self._of_thread
        before = of_thread.device_index, dict(of_thread.streams)
        of_thread.device_index = stream.device_index
        of_thread.streams[stream.device_index] = stream._queue
        try:
            yield
        finally:
            of_thread.device_index, of_thread.streams = before

    @contextlib.contextmanager
    def capturing(self, stream, mode=GLOBAL):
        """`torch.cuda.graph(graph, stream=stream, capture_error_mode=…)`: the stream is current, and its work is captured.

        The default stream is refused: `aten/src/ATen/cuda/CUDAGraph.cpp`, `capture_begin`. A capture that a call has invalidated
        raises at its end: Guide, CUDA Graphs, Invalidation.
        """
        if stream.cuda_stream == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. "
                "(However, after capture, it's ok to replay them on the default stream.)"
            )
        capture = Capture(threading.get_ident(), mode)
        with self.on(stream):
            stream._queue.capture = capture
            self._captures.append(capture)
            try:
                yield
            finally:
                self._captures.remove(capture)
                capture.is_over = True
                stream._queue.capture = None
        if not capture.is_valid:
            raise cuda_error(INVALIDATED)

    def exchange_capture_mode(self, mode):
        """Set the mode of this thread and return the one before. Runtime API, Stream Management, `cudaThreadExchangeStreamCaptureMode`."""
        before, self._of_thread.mode = self._of_thread.mode, mode
        return before

    def set_thread_local_capture(self):
        """Stands in for torchspan's call of the driver: THREAD_LOCAL for this thread. True: it was set."""
        self._called("set_thread_local_capture")
        self.exchange_capture_mode(THREAD_LOCAL)
        return True

    def synchronizing_calls(self):
        """The calls so far that are in SYNCHRONIZING."""
        return [call for call in self.calls if call.name in SYNCHRONIZING]

    # --- what torch.cuda has --------------------------------------------------------------------------------------------
    def has_been_initialized(self):
        """False in a forked child: `torch/cuda/__init__.py`, `is_initialized`."""
        self._called("is_initialized")
        return self.is_initialized and not self._is_in_bad_fork()

    def current_device(self):
        """`torch/cuda/__init__.py`, `current_device`, begins with `_lazy_init`."""
        self._called("current_device")
        self._lazy_init()
        return self._of_thread.device_index

    def set_device(self, device):
        """Of this thread alone; CUDA 12 makes a context: Runtime API, Device Management, `cudaSetDevice`."""
        self._called("set_device")
        self._lazy_init()
        self._of_thread.device_index = self._index(device)
        self.contexts.add(self._of_thread.device_index)

    def current_stream(self, device=None):
        """A new object at each call: `torch/cuda/__init__.py`, `current_stream`, which begins with `_lazy_init`."""
        self._called("current_stream")
        return self._current_stream(device)

    def default_stream(self, device=None):
        self._called("default_stream")
        self._lazy_init()
        return self.Stream(_queue=self._defaults[self._index(device)])

    def is_current_stream_capturing(self):
        """False without a context, also for a capture that was invalidated still True, and no initialization.

        `torch/csrc/cuda/Module.cpp`, `THCPModule_isCurrentStreamCapturing_wrap`, and `torch/include/ATen/cuda/CUDAGraphsUtils.cuh`,
        `currentStreamCaptureStatus`. It asks the runtime for the device first, which fails in a forked child.
        """
        self._called("is_current_stream_capturing")
        self._runtime()
        return self._current_queue().capture is not None

    def mem_get_info(self, device=None):
        """`torch/cuda/memory.py`, `mem_get_info`: `cudart` begins with `_lazy_init`, and `cudaMemGetInfo` needs a context."""
        self._called("mem_get_info")
        self._lazy_init()
        self._runtime()
        index = self._index(device)
        self._needs_context(index)
        return self.memory[index]

    def synchronize(self, device=None):
        """`torch/cuda/__init__.py`, `synchronize`: waits for all streams. Those of other devices are waited for here, too."""
        self._called("synchronize")
        self._lazy_init()
        del device
        self._wait_until(max(self._ends_ns, default=0))

    def has_primary_context(self, device_index):
        """`aten/src/ATen/cuda/detail/CUDAHooks.cpp`, `_hasPrimaryContext`: it asks the driver, which fails in a forked child."""
        self._called("hasPrimaryContext")
        if not 0 <= device_index < len(self._defaults):
            raise RuntimeError(f"hasPrimaryContext expects a valid device index, but got device_index={device_index}")
        if self._is_in_bad_fork():
            raise RuntimeError(f"CUDA driver error: {INITIALIZATION}")
        return self.is_initialized and device_index in self.contexts

    # --- rules ----------------------------------------------------------------------------------------------------------
    def _called(self, name):
        module = sys._getframe(2).f_globals["__name__"]
        self.calls.append(Call(name, threading.current_thread().name, module))
        if self.forbid_synchronizing and name in SYNCHRONIZING:
            self._refuse(f"{name} synchronizes, and {module} called it")

    def _refuse(self, text):
        self.violations.append(text)
        raise AssertionError(text)

    def _is_in_bad_fork(self):
        """`torch/csrc/cuda/Module.cpp`, `THCPModule_isInBadFork`: CUDA was initialized before the fork."""
        return self.is_initialized and os.getpid() != self._pid

    def _lazy_init(self):
        """What would initialize CUDA. `torch/cuda/__init__.py`, `_lazy_init`, lines 578 to 582."""
        if self._is_in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                "multiprocessing, you must use the 'spawn' start method"
            )
        if not self.is_initialized:
            self._refuse("this call would initialize CUDA, which the program has not")

    def _runtime(self):
        """What every call of the CUDA runtime may raise. It has no context of the parent in a forked child: Runtime API, Data types,
        `cudaErrorInitializationError`.
        """
        if self._is_in_bad_fork():
            raise cuda_error(INITIALIZATION)
        if self.error is not None:
            raise cuda_error(self.error)

    def _needs_context(self, index):
        if index not in self.contexts:
            self._refuse(f"this call would make a context on device {index}, which has none")

    def _refuse_unsafe(self):
        """Queries are unsafe calls: they crash captures that other threads began (github.com/pytorch/pytorch, pulls 104555 and 105182).

        Which threads may make them: Runtime API, Stream Management, `cudaThreadExchangeStreamCaptureMode`. An unsafe call invalidates
        the captures that forbid it: Guide, CUDA Graphs, Invalidation.
        """
        forbidding = [capture for capture in self._captures if self._forbids(capture)]
        for capture in forbidding:
            capture.is_valid = False
        if forbidding:
            raise cuda_error(UNSAFE)

    def _forbids(self, capture):
        mode = self._of_thread.mode
        if capture.thread == threading.get_ident():
            return RELAXED not in {mode, capture.mode}
        return mode == capture.mode == GLOBAL

    def _index(self, device):
        if device is None:
            return self._of_thread.device_index
        if isinstance(device, int):
            return device
        index = torch.device(device).index
        return self._of_thread.device_index if index is None else index

    def _new_queue(self, device):
        self._called("Stream")
        self._lazy_init()
        self.contexts.add(self._index(device))
        return _Queue(self._index(device), next(self._handles))

    def _current_queue(self, device=None):
        index = self._index(device)
        return self._of_thread.streams.get(index, self._defaults[index])

    def _current_stream(self, device=None):
        self._lazy_init()
        return self.Stream(_queue=self._current_queue(device))

    # --- time -----------------------------------------------------------------------------------------------------------
    def _now_ns(self):
        return min(time.perf_counter_ns() if self._real_time else self._simulated_ns, self._last_ns)

    def _end_of(self, queue, duration_ns=0):
        """When work that is queued now ends: a stream does one piece after the other. Guide, Asynchronous Concurrent Execution, Streams."""
        with self._lock:
            start_ns = math.inf if self.is_dead else max(self._now_ns(), queue.busy_until_ns)
            if duration_ns:
                queue.busy_until_ns = start_ns + duration_ns
            return start_ns + duration_ns

    def _advance_to(self, end_ns):
        if self._real_time:
            time.sleep(max(0, end_ns - time.perf_counter_ns()) / 1e9)
        else:
            self._simulated_ns = max(self._simulated_ns, end_ns)

    def _wait_until(self, end_ns):
        self._runtime()
        self._refuse_unsafe()
        if end_ns > self._now_ns() and (self.is_dead or end_ns == math.inf):
            self._refuse("this call would never return")
        self._advance_to(end_ns)
