# SPDX-License-Identifier: Apache-2.0
"""torchspan's part in one process below `torchspan run`: where spans go, and what is reported at the end."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.trace import NoOpTracer, ProxyTracerProvider, SpanContext, Tracer, TracerProvider

from torchspan.base import forks
from torchspan.base.by_identity import ByIdentity
from torchspan.base.errors import Pause
from torchspan.base.exits import NOT_TAKEN, Patience
from torchspan.base.thread_starts import has_ended_by, start_thread
from torchspan.hooks.propagation import private_api as otel_private
from torchspan.start.launched.run_report import NO_SDK, NOT_APPLIED, RunReport
from torchspan.start.launched.run_settings import RunSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider

    from torchspan.base.files.folders import Folder
    from torchspan.output.sdk._file_processor import RunFileProcessor
    from torchspan.start.launched.exporting import Delivery
    from torchspan.start.launched.provider import OwnTracers


# --- ends that do not wait for long ---------------------------------------------------------------------------------
class Ends:
    """Ends things that may take long, each in a thread of its own, within one limit of time.

    The threads are started beforehand: at a program's end Python may refuse new ones. They are daemons, so that the
    process does not wait for them.
    """

    def __init__(self) -> None:
        self._waiting: list[_End] = []

    def add(self, end: Callable[[], object]) -> None:
        """Call `end` in `within`."""
        self._waiting.append(_End(end))

    def within(self, limit_s: float) -> list[Callable[[], object]]:
        """Call all of them now. Returns when they are done or `limit_s` seconds have passed: those that are not done."""
        deadline = time.monotonic() + limit_s
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            thread.begin()
        return [thread.end for thread in waiting if not thread.is_done_by(deadline)]


class _End:
    def __init__(self, end: Callable[[], object]) -> None:
        self.end = end
        self._due = forks.renewed(threading.Event())
        self._thread = start_thread("torchspan end", self._run)

    def _run(self) -> None:
        self._due.wait()
        self.end()

    def begin(self) -> None:
        is_parents = not self._thread.is_alive()
        self._due.set()
        if is_parents:
            with contextlib.suppress(RuntimeError):
                self._thread = start_thread("torchspan end", self._run)

    def is_done_by(self, deadline: float) -> bool:
        return has_ended_by(self._thread, deadline)


# ------------------------------------------------------------------------------------------------------------------
STARTING = "starting OpenTelemetry's SDK"
WAITING = 0.9
"""The share of the time at a program's end that exporters have. The rest is for what Python itself does then."""

_NEEDED = (
    "torchspan.start.launched.exporting",
    "torchspan.start.launched.provider",
    "torchspan.output.sdk._file_processor",
)
LONGEST_WAIT_S = 1.0
"""How long a thread's first span waits for another thread that makes the provider."""
GAVE_UP = "gave-up"
"""The file in the folder for reports that says when a process of the run last gave up waiting for exporters."""


