# SPDX-License-Identifier: Apache-2.0
"""What torchspan calls in CUDA's driver itself, because PyTorch has no Python function for it."""

from __future__ import annotations

import os

_THREAD_LOCAL = 1
"""`CU_STREAM_CAPTURE_MODE_THREAD_LOCAL` (CUDA Driver API, `CUstreamCaptureMode`)."""


def set_thread_local_capture() -> bool:
    """Have captures of CUDA graphs by other threads ignore what this thread calls. Returns whether that worked.

    While a thread captures in the mode `global`, which is PyTorch's default, `cudaEventQuery` in any other thread fails and
    makes the capture invalid (CUDA Driver API, `cuThreadExchangeStreamCaptureMode`). PyTorch's watchdog for NCCL sets the same mode
    for the same reason (`torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp`, `CUDAStreamCaptureModeGuard`). The library is loaded
    already where a program has initialized CUDA.
    """
    import ctypes  # 2 ms, and a program without a GPU never comes here

    mode = ctypes.c_int(_THREAD_LOCAL)
    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        return int(driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))) == 0
    except (OSError, AttributeError):
        return False
