# SPDX-License-Identifier: Apache-2.0
"""The context as text, under the names of environment variables (TRACEPARENT, TRACESTATE, BAGGAGE).

The names follow OpenTelemetry's specification "Environment variables as context propagation carriers": those of the
propagators that are set, in capitals, everything else than letters and digits an underscore.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter

from torchspan._run.spans import UnrecordedRunSpan, is_owned, owned

BAGGAGE = "BAGGAGE"

OWNED = "TORCHSPAN_OWNED"
"""Beside the span's ids: it belongs to `run`'s own provider, which is nothing to one that the other side sets."""


def pack(context: Context) -> dict[str, str]:
    """What the propagators that are set make of `context`; empty when there is nothing to tell."""
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier, context, setter=_VariableSetter())
    if carrier and is_owned(trace.get_current_span(context).get_span_context()):
        carrier[OWNED] = "1"
    return carrier


def unpack(variables: Mapping[str, str]) -> Context:
    """The context that `variables` describe; empty if they describe none."""
    from opentelemetry import propagate

    context = propagate.extract(variables, Context(), getter=_VariableGetter())
    if OWNED in variables:
        span = UnrecordedRunSpan(owned(trace.get_current_span(context).get_span_context()))
        context = trace.set_span_in_context(span, context)
    return context


def fields() -> frozenset[str]:
    """The variables that the propagators that are set may write."""
    from opentelemetry import propagate

    return frozenset(_variable(field) for field in propagate.get_global_textmap().fields)


def _variable(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]", "_", key).upper()
    return f"_{name}" if name[:1].isdigit() else name


class _VariableSetter(Setter[MutableMapping[str, str]]):
    def set(self, carrier: MutableMapping[str, str], key: str, value: str) -> None:
        carrier[_variable(key)] = value


class _VariableGetter(Getter[Mapping[str, str]]):
    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        value = carrier.get(_variable(key))
        return None if value is None else [value]

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)
