# SPDX-License-Identifier: Apache-2.0
"""Spans of the program with ids that another of its spans had."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any

from opentelemetry.trace import Span

REMEMBERED = 4096
"""Spans whose ids are compared; the oldest is forgotten."""

logger = logging.getLogger("torchspan")


class RepeatedIds:
    """Compares the ids of the program's spans around torchspan's, and warns once if two are the same.

    The SDK's generator draws from Python's global one. A program that seeds it at each step, or a compilation by Dynamo, which
    restores its state, then gives the ids of one span to another.
    """

    def __init__(self) -> None:
        self._starts_ns: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._has_warned = False

    def see(self, span: Span, provider: Any) -> None:
        """A recording span of the program's is current. provider: the one that is written to."""
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
    # What the configurator adds, which alone reads the variable.
    if "telemetry.auto.version" in getattr(getattr(provider, "resource", None), "attributes", ()):
        return "Set OTEL_PYTHON_ID_GENERATOR=torchspan."
    return "Make the provider with TracerProvider(id_generator=torchspan.sdk.TorchspanIdGenerator())."
