# SPDX-License-Identifier: Apache-2.0
"""Where we hook, as data: one row a place, with its reason, its versions and what describes it."""

from torchspan.probes import tensorrt, torch_tensorrt
from torchspan.probes._call import RAISED, Call, signature_of
from torchspan.probes._probe import SUPPORTED, Action, Probe, parse_version

PROBES: tuple[Probe, ...] = torch_tensorrt.PROBES + tensorrt.PROBES
"""Every row."""

__all__ = ["PROBES", "RAISED", "SUPPORTED", "Action", "Call", "Probe", "parse_version", "signature_of"]
