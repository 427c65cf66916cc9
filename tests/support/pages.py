# SPDX-License-Identifier: Apache-2.0
"""Pages whose programs run as they are printed. The marks in a fence's info string say what a test does with the block.

- `python file=app.py`: the reader saves it under that name. One name has one text on all pages.
- `shell run`: the reader runs it, in the folder of those files. `python run`: the same for a program without a file.
  `status=139`: it ends with that exit status instead of 0. `receiver`: spans arrive at the OTLP endpoint that it names.
- `text output`: what the last block that ran before it printed, trimmed; see `missing`.
- `shell install`, `shell make`: the reader may run it, a test does not; it only checks the names. `shown`: neither.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from support.child import unmeasured
from support.receiver import Receiver

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\S+)?[ \t]*(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {"python", "shell"}
NOT_RUN = {"install", "make", "shown"}


@dataclass(frozen=True)
class Block:
    """line: of the fence. language: the first word of the info string. marks: the others."""

    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    @property
    def file(self):
        """The name under which the reader saves the block, for `file=app.py`."""
        return self._value("file")

    @property
    def status(self):
        """The exit status that the page promises."""
        return int(self._value("status") or 0)

    def _value(self, name):
        return next((mark.partition("=")[2] for mark in self.marks if mark.startswith(f"{name}=")), None)


@dataclass(frozen=True)
class Printed:
    """What a block printed on its standard output and its standard error."""

    out: str
    err: str


def blocks(text):
    """Every fenced block, in order."""
    return [
        Block(text.count("\n", 0, found.start()) + 1, found[1] or "", tuple(found[2].split()), found[3])
        for found in FENCE.finditer(text)
    ]


def read(path):
    """The blocks of a page, given its path from the repository's root."""
    return blocks((ROOT / path).read_text(encoding="utf-8"))


def unmarked(page):
    """Programs of a page of which the marks say nothing, by line."""
    return [
        block.line
        for block in page
        if block.language in PROGRAMS and not block.file and not {"run", *NOT_RUN} & set(block.marks)
    ]


def outputs(page):
    """(block that ran, output below it) for each output on a page; None in place of a block where none ran before."""
    ran, pairs = None, []
    for block in page:
        if "output" in block.marks:
            pairs.append((ran, block))
        elif "run" in block.marks:
            ran = block
    return pairs


def environment():
    """The reader's: `.venv` on the path, nothing of OpenTelemetry's set; a GPU only where there is one."""
    base = {name: value for name, value in unmeasured().items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{base['PATH']}"
    return {**base, "PATH": programs, "TORCHSPAN_WITHOUT_GPU": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"}


class Reader:
    """Follows pages as their reader does, in one folder: saves their files, runs their blocks.

    A block that another page has too runs once. Inductor's cache is empty at first. `names` are those of the spans that arrived at an OTLP endpoint.
    """

    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = {**environment, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
        self.names = set()
        self._printed = {}

    def save(self, page):
        """Write the files of a page. AssertionError where a file of that name has another text."""
        for block in page:
            if block.file:
                file = self.folder / block.file
                known = file.read_text(encoding="utf-8") if file.exists() else block.text
                assert known == block.text, f"{block.file} has another text on another page"
                file.write_text(block.text, encoding="utf-8")

    def run(self, block):
        """Run a block; AssertionError with what it printed where it ends with another status than the page promises."""
        key = block.language, block.marks, block.text
        if key not in self._printed:
            self._printed[key] = self._with_receiver(block) if "receiver" in block.marks else self._start(block)
        return self._printed[key]

    def _with_receiver(self, block):
        with Receiver() as receiver:
            printed = self._start(block, {"4318": str(receiver.port)})
            self.names |= {span.name for span in receiver.spans()}
        return printed

    def _start(self, block, replaced=()):
        text = block.text
        for before in replaced:
            text = text.replace(before, replaced[before])
        command = ["bash", "-euc", text] if block.language == "shell" else [sys.executable, "-c", text]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        # bash replaces itself by its last program, so a signal to that is negative here and 128 more in the reader's shell.
        status = done.returncode if done.returncode >= 0 else 128 - done.returncode
        assert status == block.status, f"line {block.line} ended with {status}\n{done.stderr}"
        return Printed(done.stdout, done.stderr)


def missing(shown, printed):
    """The first line of a page's output that a program did not print after the lines before it; None if it printed all.

    shown: the page's block; a page may leave lines out, and `…` at the end of a line stands for its rest. printed: a Printed;
    all lines have to come from one of its two streams. Bars, durations, other figures and identifiers are not compared, nor which engine
    is the slowest.
    """
    lines = shown.splitlines()
    found = max(_found(lines, stream) for stream in (printed.out, printed.err))
    return None if found == len(lines) else lines[found]


def _found(shown, stream):
    """How many of the lines shown are in the stream, in their order, before the first that is not."""
    lines = pairwise([*map(_stable, stream.splitlines()), ""])
    for number, line in enumerate(shown):
        wanted = _stable(line)
        start = wanted.removesuffix("…").rstrip()
        if wanted.endswith("…"):
            is_there = any(each.startswith(start) for each, _ in lines)
        else:
            is_there = any(wanted in {each, _with_first_detail(each, following)} for each, following in lines)
        if not is_there:
            return number
    return len(shown)


def _with_first_detail(line, following):
    """A line of a waterfall with the first detail of the line below it.

    The only detail of a span stands on the span's own line. Where a step took a notable share of the time, which depends on the
    machine, all details stand on the next line.
    """
    detail = following.lstrip("│ ").partition(" · ")[0]
    return f"{line.removesuffix(' # s')} {detail} # s"


def _stable(line):
    """A line without what another run prints otherwise."""
    line = re.sub(r"\b[0-9a-f]{16,}\b", "#", line)
    line = re.sub(r"[\u2580-\u259f]+", "", line)
    line = re.sub(r"(slowest of \d+ engines:) .*:", r"\1", line)
    line = re.sub(r"\d[\d.,]*(?:e-?\d+)? ?(?:ns|µs|ms|s|min|h)\b(?: \d\d s)?", "# s", line)
    line = re.sub(r"\d[\d.,]*", "#", line)
    line = re.sub(r"# (?:k|M|G)B\b", "# B", line)
    return " ".join(line.split())
