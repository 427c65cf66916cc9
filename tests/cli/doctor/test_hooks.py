# SPDX-License-Identifier: Apache-2.0
"""Hook points that do not resolve; `test_command.py` looks at those of the real library."""

import pytest

from torchspan import adapters
from torchspan.adapters import ResolvedProbe
from torchspan.cli import probes as command
from torchspan.cli._command import CommandError
from torchspan.cli.doctor._check import Context, State
from torchspan.cli.doctor._hooks import hooks
from torchspan.phase import COMPILE, EXECUTE
from torchspan.probes import Annotate, Function, Probe, Record, Runs, Step, Tally, Tap


def absent(name, action):
    target = Function(f"torch_tensorrt:{name}")
    return ResolvedProbe(
        Probe(library="torch_tensorrt", target=target, action=action, why="a reason"), "absent", f"{name} is missing"
    )


@pytest.fixture
def here(monkeypatch):
    """The rows where the libraries have these hook points."""

    def ask(*resolved):
        monkeypatch.setattr(command, "import_libraries", lambda: None)
        monkeypatch.setattr(adapters, "resolve_probes", lambda: list(resolved))
        monkeypatch.setattr(adapters, "versions", lambda: {"torch_tensorrt": "2.14.0"})
        return list(hooks(Context({}, probe=True)))

    return ask


def test_without_probe_nothing_is_looked_at(monkeypatch):
    monkeypatch.setattr(command, "import_libraries", lambda: pytest.fail("imported"))

    (row,) = hooks(Context({}))

    assert (row.name, row.state, row.remedy) == (
        "hooks.resolved",
        State.NOTE,
        "To check: torchspan doctor --probe",
    )


def test_where_every_hook_point_resolves_there_is_one_row(here):
    probe = Probe(library="torch_tensorrt", target=Function("m:f"), action=Step(), why="a reason")

    (row,) = here(ResolvedProbe(probe, "resolved"), ResolvedProbe(probe, "out of range", "until 2.12"))

    assert (row.state, row.summary) == (State.OK, "1 hook point resolved with torch_tensorrt 2.14.0.")


@pytest.mark.parametrize(
    ("action", "state", "lost"),
    [
        (
            Record(COMPILE),
            State.WARNING,
            "Lost: torch_tensorrt.compile spans of this call, and what they count in the metrics.",
        ),
        (
            Runs(phase=EXECUTE, describe=lambda *_: {}),
            State.WARNING,
            "Lost: torch_tensorrt.execute spans of runs through this call, and their durations in the metric.",
        ),
        (Annotate((COMPILE, EXECUTE)), State.WARNING, "Lost: what this call adds to torch_tensorrt.compile and torch_tensorrt.execute spans."),
        (Tally((COMPILE,), lambda *_: None), State.WARNING, "Lost: what this call adds to torch_tensorrt.compile spans."),
        (Step(), State.WARNING, "Lost: the count and the time of this call in the span around it."),
        (Tap("loggers:line"), State.WARNING, "Lost: what torchspan sees in the arguments of this call."),
    ],
)  # fmt: skip
def test_an_absent_hook_point_is_a_row_that_says_what_is_lost(here, action, state, lost):
    summary, row = here(absent("f", action))

    assert (summary.state, summary.summary) == (
        State.WARNING,
        "0 hook points resolved with torch_tensorrt 2.14.0; absent although this version should have them: 1, listed below.",
    )
    assert (row.name, row.state, row.facts["lost"]) == ("hooks.absent.torch_tensorrt:f", state, lost)
    assert row.summary == f"f is missing. {lost} Why the hook is there: a reason."


def test_a_library_that_cannot_be_imported_fails(monkeypatch):
    def broken():
        raise CommandError("torch_tensorrt cannot be imported: OSError: libnvinfer.so.10 is missing")

    monkeypatch.setattr(command, "import_libraries", broken)

    (row,) = hooks(Context({}, probe=True))

    assert (row.state, row.summary) == (
        State.FAILED,
        "No hook point can be checked: torch_tensorrt cannot be imported: OSError: libnvinfer.so.10 is missing.",
    )
