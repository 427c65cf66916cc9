# SPDX-License-Identifier: Apache-2.0
"""The context as text, under the names of environment variables (TRACEPARENT, TRACESTATE, BAGGAGE).

The names follow OpenTelemetry's specification "Environment variables as context propagation carriers". They are those of the
propagators that are set, in capitals, with an underscore for everything except letters and digits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from torchspan.base import reading
from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.context.threads import within
from torchspan.base.patching import Function
from torchspan.base.reading import is_a
from torchspan.hooks.propagation._context import CurrentContext
from torchspan.hooks.propagation.own_spans import OwnSpan, is_owned

BAGGAGE = "BAGGAGE"

_EXTRACTING = ErrorBoundary("Reading the propagated context failed; the work continues, in traces of its own.")

OWNED = "TORCHSPAN_OWNED"
"""Set alongside the span's ids: the span belongs to `run`'s own provider, and a provider that the other side sets ignores it."""


VALUE_LIMIT = 8192
"""Bytes of the longest value that is propagated: the limit of W3C Baggage. The system limits the environment of a child."""

VALUES_LIMIT = 64
"""The most values that are propagated."""


def pack(context: Context) -> dict[str, str]:
    """The variables that the propagators make of `context`; empty if there is nothing to propagate.

    A propagator may be the program's. Values that cannot be a variable are left out: those that are not text, that contain a NUL
    character, that the system cannot encode, or that have more than `VALUE_LIMIT` bytes.
    """
    from opentelemetry import propagate

    written: dict[str, str] = {}
    propagate.inject(written, context)
    fitting = ((_variable(key), value) for key, value in written.items() if type(key) is str and key and _fits(value))
    carrier = dict(islice(fitting, VALUES_LIMIT))
    if carrier and is_owned(trace.get_current_span(context).get_span_context()):
        carrier[OWNED] = "1"
    return carrier


def unpack(variables: Mapping[str, str]) -> Context:
    """The context that `variables` describe; empty if they describe none, or if a propagator of the program returns none."""
    from opentelemetry import propagate

    context: Context | None = _EXTRACTING.attempt(propagate.extract, variables, Context(), _VariableGetter())
    if context is None or not is_a(context, Context):  # the program's propagator may return anything
        return Context()
    if OWNED in variables:
        context = trace.set_span_in_context(OwnSpan(trace.get_current_span(context)), context)
    return context


_HERE = CurrentContext()


def within_context(carrier: dict[str, str], function: Function, /, *args: Any, **kwargs: Any) -> Any:
    """Call the work item of a pool in the context of its submitter, never in that of the worker that happens to run it."""
    context = _HERE.attempt(unpack, carrier)
    return within([] if context is None else [(_HERE, context)], function, *args, **kwargs)


def fields() -> frozenset[str]:
    """The variables that the current propagators may write."""
    from opentelemetry import propagate

    fields = reading.entries(propagate.get_global_textmap().fields) or ()
    return frozenset(_variable(field) for field in fields if type(field) is str and field)


def _fits(value: Any) -> bool:
    """Whether it can be the value of a variable."""
    if type(value) is not str or len(value) > VALUE_LIMIT or "\0" in value:
        return False
    try:
        return len(os.fsencode(value)) <= VALUE_LIMIT
    except UnicodeEncodeError:
        return False


def _variable(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]", "_", key).upper()
    return f"_{name}" if name[:1].isdigit() else name


class _VariableGetter(Getter[Mapping[str, str]]):
    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        value = carrier.get(_variable(key))
        return None if value is None else [value]

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)
