# SPDX-License-Identifier: Apache-2.0
"""What adapters need of the rest of torchspan, as the bridge makes it, without a redactor and a current span."""

from torchspan.engine import LimitedCalls, RateLimits, RunSampling
from torchspan.hooks.adapters import Ports
from torchspan.output.writer import SpanParents


def make_ports(**changes):
    """changes: ports to use instead."""
    defaults = {
        "redact": lambda _text: "",
        "annotate_current": lambda _name, _emitted, _more: None,
        "parents": SpanParents(),
        "call_policy": LimitedCalls(RateLimits()),
        "sampling": RunSampling(RateLimits()),
    }
    return Ports(**{**defaults, **changes})
