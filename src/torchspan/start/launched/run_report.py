# SPDX-License-Identifier: Apache-2.0
"""How an instrumented process reports to `torchspan run` what it saw, so that `run` can give the reason for an empty run.

There is one file `<pid>.json` for each process in the folder `RunSettings.reports`. A process opens it at its start, or when it is forked, and
keeps it open: later it may have no descriptor left, or run as another user. Each process reaches the folder through a descriptor that it keeps from its start. If others put something in place of the folder, that is neither read nor written. Standard
library only: the writing side runs in every process below `torchspan run`.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torchspan.base.files.folders import Folder
from torchspan.base.files.opening import Descriptor, check_size, system
from torchspan.base.forks import in_each_child
from torchspan.start.launched.run_settings import parse_traceparent
from torchspan.words import config_file

SDK_DISABLED = "OTEL_SDK_DISABLED=true disables OpenTelemetry"
DISABLED = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS disables torchspan"
DISABLED_BY_FILE = f"the file of {config_file.VARIABLE} disables torchspan (enabled: false in {config_file.PLACE})"
SUFFIX = ".json"
"""Of a file of reports; its stem is the process that made it."""

LARGEST = 1 << 20
"""The most bytes that are read of a report."""

_NUMBER_LOST = re.compile(r"; \d+ lost$")
COMPILE_DISABLE = "TORCH_COMPILE_DISABLE"
"""PyTorch's own variable (torch/_dynamo/config.py)."""
NOTHING = "nothing was compiled: "
NOTHING_COMPILED = f"{NOTHING}neither torch.compile nor Torch-TensorRT ran"
"""The whole message where all was recorded that there was."""
FOREIGN_PROVIDER = (
    "the program's own tracer provider accepts no span processor, so nothing is recorded while it is set; start the program "
    "without `torchspan run`, and call torchspan.instrument() in it: that provider receives the spans then"
)
"""ddtrace's is one."""
NO_SDK = "the OpenTelemetry SDK cannot be imported"
NOT_APPLIED = "the OTEL_* variables cannot be applied"
NOT_ENABLED = "torchspan could not be enabled"
NOT_READY = "OpenTelemetry's SDK was not started in time"
NOT_LOADED = "OpenTelemetry failed to load the instrumentations"


def _is_for_want_of_a_driver(error: BaseException | None) -> bool:
    text = error.args[0] if type(error) is RuntimeError and error.args else None
    return type(text) is str and text.startswith("Found no NVIDIA driver on your system")


class RunCounts(NamedTuple):
    """The counts of spans and runs. The fields are those of `RunReport`."""

    spans: int = 0
    unsampled: int = 0
    runs: int = 0
    runs_s: float = 0.0
    left_out: int = 0


