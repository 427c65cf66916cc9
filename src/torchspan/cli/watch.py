# SPDX-License-Identifier: Apache-2.0
"""`torchspan watch`."""

from __future__ import annotations

import argparse
import io
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from torchspan.cli import _output
from torchspan.cli._command import CommandError
from torchspan.cli._live_lines import LiveLines, NewLines
from torchspan.cli._terminal import Terminal
from torchspan.cli.show import write_problems
from torchspan.output.sdk import _path
from torchspan.reading.answers.drawing import Drawing
from torchspan.reading.answers.lines import printable
from torchspan.reading.answers.units import duration, size
from torchspan.reading.answers.whole_texts import with_texts
from torchspan.reading.answers.work_in_progress import WorkInProgress
from torchspan.reading.traces import Run, TraceFile, read
from torchspan.words.environment_variables import TORCHSPAN_FILE

_PERIOD_S = 0.5
_GRACE_S, _GRACE_ELSEWHERE_S = 10, 120
"""How long the file must not have grown until a run without processes is over.

`torchspan run` writes its span some time after the program's end. Where no process was ever seen, the program may run in a
container or on another machine, and long work is reported every minute.
"""
_DEFAULT_NAME = re.compile(r"torchspan-\d{8}T\d{6}Z-\d+\.jsonl")


class WatchCommand:
    """Show what is running in a program of `torchspan run`, from a second terminal.

    Shows for each thread which stage of torch.compile, Torch-TensorRT or TensorRT is running and for how long, which of
    how many engines it makes, what fell back so far, and the memory of the program's processes (on Linux). At the end of
    the run, prints what `torchspan show` prints. Ctrl-C leaves before; the program keeps running.

    Without FILE: the file of TORCHSPAN_FILE if that is set, else the newest file of a run in the current folder. Waits for
    a FILE that does not exist yet, since a program's file begins with its first span. Of several runs in the file, shows
    the newest. If the output is not a terminal, prints a line at each change.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", nargs="?", help="the file of a program that is running")

    def run(self, arguments: argparse.Namespace) -> int:
        path = arguments.file or _newest()
        if not Path(path).absolute().parent.is_dir():
            raise CommandError(f"no folder for {printable(path)}; name the file of torchspan run", 2)
        draws = sys.stdout.isatty() and os.name == "posix" and os.environ.get("TERM", "dumb") != "dumb"
        lines = LiveLines(sys.stdout) if draws else NewLines(sys.stdout)
        watched = _WatchedFile(path)
        try:
            while not watched.is_over():
                lines.draw(list(watched.lines()))
                time.sleep(_PERIOD_S)
        except KeyboardInterrupt:
            lines.leave()
            raise
        lines.draw([])
        watched.write_answers()
        return 0


def _newest() -> str:
    """The file of TORCHSPAN_FILE, or the one in the current folder that was changed last. Raises CommandError."""
    variable = os.environ.get(TORCHSPAN_FILE)
    template = _path.absolute(variable) if variable else ""
    if template and _path.is_literal(template):
        return _path.expand(template, pid=0, time="")
    names = [path.name for path in Path().iterdir() if _DEFAULT_NAME.fullmatch(path.name)]
    files = _path.written_files(template) if template else names
    if not files:
        where = f"{TORCHSPAN_FILE} names" if template else "in the current folder"
        raise CommandError(f"no file of a run {where}; make one: torchspan run -- program, or name it: FILE", 2)
    return max(files, key=lambda path: Path(path).stat().st_mtime_ns)


class _WatchedFile:
    """The newest run in a file that another process appends to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._forget()

    def _forget(self, file_id: tuple[int, int] | None = None) -> None:
        self._file_id, self._offset, self._changed_s, self._seen_s = file_id, 0, 0.0, 0.0
        self._work = WorkInProgress()
        self._earlier: set[str] = set()
        self._memory: dict[int | None, int] = {}
        """Bytes of each process of the run that exists on this machine."""

    def is_over(self) -> bool:
        """Read what was appended, and return whether the run has ended."""
        for span in self._appended().records:
            run_id = Run(span).run_id
            if run_id != self._work.run_id and run_id not in self._earlier:
                self._earlier.add(self._work.run_id)
                self._work = WorkInProgress(run_id)
            if run_id == self._work.run_id:
                self._work.add(span)
        self._memory = {pid: memory for pid in self._work.pids if (memory := _memory(pid))}
        return self._work.has_ended or self._is_killed()

    def _is_killed(self) -> bool:
        now_s = time.time()
        self._seen_s = now_s if self._memory else self._seen_s
        quiet_s = now_s - max(self._seen_s, self._changed_s)
        has_processes = self._work.run_id and sys.platform == "linux"
        return bool(has_processes and quiet_s > (_GRACE_S if self._seen_s else _GRACE_ELSEWHERE_S))

    def _appended(self) -> TraceFile:
        """The whole lines that were appended; all lines of a file that shrank or was replaced. Raises CommandError."""
        try:
            status = Path(self._path).stat()
            file_id = status.st_dev, status.st_ino
            if file_id != self._file_id or status.st_size < self._offset:
                self._forget(file_id)
            self._changed_s = status.st_mtime
            if not stat.S_ISREG(status.st_mode):
                raise OSError("not a file")
            with Path(self._path).open("rb") as file:
                file.seek(self._offset)
                appended = file.read()
        except FileNotFoundError:
            self._forget()
            appended = b""
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CommandError(f"cannot read {printable(self._path)}: {reason}", 2) from None
        whole = appended[: appended.rfind(b"\n") + 1]
        self._offset += len(whole)
        content = read(io.BytesIO(whole))
        if content.unread and not self._work.start_ns and not content.records:
            what = content.problems[0].what
            raise CommandError(f"nothing readable in {printable(self._path)}: {printable(what)}", 2)
        return content

    def lines(self) -> Iterator[tuple[str, str]]:
        """Figures with their texts: the time since the start, what runs, what fell back, the memory."""
        name, now_ns = printable(_output.relative(self._path)), time.time_ns()
        if not self._work.start_ns:
            yield "", f"waiting for the first span in {name}"
            return
        yield duration(max(now_ns - self._work.start_ns, 0)), f"running: {name}"
        yield from self._work.lines(now_ns, self._memory)
        if self._memory:
            processes = f" of {len(self._memory)} processes" if len(self._memory) > 1 else ""
            yield size(sum(self._memory.values())), f"memory{processes}"

    def write_answers(self) -> None:
        """Print what `torchspan show` prints of the run."""
        if not self._work.has_ended:
            print("the run has not written its end, and none of its processes exists any more")
        content = read(self._path)
        spans = [span for span in content.records if Run(span).run_id == self._work.run_id]
        terminal = Terminal(sys.stdout)
        drawing = Drawing.of(with_texts(spans) if sys.stdout.isatty() else spans, encoding=terminal.encoding)
        terminal.write(drawing.lines(terminal.width))
        write_problems(content)


def _memory(pid: int | None) -> int:
    """Physical memory of a process in bytes; 0 if it does not exist on this machine, has ended, or nothing tells."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
