# SPDX-License-Identifier: Apache-2.0
"""What `torchspan run` does when its program has ended: the run's own span, the drawing, the last lines."""

from __future__ import annotations

import ctypes
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torchspan.base.files.folders import Folder
from torchspan.cli import _output
from torchspan.cli import _stderr_lines as streams
from torchspan.cli._child import Ended
from torchspan.cli._command import CommandError
from torchspan.cli._output import Output
from torchspan.cli._run_span import ProgramRuns, RunSpan, signal_name
from torchspan.cli._terminal import Terminal
from torchspan.cli.show import write_problems
from torchspan.output.sdk import _path
from torchspan.reading.answers import _frame_answer, _labels, remedies
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.answers.lines import printable
from torchspan.reading.answers.printable_spans import printable_spans
from torchspan.reading.answers.units import source_line
from torchspan.reading.answers.whole_texts import with_texts
from torchspan.reading.traces import Node, Span, Trace, UnfinishedSpan, read, trees
from torchspan.start.launched.crash import Crash, read_crashes
from torchspan.start.launched.run_report import NOTHING, RunReport, likely_reason, missing, problems, read_reports
from torchspan.start.launched.run_settings import RunSettings
from torchspan.words import phase, semconv
from torchspan.words.environment_variables import TORCHSPAN_WITHOUT_GPU

# --- the line of a process that crashed -----------------------------------------------------------------------------
_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
}
"""What `faulthandler` writes of a signal."""

_MOST = 3


def crash_lines(ended: Ended, crashes: Sequence[Crash], traces: Iterable[Trace]) -> Iterator[str]:
    """`SIGSEGV in tensorrt.build_engine (torch_tensorrt.compile · Sequential) at model.py:21 in forward`.

    A signal of which neither the stage nor the place is known has no line.

    Args:
        crashes: Of the program and of processes below it.
    """
    open_work, waits = _open_work(traces)
    is_killed = ended.status < 0
    for crash in crashes[:_MOST]:
        is_program = is_killed and crash.pid == ended.pid
        name = signal_name(-ended.status) if is_program else _SIGNALS.get(crash.reason, crash.reason)
        yield from _line(name, open_work.get(crash.pid), crash)
    if is_killed and ended.pid not in {crash.pid for crash in crashes}:
        yield from _line(signal_name(-ended.status), open_work.get(ended.pid), None)
    more = len(crashes) - _MOST
    if more > 0:
        yield f"{more} more process{'es' * (more > 1)} crashed"
    yield from (printable(f"{_text(wait)} did not end") for wait in waits[:_MOST])


def _line(name: str, node: Node | None, crash: Crash | None) -> Iterator[str]:
    place = ""
    if crash is not None and crash.file is not None:
        line = "" if crash.line is None else f":{crash.line}"
        place = f" at {crash.file}{line} in {crash.function}"
    if node is None:
        if place:
            yield printable(f"{name}{place}")
        return
    stage, outermost = node, node
    while outermost.parent is not None and _is_open(outermost.parent.span):
        outermost = outermost.parent
    around = "" if outermost is stage else f" ({_text(outermost.span)})"
    yield printable(f"{name} in {_text(stage.span)}{around}{place}")


def _text(span: Span) -> str:
    """`torch.compile_frame · forward 0/0 · model.py:12`: with the function that is compiled, or the class of the model."""
    model = span.attributes.get(semconv.MODEL_CLASS)
    of_frame = (_frame_answer.subject(span), source_line(span.attributes))
    return _labels.SEPARATOR.join(filter(None, (span.name, *of_frame, model if isinstance(model, str) else "")))


def _open_work(traces: Iterable[Trace]) -> tuple[dict[int, Node], list[Span]]:
    """By process, the innermost of torchspan's spans that were open at its end; the last one to start of several.

    Then the waits for another thread's compilation: no process dies of them.
    """
    nodes: dict[int, Node] = {}
    waits: list[Span] = []
    for trace in traces:
        for node in trace.nodes():  # parents first
            pid = node.span.resource.get(semconv.PROCESS_PID)
            if not _is_open(node.span) or not isinstance(pid, int):
                continue
            if node.span.name == phase.COMPILE_WAIT.name:
                waits.append(node.span)
                continue
            crashed = nodes.get(pid)
            if crashed is None or node.span.start_ns >= crashed.span.start_ns:
                nodes[pid] = node
    return nodes, waits