@dataclass
class RunReport:
    """What one process observed. Set the attributes, then call `write()`, as often as something changes.

    Attributes:
        executable: The Python interpreter.
        libraries: Name and version of the observed libraries that were imported.
        stance: If `torch.compile` was called, the stance of torch.compiler (`default`); otherwise empty.
        rows: Hook points that the process knew.
        resolved: Those that it found and hooked.
        complete: Brings the report up to date; called before each writing.
        spans: Spans that were started and recorded.
        unsampled: Those that the sampler refused.
        left_out: Those that were not started because of the process's rank.
        provider: Which tracer provider torchspan's spans went to: `run`'s own, the `program`'s, or none because the
            program's takes no processor (`foreign`).
        sdk_disabled: OTEL_SDK_DISABLED switches the SDK off.
        errors: What could not be done, in short texts.
        file_errors: Why spans could not be written to the file.
        ended: Sampled spans that have ended, the program's own included: they should be in the file.
        has_unsampled: Others have ended, which were recorded only.
        unready: Spans that were not recorded because another thread was starting `run`'s own provider.
        is_final: The process has ended normally, and the counts are complete.
        runs: Runs of engines, those included that are not spans.
        runs_s: Their seconds, summed over threads.
        undelivered: For exporters that `run` made, by name, the spans that were not delivered when the process
            ended.
        paused: For parts of torchspan that kept failing and were paused, by name, how often they were left out.
        lacks_driver: The process ended with PyTorch's exception that it found no NVIDIA driver.
        folder: Where it is written. None: it is not written.
    """

    pid: int = field(default_factory=system.getpid)
    executable: str = field(default_factory=lambda: sys.executable)
    libraries: dict[str, str] = field(default_factory=dict)
    stance: str = ""
    rows: int = 0
    resolved: int = 0
    spans: int = 0
    unsampled: int = 0
    provider: str = "run"
    sdk_disabled: bool = False
    errors: list[str] = field(default_factory=list)
    file_errors: list[str] = field(default_factory=list)
    runs: int = 0
    runs_s: float = 0.0
    left_out: int = 0
    ended: int = 0
    has_unsampled: bool = False
    unready: int = 0
    is_final: bool = False
    undelivered: dict[str, int] = field(default_factory=dict)
    paused: dict[str, int] = field(default_factory=dict)
    lacks_driver: bool = False
    folder: Folder | None = field(default=None, repr=False, compare=False)
    complete: Callable[[RunReport], None] | None = None
    _file: Descriptor | None = field(default=None, init=False, repr=False, compare=False)
    _earlier: RunCounts = field(default=RunCounts(), init=False, repr=False, compare=False)
    _earlier_paused: Counter[str] = field(default_factory=Counter, init=False, repr=False, compare=False)

    def write_until_exit(self, end: Callable[[], object]) -> None:
        """Write now, when the process ends, and in every forked child.

        Args:
            end: Called when the process ends, before the report is written.
        """

        def at_exit() -> None:
            with contextlib.suppress(Exception):
                end()
            self.lacks_driver = _is_for_want_of_a_driver(getattr(sys, "last_value", None))
            self.write()

        self.write()
        atexit.register(at_exit)
        in_each_child(self._write_in_child)

    def count(self, now: RunCounts) -> None:
        """Report what has been counted since `counted_elsewhere`, in addition to what was counted before."""
        self.spans, self.unsampled = self._earlier.spans + now.spans, self._earlier.unsampled + now.unsampled
        self.runs, self.runs_s = self._earlier.runs + now.runs, self._earlier.runs_s + now.runs_s
        self.left_out = self._earlier.left_out + now.left_out

    def count_pauses(self, now: Mapping[str, int]) -> None:
        """Report how often parts were left out since `counted_elsewhere`, in addition to what was counted before."""
        self.paused = dict(self._earlier_paused + Counter(now))

    def has_recorded(self) -> bool:
        """Whether anything has been observed since this process began."""
        self._complete()
        return bool(self.spans or self.unsampled or self.runs or self.left_out)

    def left_out_once(self, name: str) -> None:
        """A part that no guard of a bridge counts was left out."""
        self._earlier_paused[name] += 1
        self.paused[name] = self.paused.get(name, 0) + 1

    def counted_elsewhere(self) -> None:
        """The counts begin at zero from now on, because torchspan is instrumented again."""
        self._earlier_paused = Counter(self.paused)
        self._earlier = RunCounts(self.spans, self.unsampled, self.runs, self.runs_s, self.left_out)

    def _write_in_child(self) -> None:
        """The counts of a fork begin at zero, but the bridge's count of spans continues in it."""
        self._complete()
        self._earlier = RunCounts(
            self._earlier.spans - self.spans,
            self._earlier.unsampled - self.unsampled,
            left_out=self._earlier.left_out - self.left_out,
        )
        self.spans, self.unsampled, self.runs, self.runs_s, self.left_out = RunCounts()
        self._earlier_paused.subtract(self.paused)
        self.undelivered, self.paused, self.file_errors = {}, {}, []
        self.ended, self.has_unsampled, self.unready, self.is_final = 0, False, 0, False
        parents, self._file = self._file, None
        if parents is not None:
            parents.close()  # before: there may be no other descriptor left
        self._save()

    def write(self) -> None:
        """Write the report as it is now. Raises nothing, because a report must never cause a failure.

        In a forked child it is that of the child.
        """
        self._complete()
        self._save()

    def _complete(self) -> None:
        if self.complete is not None:
            with contextlib.suppress(Exception):  # at exit and in forks, where the libraries may be half gone
                self.complete(self)

    def _save(self) -> None:
        self.pid = system.getpid()
        if self.folder is None:
            return
        with contextlib.suppress(OSError, TypeError, ValueError, RuntimeError):
            line = json.dumps({name: getattr(self, name) for name in _WRITTEN}).encode() + b"\n"
            if self._file is None or self._file.status() is None:  # the program may have closed it
                self._file = _opened(self.folder)
            check_size(_START + len(line))
            system.pwrite(self._file.number, line, _START)
            system.ftruncate(self._file.number, _START + len(line))


