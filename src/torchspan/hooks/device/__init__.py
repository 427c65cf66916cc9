# SPDX-License-Identifier: Apache-2.0
"""Time on the device: CUDA events around runs, and TensorRT's layer times."""

# `torchspan.layers` is in `_requests`, whose import sets the bridge to work: the bridge imports this.

from torchspan.hooks.device._cuda_events import DeviceTimes
from torchspan.hooks.device._driver import set_thread_local_capture
from torchspan.hooks.device._layers import LayerTimes

__all__ = ["DeviceTimes", "LayerTimes", "set_thread_local_capture"]
