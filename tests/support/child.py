# SPDX-License-Identifier: Apache-2.0
"""Functions of a test in a Python of their own, for what depends on which library is imported when."""

import inspect
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.emitted import EMITTED

TESTS = Path(__file__).resolve().parents[1]


@dataclass
class Result:
    """What the program returned, its spans as `support.tree` takes them, and what it printed."""

    value: Any
    spans: list[Any]
    output: str


def unmeasured():
    """An environment in which coverage is not measured.

    For programs that prove a document and no line of code, and for those that fork alongside a thread: coverage's lock, held by
    another thread at a fork, stays locked in the child.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


UNMEASURED = {"COVERAGE_PROCESS_CONFIG": "", "COVERAGE_PROCESS_START": ""}
"""Variables for a program in which coverage is not measured, and which has loaded nothing of coverage's."""


def run(program, *helpers, folder, path=(), timeout=300, measured=True, **environment):
    """Runs `program()` in a new Python, with `helpers` alongside it; all are functions of plain source.

    folder: the program's current and temporary folder. path: folders before all others on sys.path. measured: whether coverage is.
    """
    source = "\n\n".join(textwrap.dedent(inspect.getsource(each)) for each in (*helpers, program))
    script = folder / "program.py"
    script.write_text(
        "import warnings\nwarnings.simplefilter('ignore')\n"  # what libraries warn of at import is theirs
        f"{source}\nif __name__ == '__main__':\n    from support.in_child import finish\n    finish({program.__name__}())\n",
        encoding="utf-8",
    )
    result = folder / "result.json"
    surroundings = os.environ if measured else unmeasured()
    clean = {name: value for name, value in surroundings.items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    search = [*map(str, path), str(TESTS), clean.get("PYTHONPATH", "")]
    environ = {**clean, "PYTHONPATH": os.pathsep.join(filter(None, search)), "CHILD_RESULT": str(result)}
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env={**environ, "TMPDIR": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr}"
    data = json.loads(result.read_text(encoding="utf-8"))
    spans = [as_span(each) for each in data["spans"]]
    EMITTED.export(spans)
    return Result(data["value"], spans, done.stdout + done.stderr)


def as_span(data):
    """What tests ask a span for."""

    def values(attributes):
        return {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}

    return SimpleNamespace(
        name=data["name"],
        instrumentation_scope=SimpleNamespace(name=data["scope"]),
        context=SimpleNamespace(span_id=data["span_id"]),
        parent=None if data["parent_id"] is None else SimpleNamespace(span_id=data["parent_id"]),
        start_time=data["start"],
        end_time=data["end"],
        status=data["status"],
        attributes=values(data["attributes"]),
        events=[SimpleNamespace(name=name, attributes=values(attributes)) for name, attributes in data["events"]],
        links=data["links"],
    )


def below(spans, name):
    """The spans of the trace whose root is the one span called `name`, that one included."""
    (root,) = [span for span in spans if span.name == name and span.parent is None]
    found, ids = [root], {root.context.span_id}
    for span in sorted(spans, key=lambda each: each.start_time):
        if span.parent is not None and span.parent.span_id in ids:
            found.append(span)
            ids.add(span.context.span_id)
    return found
