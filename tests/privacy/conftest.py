# SPDX-License-Identifier: Apache-2.0
"""The canary program below `torchspan run`, once for each value of TORCHSPAN_CAPTURE, with a receiver of OTLP."""

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from privacy import haystack
from privacy.planting import Planting
from privacy.sections import inputs
from support.child import unmeasured
from support.receiver import Receiver

TESTS = Path(__file__).resolve().parents[1]


@dataclass
class Run:
    """What one run of the canary program left behind.

    found: the strings of the file and of what arrived. carriers: every byte that left the process, by what carried it.
    terminal: what `torchspan run` wrote there itself, after the program's end.
    """

    planted: set
    quoted: list
    problems: list
    environments: dict
    found: list
    carriers: dict
    terminal: str
    kinds: set = field(default_factory=set)

    @functools.cached_property
    def seen(self):
        """(place, key) of everything that torchspan wrote with a word of one place alone in it, except for whole texts."""
        return {(place, key) for place, key in self._places if not key.startswith(haystack.LOCAL)}

    @property
    def local(self):
        """(place, key) of the whole texts, which the file alone may have; of an event's text the event's own key."""
        return {(place, haystack.local_key(key)) for place, key in self._places if key.startswith(haystack.LOCAL)}

    @functools.cached_property
    def _places(self):
        return {
            (place, each.key)
            for each in set(self.found)
            if haystack.is_torchspans(each)
            for place in haystack.surnames(each.text)
        }

    @functools.cached_property
    def shared(self):
        """(key, text) of what torchspan wrote with a word of several places in it."""
        return {
            (each.key, each.text)
            for each in set(self.found)
            if haystack.is_torchspans(each) and not each.key.startswith(haystack.LOCAL) and haystack.shared(each.text)
        }


@pytest.fixture(scope="session")
def canaries(tmp_path_factory, native_library):
    """`canaries(capture)`: the run at that capture, made once."""

    @functools.cache
    def run(capture):
        folder = tmp_path_factory.mktemp(f"canaries-{capture}")
        with Receiver() as receiver:
            return _run(folder, capture, receiver)

    return run


def _run(folder, capture, receiver):
    place = Planting(folder)
    work = folder / place("process.working_folder")
    work.mkdir()
    file = folder / "traces.jsonl"
    command = [
        sys.executable, "-c", "import sys; from torchspan.cli import main; sys.exit(main())",
        "run", "--without-gpu", "--output", str(file), "--",
        sys.executable, str(Path(__file__).with_name("program.py")), str(folder),
        place("process.argument"), f"--token={place('process.argument.option')}", f"{place('process.argument.script')}.py",
    ]  # fmt: skip
    ended = subprocess.run(
        command,
        cwd=work,
        env=_environment(place, folder, capture, receiver),
        input=place("process.stdin"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = folder / "planted.json"
    assert ended.returncode == 0 and said.exists(), ended.stderr + (folder / "program.err").read_text(errors="replace")
    data = json.loads(said.read_text(encoding="utf-8"))
    requests = [*haystack.from_file(file), *map(haystack.from_receiver, receiver.messages())]
    reports = b"\n".join(each.read_bytes() for each in folder.glob("report-*.json"))
    traces, metrics, logs = (
        [(headers.encode(), body) for path, headers, body in receiver.bodies if path == f"/v1/{kind}"]
        for kind in ("traces", "metrics", "logs")
    )
    assert traces and metrics and logs and reports
    carriers = {
        "file": file.read_bytes(),
        "traces": b"".join(each for pair in traces for each in pair),
        "metrics": b"".join(each for pair in metrics for each in pair),
        "reports": reports,
        "terminal": ended.stderr.encode(),
        "log": (folder / "torchspan.log").read_bytes(),
        "inputs": (folder / inputs.FILE).read_bytes(),
    }
    return Run(
        {*place.planted, *data["planted"]},
        data["quoted"],
        data["problems"],
        data["environments"],
        [each for request in requests for each in haystack.strings(request)],
        carriers,
        ended.stderr,
    )


def _environment(place, folder, capture, receiver):
    """What a user's shell has in it, and the settings of OpenTelemetry that export everything there is."""
    base = {name: value for name, value in unmeasured().items() if not name.startswith(("OTEL_", "TORCHSPAN_"))}
    home = folder / place("process.home")
    home.mkdir()
    return {
        **base,
        **receiver.environment(),
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN": "logs/dup",
        "TORCHSPAN_CAPTURE": capture,
        "TORCHSPAN_EVENTS": "log",
        "TORCHSPAN_HEARTBEAT": "0.3",
        "TORCHSPAN_BUILD_PHASES": "on",
        "TORCHSPAN_RUN_EXIT_TIMEOUT": "60",
        "TORCHSPAN_INPUTS": f"compiled,privacy.sections.followed:{place('followed.class.name')}",
        "TORCHSPAN_INPUTS_EVERY": "1",
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(TESTS), base.get("PYTHONPATH", ""), str(folder / place("process.import_path"))])
        ),
        "HOME": str(home),
        "USER": place("process.user"),
        "HOSTNAME": place("process.host"),
        "PS1": place("process.title"),
        "HF_TOKEN": place("process.secret"),
        place("process.variable.name").upper(): place("process.variable.value"),
    }
