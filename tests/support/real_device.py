# SPDX-License-Identifier: Apache-2.0
"""A real GPU with the methods of `AsynchronousDevice` that it can have, so that it is asked for what the simulation answers.

Captures are begun and ended through the driver: PyTorch's allocator does not survive a capture that was invalidated.
"""

import contextlib
import ctypes

import torch

from support.asynchronous_device import ERRORS, GLOBAL, THREAD_LOCAL, cuda_error

_SLOWEST_HZ = 1_000_000_000
"""Cycles in a second of work, which a faster GPU does in less."""


class RealDevice:
    """The GPU behind `torch.cuda`. violations: empty, as that of the simulation should be."""

    violations = ()

    def __init__(self):
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self._driver = ctypes.CDLL("libcuda.so.1")

    def launch(self, seconds):
        """Queue work on the current stream that takes about this long."""
        torch.cuda._sleep(round(seconds * _SLOWEST_HZ))

    def finish(self):
        """Wait for all work."""
        torch.cuda.synchronize()

    @contextlib.contextmanager
    def capturing(self, stream, mode=GLOBAL):
        """The stream is current, and its work is captured; what ends the capture raises as PyTorch does for the same error."""
        handle, graph = ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p()
        with torch.cuda.stream(stream):
            _check(self._driver.cuStreamBeginCapture_v2(handle, mode))
            try:
                yield
            finally:
                code = self._driver.cuStreamEndCapture(handle, ctypes.byref(graph))
                if graph:
                    self._driver.cuGraphDestroy(graph)
        _check(code)

    def exchange_capture_mode(self, mode):
        """Set the mode of this thread and return the one before."""
        before = ctypes.c_int(mode)
        _check(self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(before)))
        return before.value

    def set_thread_local_capture(self):
        self.exchange_capture_mode(THREAD_LOCAL)
        return True


def _check(code):
    """The driver's numbers of these errors are those of the runtime."""
    if code:
        raise cuda_error(
            {number: text for text, (number, _) in ERRORS.items()}.get(code, f"error {code} of the driver")
        )