class RunProcess:
    """One for a process. The program's own providers get the file of the run as one more processor.

    While the program has set no provider, spans of its tracers and of torchspan go to `run`'s own provider: the file,
    and the exporters that OTEL_TRACES_EXPORTER names. It is made at the first span and never set as the global one.

    Args:
        settings: Those of the run.
        reports: The folder for reports; None if none can be used.
    """

    def __init__(self, settings: RunSettings, reports: Folder | None) -> None:
        self.settings = settings
        self.report = RunReport(folder=reports)
        self._lock = forks.renewed(threading.RLock())
        self._turn = forks.renewed(threading.RLock())
        """Of the thread that makes the provider. The others wait for it, for a limited time."""
        self._is_loaded = False
        self._is_late = False
        """Whether a thread has waited without success. No other one waits then."""
        self._makers: set[int] = set()
        """Threads that make the provider, or import what that needs."""
        self._own: OwnTracers | None = None
        self._own_tracer: Tracer | None = None
        self._pause = Pause()
        self._file: RunFileProcessor | None = None
        self._deliveries: list[Delivery] = []
        self._ends = Ends()
        self._is_fork = False
        self.patience = Patience(settings.exit_s * WAITING, self._last_gave_up, self._note_gave_up)
        self._meters: MeterProvider | None = None
        self._names_metrics = _names_exporters("OTEL_METRICS_EXPORTER")
        self._known: ByIdentity[tuple[object, bool]] = ByIdentity()
        """A provider of the program -> the provider behind it at that time, and whether it takes the file."""
        self.is_alone = False
        """Whether torchspan is enabled by `run` alone: not by the program, nor by `opentelemetry-instrument`."""

    def begin(self) -> None:
        """Follow the program's providers and tracers, and report until the process ends."""
        self.report.sdk_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        try:
            otel_private.on_provider(self.use)
            otel_private.lend_tracers(self._lend, self.use)
        except AttributeError as error:
            self.fail(f"this version of OpenTelemetry's API is not supported: {error}")
        provider = otel_private.tracer_provider()
        if provider is not None:  # `opentelemetry-instrument` inside `run` has set it before
            self.use(provider)
        forks.in_each_child(self._after_fork)
        self.report.write_until_exit(self.end)

    def fail(self, text: str) -> None:
        """Add a text to the errors of the report, unless it is one of them."""
        if text not in self.report.errors:
            self.report.errors.append(text)
            self.report.write()

    def carries(self) -> bool:
        """Whether the context may be propagated into threads and processes.

        It may not if that would give spans of the program's provider other parents than they have without `run`.
        """
        return not self.is_alone or otel_private.tracer_provider() is None

    def text_for_child(self, span: SpanContext) -> str:
        """The value of TORCHSPAN_RUN for a program that is started in this span."""
        return self.settings._replace(span=_traceparent(span)).to_text()

    # --- providers of the program -----------------------------------------------------------------------------
    def use(self, provider: TracerProvider) -> bool:
        """The program has set this provider, or given it to torchspan. Returns False if it takes no processor."""
        takes = self.attach(provider)
        self.report.provider = "program" if takes else "foreign"
        return takes

    def attach(self, provider: TracerProvider) -> bool:
        """Add the file to a provider of the program, once. Returns False if the provider takes no processor."""
        behind, known = _behind(provider), self._known.get(provider)  # this is called at each span
        if known is None or known[0] is not behind:
            with self._lock:
                known = self._known.get(provider)
                if known is None or known[0] is not behind:
                    self._known[provider] = known = (behind, self._add_file(provider))
        return known[1]

    def _add_file(self, provider: TracerProvider) -> bool:
        add = getattr(provider, "add_span_processor", None)
        file = self._file_processor() if callable(add) else None
        if add is None or file is None:
            return False
        try:
            add(file)
        except Exception as error:
            self.fail(f"the program's {type(provider).__name__} refused the span processor: {error!r}")
            return False
        return True

    def tracer(self, provider: TracerProvider, name: str, version: str, schema_url: str) -> Tracer:
        """The tracer of torchspan's spans for `provider`, which is the program's or the API's proxy for none.

        The file is added to the program's provider. If that takes no processor, torchspan's spans are not recorded: among the
        program's own they would not be what the program sends without `run`.
        """
        if isinstance(provider, ProxyTracerProvider):
            if self._own_tracer is None:  # this is called at each span
                self._own_tracer = self._lend(name, version, schema_url, None)
            return self._own_tracer or NoOpTracer()
        return provider.get_tracer(name, version, schema_url) if self.use(provider) else NoOpTracer()

    def _file_processor(self) -> RunFileProcessor | None:
        if self._file is None:
            try:
                with forks.uncut():
                    from torchspan.output.sdk._file_processor import RunFileProcessor

                self._file = RunFileProcessor(self.settings.file, self.settings.id, failed=self._file_failed)
            except Exception as error:
                self.fail(f"the file {self.settings.file} cannot be written: {error!r}")
        return self._file

    def _file_failed(self) -> None:
        if self._file is not None:
            self._report_file(self._file)
            self.report.write()

    def _report_file(self, file: RunFileProcessor) -> None:
        self.report.file_errors, self.report.ended = file.errors, file.ended
        self.report.has_unsampled = file.has_unsampled

    # --- the provider of `run` --------------------------------------------------------------------------------
    def load(self) -> None:
        """Import what the first span needs, so that no recorded call waits for it. Does nothing if the program has set a provider.

        What fails to be imported is tried again, and reported, at the first span.
        """
        if self._is_loaded or otel_private.tracer_provider() is not None or forks.was_cut():
            return
        self._is_loaded = True
        with contextlib.suppress(Exception):
            self._import()

    def _import(self) -> None:
        """Import everything that making the provider needs. No lock is held: another thread may wait for it inside an import."""
        with forks.uncut():
            # `from` hides the cause where the import fails in another thread.
            exporting, *_ = map(importlib.import_module, _NEEDED)
            with contextlib.suppress(Exception):  # reported when the provider is made
                exporting.load()

    def _lend(self, name: str, version: str | None, schema_url: str | None, attributes: Any) -> Tracer | None:
        own = self._own
        if own is None:
            own = self._make_own()
        return None if own is None else own.get(name, version, schema_url, attributes)

    def _make_own(self) -> OwnTracers | None:
        """Returns None if it cannot be made, and for spans that begin while it is made and that may not wait for it.

        Other threads wait, but not a thread that makes it: there, this is called by a signal handler, by a finalizer, or by what
        is called to make it. Such an interruption of another thread waits as well, although what it has interrupted may be what the
        making needs: the wait ends, and is the last. A failure may pass, such as a lack of memory or of file descriptors. So it is
        tried again at a span after a pause.
        """
        thread = threading.get_ident()
        if thread in self._makers:
            self.report.unready += 1
            return None
        if not self._pause.is_over():
            self.report.left_out_once(STARTING)
            return None
        if forks.was_cut():
            self.fail("this process was forked while another thread imported the OpenTelemetry SDK; it has no spans")
            return None
        try:
            self._makers.add(thread)
            self._import()
            limit_s = 0 if self._is_late else LONGEST_WAIT_S
            if self._turn.acquire(timeout=limit_s):
                try:
                    if self._own is None and self._pause.is_over():
                        self._own = self._made()
                finally:
                    self._turn.release()
            else:
                self._is_late = self._is_late or limit_s > 0
                self.report.unready += 1
        except Exception as error:
            self._pause.lengthen()
            # The SDK reads limits when it is imported.
            has_no_sdk = isinstance(error, ImportError) and sys.modules.get("opentelemetry.sdk.trace") is None
            self.fail(f"{NO_SDK if has_no_sdk else NOT_APPLIED}: {error!r}")
        finally:
            self._makers.discard(thread)
        return self._own

    def _made(self) -> OwnTracers:
        from torchspan.start.launched import exporting, provider

        if not self._deliveries:  # those of an earlier attempt are used again
            self._deliveries = exporting.deliveries(self.fail)
            for delivery in self._deliveries:
                self._ends.add(delivery.shutdown)
        with self._lock:
            file = self._file_processor()
        processors = [*([] if file is None else [file]), *self._deliveries]
        return provider.OwnTracers(self.settings, provider.own_provider(processors))

    def meter_provider(self) -> Any:
        """The provider of torchspan's metrics: the program's, or, while it has set none, one with the exporters that
        OTEL_METRICS_EXPORTER names.
        """
        from opentelemetry import metrics

        own = None
        if self._names_metrics and otel_private.meter_provider() is None:
            own = self._meters or self._make_meters()
        return own or metrics.get_meter_provider()

    def _make_meters(self) -> MeterProvider | None:
        if forks.was_cut():
            return None
        with forks.uncut():
            from torchspan.start.launched import exporting, provider

        with self._lock:
            if self._meters is None:
                self._names_metrics = False  # while it is made, and if that fails
                try:
                    own_meters = provider.own_meters(exporting.readers(self.fail))
                    self._ends.add(own_meters.shutdown)
                    self._meters = own_meters
                    self._names_metrics = True
                except Exception as error:
                    self.fail(f"the exporters of OTEL_METRICS_EXPORTER cannot be created: {error!r}")
            return self._meters

    def own_providers(self) -> list[Any]:
        """The providers of `run` itself, of those that have been made, and the file."""
        own = None if self._own is None else self._own.provider
        return [each for each in (own, self._meters, self._file) if each is not None]

    # --- the end ----------------------------------------------------------------------------------------------
    def end(self) -> None:
        """Deliver what `run`'s exporters still hold, within the limit. The rest is counted.

        A forked child that has recorded nothing does not wait: the metrics that can be read at any time are its parent's, too.
        """
        if self._is_fork and not self.report.has_recorded() and not any(each.undelivered for each in self._deliveries):
            self._ends = Ends()
        late = self._ends.within(self.patience.limit_s())
        if late:
            self.patience.gave_up()
        if self._meters is not None and self._meters.shutdown in late:
            self.fail(NOT_TAKEN)
        if self._file is not None:
            with contextlib.suppress(Exception):
                self._file.force_flush()
            self._report_file(self._file)
        self.report.is_final = True
        self.report.undelivered = {
            delivery.name: delivery.undelivered for delivery in self._deliveries if delivery.undelivered
        }

    def _after_fork(self) -> None:
        self._makers, self._is_late = set(), False
        self._is_fork = True

    def _last_gave_up(self) -> float:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return float(self.report.folder.read(GAVE_UP, 32))  # type: ignore[union-attr]
        return -math.inf

    def _note_gave_up(self, now: float) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.report.folder.write(GAVE_UP, str(now).encode())  # type: ignore[union-attr]


def _traceparent(context: SpanContext) -> str:
    """The W3C traceparent of a span."""
    return f"00-{trace.format_trace_id(context.trace_id)}-{trace.format_span_id(context.span_id)}-{context.trace_flags:02x}"


def _behind(provider: Any) -> object:
    """The provider behind a proxy. logfire's proxy has a new one after each `configure`."""
    return getattr(provider, "provider", None)


def _names_exporters(variable: str) -> bool:
    names = (name.strip().lower() for name in os.environ.get(variable, "").split(","))
    return any(name not in ("", "none") for name in names)
