# SPDX-License-Identifier: Apache-2.0
"""Torch-TensorRT's hook points, in the order of a compilation.

The main wheel and the RTX wheel have the same names. Rows without versions apply to every supported version.
"""

from torchspan.hooks.probes._probe import Probe
from torchspan.hooks.probes.torch_tensorrt import conversion, entry, lowering, partition, runtime

PROBES: tuple[Probe, ...] = entry.PROBES + lowering.PROBES + partition.PROBES + conversion.PROBES + runtime.PROBES
"""Every row."""

__all__ = ["PROBES"]
