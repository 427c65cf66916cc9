# SPDX-License-Identifier: Apache-2.0
"""Time on the device: CUDA events around runs, and TensorRT's layer times."""

from torchspan.device._driver import set_thread_local_capture
from torchspan.device._times import DeviceTimes

__all__ = ["DeviceTimes", "set_thread_local_capture"]