def _is_open(span: Span) -> bool:
    """Whether it is work of torchspan's that was open: without `torchspan.incomplete` its own end would be there."""
    return (
        isinstance(span, UnfinishedSpan)
        and span.scope == semconv.SCOPE_NAME
        and span.name != phase.RUN.name
        and span.attributes.get(semconv.INCOMPLETE) is not True
    )


# ------------------------------------------------------------------------------------------------------------------
_PREFIX = "torchspan: "
_WHILE_IT_RUNS = "while a program runs, torchspan watch in another terminal shows where it is"
_TENSORRT_ALONE = "--without-gpu has no effect without PyTorch, which this program does not import: TensorRT needs a GPU to load an engine"


@dataclass(frozen=True)
class Conclusion:
    """How a run is concluded.

    Args:
        reports: The folder in which the processes have put their reports.
        command: The program and its arguments.
        program: Its file on this machine.
        environ: What it was started with.
        draws: Whether the waterfall and the split of the time are drawn.
        names_file: Whether the file is named.
        sizes: Bytes that stood in the run's files before.
        shows_texts: Whether the whole texts of messages are shown also where stderr is not a terminal.
        page: The file for the page; None if none is written.
    """

    settings: RunSettings
    reports: Folder
    output: Output
    command: Sequence[str]
    program: str
    environ: Mapping[str, str]
    draws: bool
    names_file: bool
    sizes: Mapping[str, int]
    shows_texts: bool
    page: str | None = None

    def __call__(self, ended: Ended) -> None:
        """Write all of it to stderr. Raises nothing: the exit status is the program's."""
        try:
            self._conclude(ended)
        except OSError:
            pass  # stderr is closed, full or a pipe without a reader: nothing can be said
        except Exception as error:
            say(f"the traces could not be drawn: {type(error).__name__}: {error}; please report this line")

    def _conclude(self, ended: Ended) -> None:
        spans, files = self._recorded()
        reports = read_reports(self.reports)
        run_span = self._write_run_span(ended, spans, reports) if spans else None
        lost = missing(reports, Counter(map(_process, filter(_has_ended, spans))))
        every = [*spans, run_span] if run_span else spans
        recorded = every
        if self.shows_texts or sys.stderr.isatty():
            every = list(with_texts(every))
        if self.draws and run_span:
            streams.say("")
            terminal = Terminal(sys.stderr)
            terminal.write(Drawing.of(every, encoding=terminal.encoding).lines(terminal.width))
        reason = ""
        if not any(span.scope == semconv.SCOPE_NAME and span.name != phase.IMPORT.name for span in spans):
            reason = likely_reason(reports, self.environ, self.program, sys.executable)
        for problem in problems(reports):
            if problem != reason:
                say(problem)
        crashes = read_crashes(self.reports)
        if crashes or ended.status < 0:
            for line in crash_lines(ended, crashes, trees(printable_spans(every))):
                say(line)
        if lost.number:
            number = (
                f"{'' if lost.is_exact else 'at least '}{lost.number} of {lost.total} spans are missing from the file"
            )
            cause = lost.cause or _output.happened(self.output)
            say(f"{'' if spans else 'nothing was recorded: '}{number}: {cause}")
        without_gpu = self._advice_without_gpu(ended, reports)
        if self.settings.inputs:
            from torchspan.cli import _inputs_file

            if _inputs_file.conclude(self.reports, self.output, self.settings.inputs, say):
                reason = ""
        if reason and not lost.number and without_gpu is None:
            what = (
                "nothing of torch.compile, Torch-TensorRT or TensorRT was recorded" if spans else "nothing was recorded"
            )
            say(reason if reason.startswith(NOTHING) else f"{what}: {reason}")
        if files and (self.names_file or self.output.detour):
            detour = f" ({self.output.detour})" if self.output.detour else ""
            say(f"traces are in {', '.join(map(_output.relative, files))}{detour}; {_WHILE_IT_RUNS}")
        if self.page:
            # Others may be given it: it has the whole texts of messages only if they were asked for.
            self._write_page(self.page, every if self.shows_texts else recorded, files)
        if self.draws and (earlier := [_output.relative(file) for file in files if self.sizes.get(file)]):
            say(f"{', '.join(earlier)} had traces before this run; torchspan show --all draws them too")
        if without_gpu is not None:
            say(without_gpu)

    def _write_page(self, path: str, spans: Sequence[Span], inputs: Sequence[str]) -> None:
        """Write the page, and a line about it."""
        from torchspan.cli import _view_files
        from torchspan.reading.views import page  # what a page needs costs the start of each run else

        if not spans:
            say(f"{path} was not written, since nothing was recorded")
            return
        try:
            _view_files.write(path, page(Drawing.of(spans)), "--html", inputs)
        except CommandError as error:
            say(str(error))
        else:
            say(f"the page is {_output.relative(path)}")

    def _advice_without_gpu(self, ended: Ended, reports: Sequence[RunReport]) -> str | None:
        """What to do if the program failed because this machine has no NVIDIA driver."""
        libraries = {name for report in reports for name in report.libraries}
        if ended.status == 0 or not libraries or _has_driver():
            return None
        if self.environ.get(TORCHSPAN_WITHOUT_GPU):
            return None if "torch" in libraries else _TENSORRT_ALONE
        if not any(report.lacks_driver for report in reports):
            return None
        command = shlex.join(["torchspan", "run", "--without-gpu", "--", *self.command])
        return " ".join(("no NVIDIA driver on this machine;", *remedies.remedy("without_gpu", command)))

    def _recorded(self) -> tuple[list[Span], list[str]]:
        """The spans of this run and the files that hold them, whichever process wrote them."""
        spans: list[Span] = []
        files = []
        for path in _path.written_files(self.output.template):
            try:
                with _output.opened(path) as file:
                    # What stood there before is of no interest, and may be long. A file that shrank was replaced.
                    offset = self.sizes.get(path, 0)
                    file.seek(offset if os.fstat(file.fileno()).st_size >= offset else 0)
                    content = read(file)
            except OSError as error:
                say(f"cannot read {path}: {error.strerror}")
                continue
            write_problems(content)
            own = [span for span in content.records if span.resource.get(semconv.RUN_ID) == self.settings.id]
            if own:
                spans += own
                files.append(path)
        return spans, files

    def _write_run_span(self, ended: Ended, spans: Sequence[Span], reports: Sequence[RunReport]) -> Span:
        first = min(spans, key=lambda span: span.start_ns)
        engines = ProgramRuns(sum(report.runs for report in reports), sum(report.runs_s for report in reports))
        span = RunSpan(self.settings, ended, first.resource, engines)
        written = span.write()
        if span.failure:
            say(f"the span torchspan.run is missing from the file: {span.failure}")
        if any(report.provider == "run" for report in reports):
            # What kept the program waiting would keep this process waiting as well.
            failing = {name for report in reports for name in report.undelivered}
            for name in span.deliver(failing):
                say(f"the exporter {name} did not deliver the span torchspan.run; the file contains it")
        return written


def _has_driver() -> bool:
    """Whether this machine has NVIDIA's driver. Its library is loaded, which initializes nothing."""
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True


def _has_ended(span: Span) -> bool:
    """Whether it is the span of some work, and not a report on work in progress."""
    return span.scope != semconv.SCOPE_NAME or span.name != phase.PROGRESS.name


def _process(span: Span) -> int:
    pid = span.resource.get(semconv.PROCESS_PID)
    return pid if isinstance(pid, int) else 0


def say(message: str) -> None:
    """Write a line of torchspan's to stderr."""
    streams.say(f"{_PREFIX}{printable(message)}")
