# SPDX-License-Identifier: Apache-2.0
"""Records exceptions as events of spans, as log records, or as both.

OpenTelemetry's conventions deprecate the span event, and define the variable that selects the signal:
https://opentelemetry.io/docs/specs/semconv/exceptions/exceptions-logs/
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any, Protocol, cast

from opentelemetry.context import Context

from torchspan import semconv
from torchspan._base.boundaries import ErrorBoundary
from torchspan._base.logs import Log
from torchspan._base.reading import traceback_of
from torchspan._version import __version__
from torchspan.engine import Event, Occurrence
from torchspan.redaction import messages


# --- attributes of an exception event -------------------------------------------------------------------------------
def exception_attributes(error: BaseException) -> dict[str, Any]:
    """The attributes of the `exception` event: the class, the place and the message."""
    attributes: dict[str, Any] = {semconv.EXCEPTION_TYPE: semconv.class_name(type(error))}
    origin = _innermost(traceback_of(error))
    if origin is not None:
        code, line, module = origin
        attributes[semconv.CODE_FUNCTION] = f"{module}.{_qualified_name(code)}"
        attributes[semconv.CODE_FILE] = code.co_filename
        attributes[semconv.CODE_LINE] = line
    message = messages.of_error(error)
    if message is not None:
        attributes[semconv.EXCEPTION_MESSAGE] = message
    return attributes


def _innermost(entry: TracebackType | None) -> tuple[CodeType, int, str] | None:
    """Code, line and module of the frame that raised the exception."""
    if entry is None:
        return None
    while entry.tb_next is not None:
        entry = entry.tb_next
    return entry.tb_frame.f_code, entry.tb_lineno, _module(entry.tb_frame)


def _module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else "?"


def _qualified_name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)  # Python 3.11 includes the class, 3.10 has only the function


# ------------------------------------------------------------------------------------------------------------------
logger = Log("torchspan")

OPT_IN = "OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN"
"""The variable. Words other than `logs` and `logs/dup` belong to other conventions, and are ignored."""
_LOGS, _BOTH = "logs", "logs/dup"


Exports = Callable[[], object]


class LoggedException(Occurrence):
    """An exception in a log record. It is not an event of a span, except in the file of `torchspan run`."""

    __slots__ = ()


class ExceptionSignal(Protocol):
    """Records the exception of the innermost event that it passed.

    context: that of the event's span, or of the nearest span around the event if it has none.
    """

    def on_span(self, event: Event, context: Context) -> Occurrence:
        """Record the exception of an event whose span records, or that is folded into another event. Returns the span's occurrence."""

    def without_span(self, event: Event, context: Context) -> None:
        """Record the exception of an event whose span the sampler has refused."""

    def exports(self) -> list[Exports]:
        """Functions that export the emitted records; empty if there are none."""


class SpanEvents:
    """Records exceptions as events of spans."""

    def on_span(self, event: Event, context: Context) -> Occurrence:  # noqa: ARG002
        """See `ExceptionSignal`."""
        error = cast("BaseException", event.error)
        return Occurrence("exception", event.end_ns or 0, exception_attributes(error))

    def without_span(self, event: Event, context: Context) -> None:
        """Do nothing."""

    def exports(self) -> list[Exports]:
        """See `ExceptionSignal`."""
        return []


class Both:
    """Records exceptions as log records and as events of spans."""

    def __init__(self, events: SpanEvents, records: LogRecords) -> None:
        self._events = events
        self._records = records

    def on_span(self, event: Event, context: Context) -> Occurrence:
        """See `ExceptionSignal`."""
        occurrence = self._events.on_span(event, context)
        self._records.emit(event, occurrence, context)
        return occurrence

    def without_span(self, event: Event, context: Context) -> None:
        """See `ExceptionSignal`."""
        self.on_span(event, context)

    def exports(self) -> list[Exports]:
        """See `ExceptionSignal`."""
        return self._records.exports()


class Logs(Both):
    """Records exceptions as log records. They stay events of spans if no logger provider accepts them, so none is lost."""

    def on_span(self, event: Event, context: Context) -> Occurrence:
        """See `ExceptionSignal`."""
        occurrence = self._events.on_span(event, context)
        if not self._records.emit(event, occurrence, context):
            return occurrence
        return LoggedException(occurrence.name, occurrence.time_ns, occurrence.attributes)


class LogRecords:
    """Emits log records with the attributes of the span event, through the same gate.

    Args:
        provider: The logger provider to use instead of the global one. Programs set the global one late, so it is read
            each time.
    """

    def __init__(self, provider: Any, *, capture_text: bool) -> None:
        self._fixed = provider
        self._capture_text = capture_text
        self._provider: Any = None
        self._logger: Any = None
        self._has_warned = False
        self._boundary = ErrorBoundary(
            "Emitting a log record of an exception failed; it is an event of its span instead."
        )

    def emit(self, event: Event, occurrence: Occurrence, context: Context) -> bool:
        """Emit the record of an exception. Returns False, and warns once, if no provider accepts it."""
        is_taken = self._boundary.attempt(self._emit, event, occurrence, context) or False
        if not is_taken and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s asks for log records, but no logger provider accepts them (set one that has a processor): exceptions "
                "remain events of their spans.",
                OPT_IN,
            )
        return is_taken

    def exports(self) -> list[Exports]:
        """See `ExceptionSignal`."""
        flush: Exports | None = getattr(self._provider, "force_flush", None)
        return [] if flush is None else [flush]

    def _emit(self, event: Event, occurrence: Occurrence, context: Context) -> bool:
        name = f"{event.phase.name}.exception"
        from opentelemetry._logs import SeverityNumber

        records = self._logger_for(name, context)
        if records is None:
            return False
        records.emit(
            timestamp=occurrence.time_ns,
            context=context,
            severity_number=SeverityNumber.ERROR,
            severity_text="ERROR",
            attributes=semconv.emitted(occurrence.attributes, capture_text=self._capture_text),
            event_name=name,
        )
        return True

    def _logger_for(self, name: str, context: Context) -> Any:
        """The logger, if the program has a provider that accepts the record. Before SDK 1.45 each provider counts as one."""
        from opentelemetry._logs import SeverityNumber, get_logger_provider

        provider = self._fixed or get_logger_provider()
        if type(provider).__module__.startswith("opentelemetry._logs"):  # the API alone
            return None
        if provider is not self._provider:
            self._logger = provider.get_logger(semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
            self._provider = provider
        is_enabled = getattr(self._logger, "enabled", None)
        if is_enabled is None or is_enabled(context=context, severity_number=SeverityNumber.ERROR, event_name=name):
            return self._logger
        return None


def exception_signal(opt_in: str, logger_provider: Any, *, capture_text: bool) -> ExceptionSignal:
    """The signal for exceptions.

    Args:
        opt_in: The value of the variable, a comma-separated list. `logs/dup` takes precedence over `logs`.
    """
    events = SpanEvents()
    words = {word.strip() for word in opt_in.split(",")}
    if not words & {_LOGS, _BOTH}:
        return events
    records = LogRecords(logger_provider, capture_text=capture_text)
    return Both(events, records) if _BOTH in words else Logs(events, records)
