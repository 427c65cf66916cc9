# SPDX-License-Identifier: Apache-2.0
"""Records events and exceptions as events of spans, as log records, or exceptions as both.

OpenTelemetry deprecates the API for events of spans, in favor of log records with the context of the span:
https://opentelemetry.io/blog/2026/deprecating-span-events/
Its conventions define the variable that selects the signal of exceptions:
https://opentelemetry.io/docs/specs/semconv/exceptions/exceptions-logs/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any, Literal, cast

from opentelemetry.context import Context

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.logs import Log
from torchspan.base.reading import traceback_of
from torchspan.base.version import __version__
from torchspan.engine import Event, Occurrence
from torchspan.words import semconv
from torchspan.words.environment_variables import TORCHSPAN_EVENTS
from torchspan.words.redaction import messages
from torchspan.words.redaction.messages import first_raised


# --- attributes of an exception event -------------------------------------------------------------------------------
def exception_attributes(error: BaseException) -> dict[str, Any]:
    """The attributes of the `exception` event: the class, the place and the message."""
    attributes: dict[str, Any] = {semconv.EXCEPTION_TYPE: semconv.class_name(type(error))}
    origin = _innermost(traceback_of(first_raised(error)))
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
    """Code, line and module of the frame that raised the exception. No frame of torchspan, which only passed it on.

    Where a function of C++ that torchspan calls raised it, the frame around torchspan's, as without torchspan.
    """
    found, around = None, None if entry is None else entry.tb_frame.f_back
    while entry is not None:
        if not _is_own(entry.tb_frame):
            found = entry.tb_frame.f_code, entry.tb_lineno, _module(entry.tb_frame)
        entry = entry.tb_next
    while found is None and around is not None:
        if not _is_own(around):
            found = around.f_code, around.f_lineno, _module(around)
        around = around.f_back
    return found


def _is_own(frame: FrameType) -> bool:
    return f"{_module(frame)}.".startswith("torchspan.")


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

_EXCEPTION = "exception"
_SEVERITIES = {
    **dict.fromkeys((semconv.RECOMPILE_LIMIT_EVENT, semconv.OUTSIDE_EVENT, semconv.DRIFT_EVENT, "WARNING"), "WARN"),
    **dict.fromkeys((_EXCEPTION, "ERROR"), "ERROR"),
    "INTERNAL_ERROR": "FATAL",
}
"""By the name of an event or, for a line of TensorRT's log, by TensorRT's severity. All others are INFO."""

Signal = Literal["span", "log", "both"]
Exports = Callable[[], object]


class LoggedOccurrence(Occurrence):
    """An event in a log record. It is not an event of a span, except in the file of `torchspan run` and in `capture()`."""

    __slots__ = ()


class EventSignals:
    """Decides of each event and exception whether it is an event of its span, a log record, or both, and emits the log records.

    A log record has the attributes of the span event, through the same gate. One that no logger provider accepts is an event of its
    span instead, so none is lost.

    Args:
        exceptions: Where exceptions are recorded.
        events: Where all other events are recorded: `span` or `log`.
        provider: The logger provider to use instead of the global one. Programs set the global one late, so it is read
            each time.
    """

    def __init__(
        self, exceptions: Signal = "span", events: Signal = "span", provider: Any = None, *, capture_text: bool = False
    ) -> None:
        self._exceptions, self._events = exceptions, events
        self._fixed, self._capture_text = provider, capture_text
        self._provider: Any = None
        self._logger: Any = None
        self._has_warned: set[str] = set()
        self._boundary = ErrorBoundary("Emitting a log record failed; it is an event of its span instead.")

    def of_exception(self, event: Event, context: Context) -> Occurrence:
        """Record the exception of the innermost event that it passed. Returns the span's occurrence.

        Args:
            event: Its span records, or it is folded into another event.
            context: That of the event's span, or of the nearest span around the event if it has none.
        """
        attributes = exception_attributes(cast("BaseException", event.error))
        occurrence = Occurrence(_EXCEPTION, event.end_ns or 0, attributes)
        return self._recorded(occurrence, context, f"{event.phase.name}.{_EXCEPTION}", self._exceptions, OPT_IN)

    def of_events(self, occurrences: Sequence[Occurrence], context: Context) -> Sequence[Occurrence]:
        """Record the events of a span. Returns the span's occurrences. Exceptions among them have been recorded."""
        return [
            occurrence
            if occurrence.name == _EXCEPTION
            else self._recorded(
                occurrence, context, semconv.event_name(occurrence.name), self._events, TORCHSPAN_EVENTS
            )
            for occurrence in occurrences
        ]

    def without_span(self, event: Event, context: Context) -> None:
        """Emit the log records of an event whose span the sampler has refused."""
        if event.error is not None and event.innermost and self._exceptions != "span":
            self.of_exception(event, context)
        self.of_events(event.occurrences, context)

    def exports(self) -> list[Exports]:
        """Functions that export the emitted records; empty if there are none."""
        flush: Exports | None = getattr(self._provider, "force_flush", None)
        return [] if flush is None else [flush]

    def _recorded(
        self, occurrence: Occurrence, context: Context, name: str, signal: Signal, variable: str
    ) -> Occurrence:
        """Emit the log record of an event, if its signal is one. Returns the span's occurrence.

        Args:
            occurrence: The event.
            context: That of the span.
            name: The record's event name.
            signal: Where the event is recorded.
            variable: The environment variable that decides about it. It is named in the one warning that no provider accepts records.
        """
        if signal == "span":
            return occurrence
        if not self._boundary.attempt(self._emit, name, occurrence, context):
            if variable not in self._has_warned:
                self._has_warned.add(variable)
                logger.warning(
                    "%s asks for log records, but no logger provider accepts them (set one that has a processor): %s "
                    "remain events of their spans.",
                    variable,
                    "exceptions" if variable == OPT_IN else "events",
                )
            return occurrence
        if signal == "both":
            return occurrence
        return LoggedOccurrence(occurrence.name, occurrence.time_ns, occurrence.attributes)

    def _emit(self, name: str, occurrence: Occurrence, context: Context) -> bool:
        """Emit a log record. Returns False if no provider accepts it."""
        from opentelemetry._logs import SeverityNumber

        severity = _SEVERITIES.get(occurrence.attributes.get(semconv.LOG_SEVERITY, occurrence.name), "INFO")
        number = SeverityNumber[severity]
        records = self._logger_for(name, context, number)
        if records is None:
            return False
        records.emit(
            timestamp=occurrence.time_ns,
            context=context,
            severity_number=number,
            severity_text=severity,
            attributes=semconv.emitted(occurrence.attributes, capture_text=self._capture_text),
            event_name=name,
        )
        return True

    def _logger_for(self, name: str, context: Context, severity: Any) -> Any:
        """The logger, if the program has a provider that accepts the record. Before SDK 1.45 each provider counts as one."""
        from opentelemetry._logs import get_logger_provider

        provider = self._fixed or get_logger_provider()
        if type(provider).__module__.startswith("opentelemetry._logs"):  # the API alone
            return None
        if provider is not self._provider:
            self._logger = provider.get_logger(semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
            self._provider = provider
        is_enabled = getattr(self._logger, "enabled", None)
        if is_enabled is None or is_enabled(context=context, severity_number=severity, event_name=name):
            return self._logger
        return None


def event_signals(opt_in: str, events: Signal, logger_provider: Any, *, capture_text: bool) -> EventSignals:
    """The signals of events and exceptions.

    Args:
        opt_in: The value of OPT_IN, a comma-separated list. `logs/dup` takes precedence over `logs`.
        events: The value of `TORCHSPAN_EVENTS`.
    """
    words = {word.strip() for word in opt_in.split(",")}
    exceptions: Signal = "both" if _BOTH in words else "log" if _LOGS in words else "span"
    return EventSignals(exceptions, events, logger_provider, capture_text=capture_text)