_WRITTEN = [
    attribute.name
    for attribute in dataclasses.fields(RunReport)
    if attribute.name not in ("folder", "complete", "_file", "_earlier", "_earlier_paused")
]


_START = 33
"""Bytes before the report: a line of random digits. By it the file is recognized where its path leads nowhere."""


def _opened(folder: Folder) -> Descriptor:
    """The file for the report of this process. Raises OSError if it cannot be made."""
    mark, name = os.urandom(16).hex().encode() + b"\n", f"{system.getpid()}{SUFFIX}"
    check_size(_START)
    opened = folder.open(name, os.O_RDWR | os.O_CREAT)
    file = Descriptor(opened, folder.path_of(name), (mark, 0))
    system.pwrite(file.number, mark, 0)
    return file


def read_reports(folder: Folder) -> list[RunReport]:
    """The reports in a folder, by process id. A file that is not a report is left out."""
    reports = []
    with contextlib.suppress(OSError):
        for name in folder.names():
            if name.endswith(SUFFIX):
                with contextlib.suppress(OSError, LookupError, ValueError, TypeError, RecursionError):
                    reports.append(_report(json.loads(folder.read(name, LARGEST).splitlines()[1])))
    return sorted(reports, key=lambda report: report.pid)


class Missing(NamedTuple):
    """Spans of a run that are not in its files.

    Attributes:
        number: Of them.
        total: All that ended in its processes, as far as is known.
        is_exact: Whether the numbers are complete.
        cause: Why they could not be written; empty if they were written.
    """

    number: int
    total: int
    is_exact: bool
    cause: str


def missing(reports: Sequence[RunReport], in_files: Mapping[int, int]) -> Missing:
    """The spans that should be in the files of a run and are not.

    Args:
        in_files: By process id, the spans that are.
    """
    of = [max(report.ended - in_files.get(report.pid, 0), 0) for report in reports]
    causes = [error for report in reports for error in report.file_errors]
    is_exact = all(report.is_final for report in reports if report.file_errors)
    cause = _NUMBER_LOST.sub("", causes[0]) if causes else ""
    return Missing(sum(of), sum(of) + sum(in_files.values()), is_exact, cause)


def likely_reason(reports: Sequence[RunReport], environ: Mapping[str, str], started: str, interpreter: str) -> str:
    """Why a run recorded nothing, as a clause without a full stop. A text that begins with `NOTHING` is a sentence of its own.

    Args:
        environ: What the program was started with.
        started: Its command as found on this machine.
        interpreter: The Python in which torchspan is installed.
    """
    if not reports:
        return _reason_without_reports(environ, started, interpreter)
    spans = sum(report.spans for report in reports)
    file_errors = [error for report in reports for error in report.file_errors]
    if file_errors:
        return f"the file was not written: {file_errors[0]}"
    if any(report.sdk_disabled for report in reports):
        return SDK_DISABLED
    if spans:
        if any(report.has_unsampled for report in reports):
            return f"{spans} spans were recorded, but none was sampled"
        are_final = all(report.is_final for report in reports)
        return f"{spans} spans were started, but {'none ended' if are_final else 'none is in the file'}"
    if not any(report.rows for report in reports) and _is_disabled(environ):
        return DISABLED
    if not any(report.rows for report in reports) and config_file.disables(environ):
        return DISABLED_BY_FILE
    return _reason_without_spans(reports, environ)


