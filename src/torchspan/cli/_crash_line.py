# SPDX-License-Identifier: Apache-2.0
"""One line for each process that crashed or was killed: the signal, the stage, the place in the user's code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchspan import phase, semconv
from torchspan._launched.crash import Crash
from torchspan.cli._child import Ended
from torchspan.cli._run_span import signal_name
from torchspan.cli._terminal import cells, printable
from torchspan.traces import Node, Span, Trace, UnfinishedSpan

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


def crash_lines(ended: Ended, crashes: Sequence[Crash], traces: Iterable[Trace], width: int | None) -> Iterator[str]:
    """`SIGSEGV in tensorrt.build_engine (torch_tensorrt.compile · Sequential) at model.py:21 in forward`.

    crashes: of the program and of processes below it.
    width: columns; where the line is wider, the outermost work is left out. None: there is no limit.
    A signal of which neither the stage nor the place is known has no line.
    """
    open_work = _open_work(traces)
    is_killed = ended.status < 0
    for crash in crashes[:_MOST]:
        is_program = is_killed and crash.pid == ended.pid
        name = signal_name(-ended.status) if is_program else _SIGNALS.get(crash.reason, crash.reason)
        yield from _line(name, open_work.get(crash.pid), crash, width)
    if is_killed and ended.pid not in {crash.pid for crash in crashes}:
        yield from _line(signal_name(-ended.status), open_work.get(ended.pid), None, width)
    more = len(crashes) - _MOST
    if more > 0:
        yield f"{more} more process{'es' * (more > 1)} crashed"


def _line(name: str, node: Node | None, crash: Crash | None, width: int | None) -> Iterator[str]:
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
    whole = printable(f"{name} in {_text(stage.span)}{around}{place}")
    fits = width is None or cells(whole) <= width
    yield whole if fits else printable(f"{name} in {stage.span.name}{place}")


def _text(span: Span) -> str:
    model = span.attributes.get(semconv.MODEL_CLASS)
    return f"{span.name} · {model}" if isinstance(model, str) else span.name


def _open_work(traces: Iterable[Trace]) -> dict[int, Node]:
    """By process, the innermost of torchspan's spans that were open at its end; the last one to start of several."""
    found: dict[int, Node] = {}
    for trace in traces:
        for node in trace.nodes():  # parents first
            pid = node.span.resource.get(semconv.PROCESS_PID)
            if not _is_open(node.span) or not isinstance(pid, int):
                continue
            known = found.get(pid)
            if known is None or node.span.start_ns >= known.span.start_ns:
                found[pid] = node
    return found


def _is_open(span: Span) -> bool:
    """Whether it is work of torchspan's that was open: without `torchspan.incomplete` its own end would be there."""
    return (
        isinstance(span, UnfinishedSpan)
        and span.scope == semconv.SCOPE_NAME
        and span.name != phase.RUN.name
        and span.attributes.get(semconv.INCOMPLETE) is not True
    )
