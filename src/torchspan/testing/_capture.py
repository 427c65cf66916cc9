# SPDX-License-Identifier: Apache-2.0
"""`capture()`: the spans of a block of a program, for its tests."""

from __future__ import annotations

import contextlib
import io
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from torchspan.output import withheld
from torchspan.reading.answers import Report
from torchspan.reading.traces import Trace, read

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from typing_extensions import Unpack

    from torchspan.words.settings.arguments import InstrumentSettings


_Ended: TypeAlias = "tuple[ReadableSpan, Mapping[str, Any], Sequence[withheld.WithheldEvent]]"
"""A span that has ended, with the whole texts that belong to it, and its events that are log records."""


class CapturedTrace(Report):
    """The spans that ended in a `capture()` block. While the block runs, those that have ended so far.

    They are the objects that `torchspan.traces.read` makes of a file: `trace.one(name)`, `trace.find(name)`,
    `trace.below(span)`, `trace.self_time(span)`, `trace.outline()` and `trace.traces`. `span.texts` has the whole texts of messages
    and guards, which the `repr` of a span leaves out. `trace.answers` is what the spans say, as data; `print(trace)`, and a notebook,
    show the answers and the waterfalls, without whole texts.
    """

    _WHERE_OTHERS_ARE = (
        " Spans from before the block, or before the test, are not included: compile inside the block, or use capture() in the "
        "fixture that compiles."
    )

    def __init__(self) -> None:
        self._ended: list[_Ended] = []
        self._traces: tuple[int, list[Trace]] = (0, [])

    def __repr__(self) -> str:
        return f"<CapturedTrace of {len(self._ended)} spans>"

    @property
    def traces(self) -> list[Trace]:
        """The spans as trees, one entry for each trace id, in the order of their start."""
        number, traces = self._traces
        ended = self._ended[:]
        if number != len(ended):
            from opentelemetry.sdk.trace import Event

            from torchspan.output.sdk._otlp_json import Encoder, lines

            encode = Encoder().encode
            encoded = [encode(span, texts, [Event(*fields) for fields in events]) for span, texts, events in ended]
            traces = read(io.BytesIO(lines(encoded))).traces
            self._traces = len(ended), traces
        return traces


@contextlib.contextmanager
def capture(
    *, tracer_provider: TracerProvider | None = None, **settings: Unpack[InstrumentSettings]
) -> Iterator[CapturedTrace]:
    """Capture the spans of a block.

        with capture() as trace:
            torch_tensorrt.compile(model, ir="dynamo", arg_inputs=[x])
        assert trace.one("torch_tensorrt.compile").attributes["torch_tensorrt.compile.outcome"] == "complete"

    If torchspan is not instrumented, it is instrumented for the length of the block. If it is, it stays instrumented, and the
    spans still go to its provider, as well as into the captured trace. Spans of the program are captured if they come from the
    same tracer provider. Blocks may be nested, and may run in several threads. Each captures the spans that end in the process
    while it runs.

    Args:
        tracer_provider: Which provider's spans are captured. Default: the one that torchspan is instrumented with, else the
            global one if it is of OpenTelemetry's SDK, else one that this block makes, which keeps every span.
        **settings: Arguments of `torchspan.instrument` for the block.

    Yields:
        The captured trace.

    Raises:
        TypeError: `tracer_provider` is not of OpenTelemetry's SDK, or a setting does not exist.
        torchspan.exceptions.ConfigurationError: A setting has an invalid value.
        RuntimeError: torchspan is instrumented already, with other settings or without a provider of the SDK; or
            OTEL_SDK_DISABLED is set, which leaves no spans to capture.
        torchspan.testing.TooLateError: `without_gpu` or TORCHSPAN_WITHOUT_GPU is set, and torch_tensorrt was imported before
            or CUDA is initialized.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        raise RuntimeError("There are no spans to capture: OTEL_SDK_DISABLED is set. Unset it for this test.")
    with _instrumented(tracer_provider, settings) as provider:
        trace, captures = CapturedTrace(), _captures_of(provider)
        captures.add(trace._ended)
        try:
            yield trace
        finally:
            captures.remove(trace._ended)


@contextlib.contextmanager
def _instrumented(wanted: Any, settings: InstrumentSettings) -> Iterator[Any]:
    """Inside, torchspan is instrumented. Yields the provider of its spans."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    from torchspan.start import instrumentor

    if wanted is not None and not isinstance(wanted, TracerProvider):
        raise TypeError(f"tracer_provider must be an opentelemetry.sdk.trace.TracerProvider, not {wanted!r}")
    in_use = instrumentor.tracer_provider()
    if in_use is not None:
        if settings:
            raise RuntimeError(
                f"torchspan is instrumented already, so capture() cannot set {', '.join(sorted(settings))}. Call "
                "torchspan.uninstrument() before the block, or give these settings to the first instrument()."
            )
        provider = wanted or in_use
        if not isinstance(provider, TracerProvider):
            raise RuntimeError(
                "torchspan is instrumented, but its tracer provider is not of OpenTelemetry's SDK, so no spans are made. Set a "
                "TracerProvider before instrument(), or call torchspan.uninstrument() before the block."
            )
        yield provider
        return
    source = wanted or trace.get_tracer_provider()
    own = None if isinstance(source, TracerProvider) else TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider = own or source
    instrumentor.instrument(tracer_provider=provider, **settings)
    try:
        yield provider
    finally:
        instrumentor.uninstrument()
        if own is not None:
            own.shutdown()


class _Captures:
    """A span processor that hands each span that ends to the captured traces of the moment."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._lists: tuple[list[_Ended], ...] = ()

    def add(self, spans: list[_Ended]) -> None:
        with self._lock:
            self._lists = (*self._lists, spans)

    def remove(self, spans: list[_Ended]) -> None:
        with self._lock:
            self._lists = tuple(list_ for list_ in self._lists if list_ is not spans)

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Nothing is done."""

    def _on_ending(self, span: Any) -> None:
        """Nothing is done."""

    def on_end(self, span: ReadableSpan) -> None:
        context = span.context
        lists = self._lists
        if context is None or not context.trace_flags.sampled or not lists:
            return
        kept_back = withheld.of(context.trace_id, context.span_id)
        ended: list[_Ended] = [(span, kept_back.texts, kept_back.events)]
        if kept_back.operators is not None:
            from torchspan.output.sdk._operator_spans import spans_with_texts

            kept_back.operators.is_read = True
            ended.extend((*pair, ()) for pair in spans_with_texts(kept_back.operators, span))
        for list_ in lists:
            list_.extend(ended)

    def shutdown(self) -> None:
        """Nothing is held."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        return True


_providers: weakref.WeakKeyDictionary[Any, _Captures] = weakref.WeakKeyDictionary()
_providers_lock = threading.RLock()


def _captures_of(provider: Any) -> _Captures:
    """The processor of a provider. It stays there, since the SDK takes none off."""
    with _providers_lock:
        captures = _providers.get(provider)
        if captures is None:
            captures = _providers[provider] = _Captures()
            provider.add_span_processor(captures)
        return captures
