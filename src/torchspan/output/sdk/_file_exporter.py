# SPDX-License-Identifier: Apache-2.0
"""Spans to a file, as OTLP JSON lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.trace import SpanContext

try:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError as error:
    raise ImportError(
        f"torchspan's file exporter needs the OpenTelemetry SDK ({error}); "
        "install it with: pip install 'torchspan[otlp]'"
    ) from error

from torchspan.base.logs import Log
from torchspan.base.version import __version__
from torchspan.output.sdk._span_file import FileIsFullError, SpanFile
from torchspan.output.sdk._starts import start_of
from torchspan.words import semconv
from torchspan.words.environment_variables import TORCHSPAN_FILE, TORCHSPAN_FILE_MAX_SIZE

DEFAULT_PATH = "torchspan-%t-%p.jsonl"
_logger = Log("torchspan.sdk")


class FileSpanExporter(SpanExporter):
    """Appends each batch of spans to a file, in one write, as lines of OTLP JSON.

    Folders are created, an existing file is appended to, and several processes may write one file. The lines are
    what the Collector's `otlp_json_file` receiver and Jaeger's upload read:
    https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/#json-file-serialization

    The file must be a regular file of this user with a single name. A link is not followed. A pipe, a device, a file of another user
    and a file that contains something else than OTLP JSON are left alone. Where another process holds the lock of the file, the
    exporter waits for it once, for 0.1 s.

    Nothing is raised into the program. A file that cannot be written and a file that has reached its limit cause one
    warning each, with the consequence. Every batch that is not written is a FAILURE.

    If torchspan traces a compilation, the file shows a crash in it, and a crash after it loses none of its spans:

    - When it begins, a span `torchspan.progress` with the number 0 and no duration is written. No other exporter gets it.
    - At each heartbeat (`TORCHSPAN_HEARTBEAT`) and when it ends, what the SDK's `BatchSpanProcessor` holds is written.

    Args:
        path: The file. `%p` is the process id (a forked child has a file of its own), `%t` the time at which this exporter
            was created, `%%` a percent sign. A relative path is resolved then, against the current folder.
            Default: TORCHSPAN_FILE, else `torchspan-%t-%p.jsonl`.
        max_size: Bytes at which this process stops writing. Default: TORCHSPAN_FILE_MAX_SIZE, else 256 MiB.
        mode: Permissions of a new file, such as 0o640. Default: TORCHSPAN_FILE_MODE, else 0o600: for its owner
            alone.

    Raises:
        TypeError: `path` is not a path, or `max_size` or `mode` is not an int.
        ValueError: `max_size` is negative, or `mode` has no permission to read and write for the owner.
    """

    is_torchspan_file = True
    """Read by torchspan, which finds its own files without importing the SDK."""

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, max_size: int | None = None, mode: int | None = None
    ) -> None:
        _check(path, max_size, mode)
        default_path = os.environ.get(TORCHSPAN_FILE, "").strip() or DEFAULT_PATH
        self._file = SpanFile(default_path if path is None else path, max_size, mode)
        self._is_shut_down = False
        self._is_full = False
        self._has_warned = False

    @property
    def path(self) -> str:
        """The file that this process writes."""
        return self._file.path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write spans to the file, in one write.

        Args:
            spans: The spans, which have ended.

        Returns:
            SUCCESS if they are in the file, else FAILURE.
        """
        if self._is_shut_down or self._is_full:
            return SpanExportResult.FAILURE
        try:
            lost = self._file.append([self._file.encoder.encode(span) for span in spans])
        except Exception as error:
            self._warn(f"torchspan: cannot encode spans ({type(error).__name__}: {error}); this batch is lost.")
            return SpanExportResult.FAILURE
        for reason, _ in lost:
            self._warn(self._consequence(reason))
        return SpanExportResult.FAILURE if lost else SpanExportResult.SUCCESS

    def _consequence(self, error: Exception) -> str:
        if isinstance(error, FileIsFullError):
            self._is_full = True
            return (
                f"torchspan: {self.path} has reached its limit of {self._file.max_size} bytes. What this process records "
                f"from now on is not written to it. A larger limit: {TORCHSPAN_FILE_MAX_SIZE}=<bytes>."
            )
        name, reason = self.path.replace("\0", "\\x00"), getattr(error, "strerror", None) or error
        return (
            f"torchspan: cannot write {name}: {reason}. Spans are lost until it can be "
            f"written. Name a file in a folder where you may write: {TORCHSPAN_FILE}=<file>."
        )

    def export_start(
        self,
        work: SpanContext,
        attributes: Mapping[str, Any],
        start_ns: int,
        resource: Resource,
    ) -> SpanExportResult:
        """Write that work began: a `torchspan.progress` span of no length.

        Args:
            work: The span of the work, which is sampled. It is the parent.
            attributes: The attributes of the progress span.
            start_ns: When the work began, in nanoseconds since 1970.
            resource: The resource of the work's span.

        Returns:
            SUCCESS if the line is in the file, else FAILURE.
        """
        scope = InstrumentationScope(semconv.SCOPE_NAME, __version__, semconv.SCHEMA_URL)
        return self.export([start_of(work, attributes, start_ns, scope=scope, resource=resource)])

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Do nothing: every batch is in the file when `export` returns.

        Args:
            timeout_millis: Not used.

        Returns:
            True.
        """
        return True

    def shutdown(self) -> None:
        """Close the file. Every batch after that is a FAILURE."""
        self._is_shut_down = True
        self._file.close()

    def _warn(self, message: str) -> None:
        # Once: a full disk would otherwise add a line to the program's output at every batch.
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("%s", message)


def _check(path: object, max_size: object, mode: object) -> None:
    """Raises TypeError or ValueError for an argument that is given and invalid."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be a str or an os.PathLike, not {path!r}")
    for name, value in (("max_size", max_size), ("mode", mode)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name} must be an int or None, not {value!r}")
    if isinstance(max_size, int) and max_size < 0:
        raise ValueError(f"max_size must be 0 bytes or more, not {max_size}")
    if isinstance(mode, int) and (mode & 0o600 != 0o600 or mode & ~0o777):
        hint = f" (did you mean 0o{mode}?)" if f"{mode}"[:1] in "67" and not set(f"{mode}") - set("01234567") else ""
        raise ValueError(f"mode must be permissions such as 0o600 or 0o640, not {mode!r}{hint}")
