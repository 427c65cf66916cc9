# SPDX-License-Identifier: Apache-2.0
"""`run`'s own tracer provider, for spans of a program that sets none. Imports the SDK."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import PurePath
from types import ModuleType
from typing import Any, cast

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk import trace as sdk_trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags

from torchspan.hooks.propagation.own_spans import OwnSpan, RunSpanContext
from torchspan.start.launched import configured
from torchspan.start.launched.run_settings import RunSettings, parse_traceparent
from torchspan.words.sampling.ids import IDS

with contextlib.suppress(RuntimeError):  # which it raises once the main thread has ended
    import concurrent.futures.thread  # noqa: F401 - the SDK does so at its first resource, when no fork waits for it

_KEEPS_ALL = {"", "always_on", "parentbased_always_on"}
"""Samplers for which a parent changes no decision."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The form of a name of a script, a module or an interpreter that may become a `service.name`."""


def own_provider(processors: Sequence[SpanProcessor]) -> TracerProvider:
    """A provider as the program's own variables describe it: resource, sampler, limits, id generator.

    Args:
        processors: Receive its spans. The provider is not shut down at exit.
    """
    provider = TracerProvider(
        sampler=configured.sampler(),
        resource=resource(),
        id_generator=configured.id_generator() or cast("IdGenerator", IDS),
        shutdown_on_exit=False,
    )
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def own_meters(readers: Sequence[MetricReader]) -> MeterProvider:
    """A meter provider with these readers and the resource of `own_provider`. It is not shut down at exit."""
    return MeterProvider(readers, resource(), shutdown_on_exit=False)


def resource() -> Resource:
    """The resource that the program's variables describe, with the name of its script or module as `service.name`."""
    resource = configured.resource()
    if str(resource.attributes.get(SERVICE_NAME) or "unknown_service").startswith("unknown_service"):
        return resource.merge(Resource({SERVICE_NAME: service_name()}))
    return resource


def service_name() -> str:
    """`train.py` for `python train.py` and torchrun's workers, `app.main` for `python -m app.main`, otherwise `python`.

    It is the whole name of a script (or of a folder or archive that is run), of a module, or of the interpreter: ASCII
    letters, digits, `_`, `.` and `-`, at most 64. A name with anything else is left out as a whole.
    Nothing is read from a command line, and no code of the program runs.
    """
    return _module_name() or _plain(_script()) or _plain(PurePath(sys.executable or "").name) or "python"


def _module_name() -> str:
    """The module of `python -m`; empty if none was run, or if its name is not plain."""
    spec = _of_main("__spec__")
    name = spec.name if type(spec) is ModuleSpec else ""
    if type(name) is not str or name == "__main__":
        return ""
    name = name.removesuffix(".__main__")
    return _plain(name) if all(map(str.isidentifier, name.split("."))) else ""


def _script() -> str:
    """The last part of the script's path, or of the folder or archive whose `__main__.py` runs; empty without one."""
    file = _of_main("__file__")
    path = PurePath(file if type(file) is str else "")
    return path.parent.name if path.name == "__main__.py" and path.parent.name else path.name


def _of_main(name: str) -> object:
    """The entry `name` of the program's main module. The program may have put anything there, or in place of the module."""
    main = sys.modules.get("__main__")
    return main.__dict__.get(name) if type(main) is ModuleType else None


def _plain(name: str) -> str:
    """The name, or an empty text if it is not plain as a whole."""
    return name if _PLAIN_NAME.fullmatch(name) else ""


class StartParent:
    """The span in which this process was started: the parent of roots, until the process begins to serve requests.

    A request is a separate trace, and the work of a server between requests does not belong to its start. If a sampler
    decides by trace id, roots keep their own traces, because in one trace all would be sampled or none.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._span = _remote(settings.span)
        self.trace_id = None if self._span is None else self._span.trace_id
        """The trace of that span."""
        caller = parse_traceparent(os.environ.get("TRACEPARENT"))
        is_callers = caller is not None and self._span is not None and caller[0] == self._span.trace_id
        if os.environ.get("OTEL_TRACES_SAMPLER", "").strip() not in _KEEPS_ALL and not is_callers:
            self._span = None

    def context(self, context: Context | None, kind: SpanKind) -> Context | None:
        """The context for a span of this kind that is to be started in `context`."""
        if self._span is None:
            return context
        if kind is SpanKind.SERVER:
            self._span = None
            return context
        if kind is SpanKind.CONSUMER or trace.get_current_span(context).get_span_context().is_valid:
            return context
        return trace.set_span_in_context(NonRecordingSpan(self._span), context)


def _remote(traceparent: str) -> SpanContext | None:
    """The span that a W3C traceparent names, as one of another process; None for an invalid one."""
    ids = parse_traceparent(traceparent)
    return None if ids is None else SpanContext(ids[0], ids[1], is_remote=True, trace_flags=TraceFlags(ids[2]))


class RunTracer(trace.Tracer):
    """A tracer of `run`'s own provider. Its spans are `RunSpan`s.

    Args:
        tracer: The provider's.
        start_parent: The parent of roots.
    """

    def __init__(self, tracer: trace.Tracer, start_parent: StartParent) -> None:
        self._tracer = tracer
        self._start_parent = start_parent
        self.sampler = getattr(tracer, "sampler", None)
        self.id_generator = getattr(tracer, "id_generator", None)

    def start_span(
        self, name: str, context: Context | None = None, kind: SpanKind = SpanKind.INTERNAL, *args: Any, **kwargs: Any
    ) -> Span:
        """See `opentelemetry.trace.Tracer.start_span`."""
        context = self._start_parent.context(context, kind)
        span = self._tracer.start_span(name, context, kind, *args, **kwargs)
        if isinstance(span, OwnSpan):  # the API returns the span around it where tracing is suppressed
            return span
        parent, ids = trace.get_current_span(context).get_span_context(), span.get_span_context()
        if isinstance(parent, RunSpanContext) and parent.is_valid:
            return OwnSpan(span, parent.local_root)
        return OwnSpan(span, ids.span_id if ids.trace_id == self._start_parent.trace_id else None)

    # It calls `start_span`, the one above.
    start_as_current_span = sdk_trace.Tracer.start_as_current_span


class OwnTracers:
    """The tracers of `run`'s own provider."""

    def __init__(self, settings: RunSettings, provider: TracerProvider) -> None:
        self.provider = provider
        self._start_parent = StartParent(settings)

    def get(self, name: str, version: str | None, schema_url: str | None, attributes: Any) -> trace.Tracer:
        """See `opentelemetry.trace.TracerProvider.get_tracer`."""
        return RunTracer(self.provider.get_tracer(name, version, schema_url, attributes), self._start_parent)