def _reason_without_spans(reports: Sequence[RunReport], environ: Mapping[str, str]) -> str:
    left_out = sum(report.left_out for report in reports)
    if left_out:
        return f"TORCHSPAN_RANKS selects no rank that did anything (spans left out: {left_out})"
    # Spans without a tracer are counted as unsampled.
    without_tracer = [error for report in reports for error in report.errors if error.startswith((NO_SDK, NOT_APPLIED))]
    if without_tracer:
        return without_tracer[0]
    unsampled = sum(report.unsampled for report in reports)
    paused = sorted({name for report in reports for name in report.paused})
    if unsampled and paused:
        return f"{', '.join(paused)} kept failing and was paused; the program's log has the cause"
    if unsampled and any(report.unready for report in reports):
        return NOT_READY
    if unsampled:
        return _reason_of_sampler(reports, unsampled, environ)
    not_loaded = [error for report in reports for error in report.errors if error.startswith((NOT_LOADED, NOT_ENABLED))]
    if not_loaded and not any(report.rows for report in reports):
        return not_loaded[0]
    libraries = {name for report in reports for name in report.libraries}
    observed = sorted(libraries - {"torch"}, key="torch_tensorrt".__ne__)
    if not libraries:
        return f"{NOTHING_COMPILED}; none of torch, torch_tensorrt, tensorrt and tensorrt_rtx was imported"
    if "torch" in libraries and environ.get(COMPILE_DISABLE) == "1":
        return f"{NOTHING_COMPILED}; {COMPILE_DISABLE}=1 is set, so torch.compile compiles nothing"
    stance = next((report.stance for report in reports if report.stance), "")
    if stance:
        why = "Dynamo converted no function; TORCH_LOGS=+dynamo shows its reasons"
        why = why if stance == "default" else f'torch.compiler.set_stance("{stance}") is set'
        return f"{NOTHING}torch.compile was called, but {why}"
    if not observed:
        return NOTHING_COMPILED
    if not any(report.resolved for report in reports):
        rows = max(report.rows for report in reports)
        return f"none of the {rows} hook points resolved in this installation; see: torchspan probes"
    if observed[0] == "torch_tensorrt":
        return f"{NOTHING_COMPILED}, and no engine ran"
    return f"{observed[0]} was imported, but nothing was parsed, built or run with it"


def _reason_of_sampler(reports: Sequence[RunReport], unsampled: int, environ: Mapping[str, str]) -> str:
    if any(report.unsampled and report.provider == "foreign" for report in reports):
        return FOREIGN_PROVIDER
    if any(report.unsampled and report.provider != "run" for report in reports):
        return f"the sampler of the program's own tracer provider dropped all {unsampled}"
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
    caller = parse_traceparent(environ.get("TRACEPARENT"))
    if caller is not None and not caller[2] & 1 and sampler.startswith("parentbased"):
        return f"TRACEPARENT marks its trace as not sampled (flags {caller[2]:02x}), and the sampler follows it"
    return f"the sampler dropped all {unsampled} (OTEL_TRACES_SAMPLER={sampler})"


def problems(reports: Sequence[RunReport]) -> list[str]:
    """What could not be done in the processes of a run, each once: sentences without a full stop.

    They include spans that `run`'s exporters did not deliver. They do not include spans that are not in the file: see `missing`.
    """
    errors = dict.fromkeys(error for report in reports for error in report.errors)
    undelivered: dict[str, int] = {}
    for report in reports:
        for name, number in report.undelivered.items():
            undelivered[name] = undelivered.get(name, 0) + number
    lost = [
        f"the exporter {name} did not deliver {number} span{'s' * (number != 1)} before the program ended; "
        "the file contains all spans"
        for name, number in sorted(undelivered.items())
    ]
    # Without any span, an error is the reason for that.
    paused: Counter[str] = sum(
        (Counter(report.paused) for report in reports if report.spans or not report.errors), Counter()
    )
    lost += [
        f"{name} kept failing and was paused: it was left out {number} time{'s' * (number != 1)}, and the file lacks what it "
        "would have recorded; the program's log has the cause"
        for name, number in sorted(paused.items())
    ]
    unready = sum(report.unready for report in reports)
    if unready:
        lost.append(f"{NOT_READY}: the file lacks {unready} span{'s' * (unready != 1)}, and what may have run inside")
    if any(report.provider == "foreign" for report in reports):
        lost.append(FOREIGN_PROVIDER)
    return [*errors, *lost]


def _reason_without_reports(environ: Mapping[str, str], started: str, interpreter: str) -> str:
    if _is_disabled(environ):
        return DISABLED
    if Path(started).name.startswith("python") and Path(started).absolute() != Path(interpreter).absolute():
        return f"another Python interpreter was started: {started}, but torchspan is installed in {interpreter}; install it in both"
    return (
        "no Python process that loads torchspan was started "
        "(another Python interpreter, or python with -S, -I or -E, or no Python at all)"
    )


def _is_disabled(environ: Mapping[str, str]) -> bool:
    names = environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")
    return not {"torchspan", "*"}.isdisjoint(name.strip() for name in names)


def _report(values: Mapping[str, Any]) -> RunReport:
    """Raises KeyError or TypeError where it is not what `RunReport` writes."""
    report = RunReport()
    for name in _WRITTEN:
        if type(values[name]) is not type(getattr(report, name)):
            raise TypeError(name)
        setattr(report, name, values[name])
    return report
