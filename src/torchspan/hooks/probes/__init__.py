# SPDX-License-Identifier: Apache-2.0
"""Where torchspan hooks, as data: one row for each place, with its reason, its versions and what is done there."""

from torchspan.hooks.probes import dynamo, export, tensorrt, torch_tensorrt
from torchspan.hooks.probes._actions import (
    GIVES,
    NAMES,
    Action,
    Annotate,
    Arguments,
    Record,
    Runs,
    Shares,
    Step,
    Tally,
    Tap,
    phases_of,
)
from torchspan.hooks.probes._call import RAISED, Call, Signature, signature_of
from torchspan.hooks.probes._probe import (
    SUPPORTED,
    CustomOperator,
    Function,
    InnerName,
    Lock,
    Method,
    Probe,
    Target,
    parse_version,
)

PROBES: tuple[Probe, ...] = dynamo.PROBES + dynamo.WORKERS + torch_tensorrt.PROBES + export.PROBES + tensorrt.PROBES
"""Every probe."""

__all__ = [
    "GIVES",
    "NAMES",
    "PROBES",
    "RAISED",
    "SUPPORTED",
    "Action",
    "Annotate",
    "Arguments",
    "Call",
    "CustomOperator",
    "Function",
    "InnerName",
    "Lock",
    "Method",
    "Probe",
    "Record",
    "Runs",
    "Shares",
    "Signature",
    "Step",
    "Tally",
    "Tap",
    "Target",
    "parse_version",
    "phases_of",
    "signature_of",
]
