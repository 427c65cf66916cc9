# SPDX-License-Identifier: Apache-2.0
"""Every use that torchspan's part in `torchspan run` makes of private names of OpenTelemetry's API.

Without `on_provider`, the file is added to the program's provider when torchspan uses it next. Without `lend_tracers`, spans of a
program that sets no provider are not recorded, and the report says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace import ProxyTracer, Tracer, TracerProvider

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

_TRACER = "_tracer"
_CACHED = "_torchspan_tracer"


def tracer_provider() -> TracerProvider | None:
    """The global tracer provider that the program has set; None before."""
    return trace._TRACER_PROVIDER


def meter_provider() -> MeterProvider | None:
    """The global meter provider that the program has set; None before."""
    from opentelemetry import metrics

    provider = metrics.get_meter_provider()
    return None if type(provider).__module__.startswith("opentelemetry.metrics") else provider


def on_provider(provider_set: Callable[[TracerProvider], object]) -> None:
    """Call `provider_set` whenever the program has set the global tracer provider, on its thread, for the life of the process."""
    original = trace._set_tracer_provider

    def set_provider(provider: TracerProvider, *args: Any, **kwargs: Any) -> None:
        original(provider, *args, **kwargs)
        current = tracer_provider()
        if current is not None:
            provider_set(current)

    vars(trace)["_set_tracer_provider"] = set_provider


def lend_tracers(
    lend: Callable[[str, str | None, str | None, Any], Tracer | None], provider_seen: Callable[[TracerProvider], object]
) -> None:
    """While no provider is set, tracers that were obtained from the API use those of `lend`. Holds for the life of the process.

    Raises AttributeError if the API has no such tracers.

    Args:
        lend: Takes the arguments of `get_tracer`. Called once for each tracer, and again while it returns None.
        provider_seen: Called with the global provider when such a tracer is used after one was set.
    """
    original: object = vars(ProxyTracer).get(_TRACER)
    if not isinstance(original, property) or original.fget is None:
        raise AttributeError("opentelemetry.trace.ProxyTracer has no property _tracer")
    programs = original.fget

    def tracer(self: Any) -> Any:
        provider = trace._TRACER_PROVIDER
        if provider is not None:
            provider_seen(provider)
            return programs(self)
        # Kept next to the API's own attribute, whose value would stay when the program sets its provider.
        lent = vars(self).get(_CACHED)
        if lent is None and self._real_tracer is None:
            lent = lend(
                self._instrumenting_module_name,
                self._instrumenting_library_version,
                self._schema_url,
                getattr(self, "_attributes", None),
            )
            vars(self)[_CACHED] = lent
        return lent or programs(self)

    setattr(ProxyTracer, _TRACER, property(tracer))


def give_exporters_own_random() -> None:
    """Have OpenTelemetry's exporters draw the pauses between attempts from a generator of their own: the global one is the program's.

    They keep it until the process ends, because an attempt may outlast everything else.
    """
    import random

    own = random.Random()  # noqa: S311 - no secret
    for name, module in list(sys.modules.items()):
        if name.startswith("opentelemetry.exporter.") and getattr(module, "random", None) is random:
            vars(module)["random"] = own
