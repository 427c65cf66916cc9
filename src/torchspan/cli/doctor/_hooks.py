# SPDX-License-Identifier: Apache-2.0
"""Hook points that do not resolve, and what is lost by each. Looking imports the observed libraries."""

from __future__ import annotations

from collections.abc import Iterator

from torchspan.cli._command import CommandError
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.waterfall._units import plural
from torchspan.probes import Action, Annotate, Record, Runs, Step, Tally, Tap, phases_of


def hooks(context: Context) -> Iterator[Check]:
    """With --probe only: it imports torch_tensorrt."""
    name = "hooks.resolved"
    if not context.probe:
        yield Check(
            name,
            State.NOTE,
            "Not checked: the check imports torch_tensorrt and TensorRT, which takes seconds.",
            "To check: torchspan doctor --probe",
            {"resolved": None, "absent": None},
        )
        return
    from torchspan import adapters
    from torchspan.cli.probes import import_libraries

    try:
        import_libraries()
    except CommandError as error:
        yield Check(
            name,
            State.FAILED,
            f"No hook point can be checked: {error}.",
            "Correct that first: a program that imports it fails too.",
            {"resolved": 0, "absent": 0},
        )
        return
    rows = adapters.resolve_probes()
    absent = [row for row in rows if row.status == "absent"]
    resolved = sum(row.status == "resolved" for row in rows)
    versions = ", ".join(f"{library} {version}" for library, version in adapters.versions().items())
    yield Check(
        name,
        State.WARNING if absent else State.OK,
        f"{plural(resolved, 'hook point')} resolved with {versions}"
        + (f"; absent although this version should have them: {len(absent)}, listed below." if absent else "."),
        facts={"resolved": resolved, "absent": len(absent)},
    )
    for row in absent:
        lost = _lost(row.probe.action)
        yield Check(
            f"hooks.absent.{row.probe.target}",
            State.WARNING,
            f"{row.detail}. {lost} Why the hook is there: {row.probe.why}.",
            "Use a version of Torch-TensorRT that torchspan is tested with, or report this line.",
            {"target": str(row.probe.target), "lost": lost},
        )


def _lost(action: Action) -> str:
    """What is not recorded where the target of this action is missing."""
    names = " and ".join(phase.name for phase in phases_of(action))
    match action:
        case Record():
            return f"Lost: {names} spans of this call, and what they count in the metrics."
        case Runs():
            return f"Lost: {names} spans of runs through this call, and their durations in the metric."
        case Annotate() | Tally():
            return f"Lost: what this call adds to {names} spans."
        case Step():
            return "Lost: the count and the time of this call in the span around it."
        case Tap():
            return "Lost: what torchspan sees in the arguments of this call."
