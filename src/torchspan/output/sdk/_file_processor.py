# SPDX-License-Identifier: Apache-2.0
"""Each span to a file when it ends, with what the file needs to be read after a crash."""

from __future__ import annotations

import contextlib
import os
import threading
from _thread import start_new_thread
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from time import sleep  # the real one, also where a program replaces it later
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import SpanContext, TraceFlags

from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.files.opening import system
from torchspan.base.forks import before_each_fork, in_each_child
from torchspan.base.logs import Log
from torchspan.base.recorded_operators import RecordedOperators
from torchspan.base.thread_starts import without_signals
from torchspan.output import withheld
from torchspan.output.sdk import _operator_texts
from torchspan.output.sdk._open_spans import OpenSpan, OpenSpans
from torchspan.output.sdk._otlp_json import Encoded
from torchspan.output.sdk._span_file import Lost, SpanFile
from torchspan.output.sdk._starts import start_of
from torchspan.words import phase, semconv
from torchspan.words.environment_variables import TORCHSPAN_FILE_MODE

DELAY_S = 0.1
"""Seconds for which the end of a run may wait to be written."""

MOST_WAITING = 500
"""Runs that wait to be written, and spans whose operators do; the next one has all of them written."""

_RUNS = frozenset({phase.EXECUTE.name, phase.RUN_CONTEXT.name})
_SAMPLED = TraceFlags.SAMPLED
_FACTS = (semconv.ENGINE_NAME, semconv.MODEL_CLASS, semconv.ENTRY_POINT, *semconv.OF_WORK)

_logger = Log("torchspan.sdk")
_FAILED = ErrorBoundary("The file of torchspan run could not be flushed.")


