# SPDX-License-Identifier: Apache-2.0
"""Detects spans of the program that have the ids of an earlier span."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from opentelemetry.trace import Span

from torchspan._base.logs import Log

REMEMBERED = 4096
"""Number of spans whose ids are compared. The oldest is forgotten."""

logger = Log("torchspan")


class RepeatedIds:
    """Compares the ids of the program's spans around torchspan's, and warns once if two are the same.

    The SDK's id generator uses Python's global random generator. If the program seeds that one repeatedly, or Dynamo restores its
    state after a compilation, two spans get the same ids.
    """

    def __init__(self) -> None:
        self._starts_ns: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._has_warned = False

    def see(self, span: Span, provider: Any) -> None:
        """Check a recording span of the program that is current. provider: the tracer provider in use."""
        start_ns = getattr(span, "start_time", None)
        if self._has_warned or not isinstance(start_ns, int):
            return
        if type(getattr(provider, "id_generator", None)).__name__ != "RandomIdGenerator":
            return
        context = span.get_span_context()
        if self._starts_ns.setdefault((context.trace_id, context.span_id), start_ns) != start_ns:
            self._has_warned = True
            logger.warning(
                "Two spans of this program have the same trace id and span id: its tracer provider draws ids from Python's "
                "global random generator, which the program seeds, or Dynamo restores after compiling. Backends mix up such "
                "spans. %s",
                _remedy(provider),
            )
        elif len(self._starts_ns) > REMEMBERED:
            self._starts_ns.popitem(last=False)


def _remedy(provider: Any) -> str:
    # Added by the configurator, the only reader of the variable.
    if "telemetry.auto.version" in getattr(getattr(provider, "resource", None), "attributes", ()):
        return "Set OTEL_PYTHON_ID_GENERATOR=torchspan."
    return "Make the provider with TracerProvider(id_generator=torchspan.sdk.TorchspanIdGenerator())."
