# SPDX-License-Identifier: Apache-2.0
"""Attributes about PyTorch: its version, torch.compile and torch.export."""

from __future__ import annotations

from torchspan import phase
from torchspan.semconv._table import Attribute

TORCH_VERSION = Attribute("torch.version", "string", "Version of PyTorch.", *phase.ENTRIES, at_start=True)
COMPILE_ID = Attribute(
    "torch.compile.id", "string", "Dynamo's compile id, `frame/recompile`.", phase.COMPILE, at_start=True
)
STRICT = Attribute(
    "torch.export.strict", "boolean", "Strict mode of torch.export.", phase.TRACE, phase.EXPORT, at_start=True
)
RANGE_CONSTRAINTS = Attribute(
    "torch.export.range_constraints",
    "string[]",
    "Dynamic dimensions with their ranges, `s77: [1, 8]`.",
    phase.TRACE,
    phase.EXPORT,
)