class RunFileProcessor(SpanProcessor):
    """Writes each sampled span to a file before its `end()` returns, as a line of OTLP JSON, for `torchspan run`.

    A process that is killed loses no span that has ended: each is one write, without fsync. Spans of engine runs, except the
    first one of each engine, and spans of PyTorch's operators may be written 100 ms later. In addition to the spans that every
    exporter gets, the file contains:

    - the resource attributes `torchspan.run.id` and `process.pid`;
    - the events that are log records elsewhere (`TORCHSPAN_EVENTS=log`, `OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN=logs`);
    - on torchspan's spans, the whole texts of messages and guards, and names of the program's ranges, under keys that begin with
      `torchspan.local.`, if the file gives no rights to others;
    - on torchspan's spans `torchspan.open_ancestors.ids`, `.names` and `.starts`: the spans around them that are open;
    - where work begins that is worth keeping (`torchspan.keep`), and at the first run of an engine, a span
      `torchspan.progress` with the number 0 and no duration.

    It may be added alongside other processors, to any number of providers, and while spans are open. It raises nothing
    into the program. A file that cannot be written and a file that has reached its limit cause one warning each. `errors`
    and `lost` report the spans that the file does not contain. The rules for files, permissions and locks are those of
    `FileSpanExporter`.

    Args:
        path: The file, absolute. `%p` is the process id (a forked child has a file of its own), `%t` the time at which this
            processor was created, `%%` a percent sign.
        run_id: The resource attribute `torchspan.run.id` of each line.
        max_size: Bytes at which this process stops writing. Default: TORCHSPAN_FILE_MAX_SIZE, otherwise 256 MiB.
        failed: Called after the first span that could not be written, and whenever their number has doubled, on the thread that
            ended it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        run_id: str,
        *,
        max_size: int | None = None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        self._run_id = run_id
        self._failed = failed
        self._file = SpanFile(path, max_size, resource=self._resource)
        self._open = OpenSpans()
        self._start_process()
        before_each_fork(self.force_flush)
        in_each_child(self._start_process)

    def _resource(self) -> dict[str, Any]:
        return semconv.emitted({semconv.RUN_ID: self._run_id, semconv.PROCESS_PID: system.getpid()})

    def _start_process(self) -> None:
        # What waits belongs to the parent, and another thread of it may have held a lock.
        self._lock = threading.RLock()
        self._errors: Counter[str] = Counter()
        self._encoding = threading.RLock()
        self._operators: deque[tuple[RecordedOperators, ReadableSpan]] = deque()
        self.has_unsampled = False
        """Whether spans have ended in this process that are recorded, but not sampled."""
        self._is_timed = False
        self._leaves_texts_out = False

    @property
    def path(self) -> str:
        """The file that this process writes."""
        return self._file.path

    @property
    def ended(self) -> int:
        """The sampled spans that have ended in this process, and do not wait to be written."""
        return self._file.ended

    @property
    def lost(self) -> int:
        """The number of spans that could not be written."""
        return sum(self._errors.values())

    @property
    def errors(self) -> list[str]:
        """The reasons why spans could not be written, each once with the number of spans. Empty if all are in the file."""
        return [f"{reason}; {count} lost" if count else reason for reason, count in list(self._errors.items())]

    # --- the SDK's interface --------------------------------------------------------------------------------------
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Remember the span while it is open. If its work is long, write that it began."""
        try:
            opened = self._open.start(span, parent_context)
            context = span.get_span_context()
            if context.trace_flags & _SAMPLED and _is_own(span) and _is_announced(span):
                begun = _begun(span, context)
                self._write(self._file.encoder.encode(begun, _ancestors(opened.and_around())), 0)
        except Exception as error:
            self._note(f"the start of a span could not be written ({type(error).__name__})", 0)

    def on_end(self, span: ReadableSpan) -> None:
        """Write the span, unless the sampler refused it."""
        try:
            self._end(span)
        except Exception as error:
            self._note(f"a span could not be written ({type(error).__name__})", 1, ended=1)

    def _end(self, span: ReadableSpan) -> None:
        around = self._open.end(span)
        context = span.get_span_context()
        if context is None or not context.trace_flags & _SAMPLED:
            self.has_unsampled = True
            return
        kept_back = withheld.of(context.trace_id, context.span_id)
        events = [Event(*fields) for fields in kept_back.events]
        if not _is_own(span):
            self._write(self._file.encoder.encode(span, events=events))
            return
        texts = kept_back.texts if kept_back.texts and self._may_have_texts() else {}
        encoded = self._file.encoder.encode(span, {**_ancestors(around), **texts}, events)
        if span.name in _RUNS and not _is_announced(span):
            self._file.waiting.append((encoded, 1))
            self._write_soon()
        else:
            # A report on work in progress is not the span of work that ended.
            self._write(encoded, 0 if span.name == phase.PROGRESS.name else 1)
        operators = kept_back.operators
        if operators is not None and operators.events:
            operators.is_read = True
            self._operators.append((operators, span))
            self._write_soon()

    def _may_have_texts(self) -> bool:
        """Whether whole texts may be in the file: not where others may read it, which is said once."""
        rights = self._file.mode_for_others()
        if not rights:
            return True
        with self._lock:
            is_first, self._leaves_texts_out = not self._leaves_texts_out, True
        if is_first:
            _logger.warning(
                "torchspan: %s can be read by others than its owner (mode %03o), so the whole texts of messages are left out "
                "of it. To have them: chmod 600, or another %s.",
                self.path,
                0o600 | rights,
                TORCHSPAN_FILE_MODE,
            )
        return False

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Write the spans that wait. Returns False if that failed; what still waits is written with the next span."""
        return bool(_FAILED.attempt(self._write_all))

    def _write_all(self) -> bool:
        self._encode_operators()
        self._report(self._file.write())
        return True

    def shutdown(self) -> None:
        """Write the spans that wait and close the file.

        The file is opened again for a span that ends later, because another provider may have this processor, too.
        """
        self.force_flush()
        _FAILED.attempt(lambda: self._report(self._file.close()))

    # --- writing ---------------------------------------------------------------------------------------------------
    def _write(self, encoded: Encoded, ended: int = 1) -> None:
        self._report(self._file.append([encoded], ended))

    def _report(self, lost: Lost) -> None:
        for error, count in lost:
            self._note(self._file.why(error), count)

    def _encode_operators(self) -> None:
        with self._encoding:  # a thread that waits here writes all of them afterwards
            while self._operators:
                try:
                    operators, root = self._operators.popleft()
                except IndexError:  # a signal handler of this thread has encoded the last ones
                    return
                try:
                    with_texts = operators.capture == "local" and self._may_have_texts()
                    encoded = _operator_texts.encoded(operators, root, self._file.encoder, with_texts=with_texts)
                    self._file.waiting.append((encoded, operators.count))
                except Exception as error:
                    count = operators.count
                    self._note(f"operators could not be written ({type(error).__name__})", count, ended=count)
                except BaseException:  # Ctrl-C
                    self._operators.appendleft((operators, root))
                    raise

    def _write_soon(self) -> None:
        if len(self._file.waiting) > MOST_WAITING or len(self._operators) > MOST_WAITING:
            self.force_flush()
        elif not self._is_timed:
            self._is_timed = True
            try:
                # `Thread.start` would wait until the new thread has its turn at the interpreter.
                without_signals(partial(start_new_thread, self._write_later, ()))
            except RuntimeError:  # no more threads, or the interpreter is ending
                self._is_timed = False
                self.force_flush()

    def _write_later(self) -> None:
        sleep(DELAY_S)
        self._is_timed = False  # before writing: what is added from here on gets a thread of its own
        self.force_flush()

    def _note(self, reason: str, count: int, *, ended: int = 0) -> None:
        """Note why spans are lost.

        Args:
            reason: A clause.
            count: How many.
            ended: How many of them the file has not counted, because they did not reach it.
        """
        with self._lock:
            is_first = not self._errors
            before = self.lost
            # No function of Counter's in the addition, in which a signal handler could run.
            self._errors.setdefault(reason, 0)
            self._errors[reason] += count
            self._file.ended += ended
            has_doubled = self.lost.bit_length() > before.bit_length()
        # Without the lock: a log handler of the program's may wait for another thread.
        if is_first:
            with contextlib.suppress(Exception):
                _logger.warning("torchspan: %s. Spans are missing from the file of torchspan run.", reason)
        if self._failed is not None and (is_first or has_doubled):
            with contextlib.suppress(Exception):
                self._failed()


def _is_own(span: ReadableSpan) -> bool:
    scope = span.instrumentation_scope
    return scope is not None and scope.name == semconv.SCOPE_NAME


def _is_announced(span: ReadableSpan) -> bool:
    """Whether it is written where this work begins."""
    attributes = span.attributes or {}
    if span.name in (phase.PROGRESS.name, phase.IMPORT.name):  # the latter starts when the import has ended
        return False
    return bool(attributes.get(semconv.KEEP) or attributes.get(semconv.EXECUTE_FIRST))


def _begun(span: Span, context: SpanContext) -> ReadableSpan:
    """The first `torchspan.progress` of the work of a span that has just started."""
    attributes = span.attributes or {}
    facts: dict[str, Any] = {str(key): attributes[key] for key in _FACTS if key in attributes}
    begun: dict[str, Any] = {
        semconv.KEEP: True,
        semconv.PROGRESS_WORK: span.name,
        semconv.PROGRESS_ELAPSED: 0.0,
        semconv.PROGRESS_RUNNING: span.name,
        semconv.PROGRESS_RUNNING_ELAPSED: 0.0,
        semconv.PROGRESS_NUMBER: 0,
    }
    return start_of(
        context,
        {**semconv.emitted(begun), **facts},  # the facts have passed the gate
        span.start_time or 0,
        scope=span.instrumentation_scope,
        resource=span.resource,
    )


def _ancestors(around: Sequence[OpenSpan]) -> dict[str, Any]:
    if not around:
        return {}
    return semconv.emitted(
        {
            semconv.OPEN_ANCESTOR_IDS: [f"{ancestor.span_id:016x}" for ancestor in around],
            semconv.OPEN_ANCESTOR_NAMES: [ancestor.name for ancestor in around],
            semconv.OPEN_ANCESTOR_STARTS: [ancestor.start_ns for ancestor in around],
        }
    )
