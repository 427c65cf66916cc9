# SPDX-License-Identifier: Apache-2.0
"""Hook points that do not resolve, and what is lost by each. Looking imports the observed libraries."""

from __future__ import annotations

from collections.abc import Iterator

from torchspan.cli._command import CommandError
from torchspan.cli.doctor._check import Check, Context, State


def hooks(context: Context) -> Iterator[Check]:
    """With --probe only: it imports torch_tensorrt."""
    name = "hooks.resolved"
    if not context.probe:
        yield Check(
            name,
            State.NOTE,
            "Not looked at: that imports torch_tensorrt and TensorRT, which takes seconds.",
            "To look: torchspan doctor --probe",
            {"resolved": None, "absent": None},
        )
        return
    from torchspan import adapters, probes
    from torchspan.cli.probes import import_libraries

    try:
        import_libraries()
    except CommandError as error:
        yield Check(name, State.FAILED, f"{str(error)[0].upper()}{str(error)[1:]}.", facts={"resolved": 0, "absent": 0})
        return
    found = adapters.resolve_probes()
    absent = [row for row in found if row.status == "absent"]
    resolved = sum(row.status == "resolved" for row in found)
    versions = ", ".join(f"{library} {version}" for library, version in adapters.versions().items())
    yield Check(
        name,
        State.WARNING if absent else State.OK,
        f"{resolved} hook points resolved with {versions}"
        + (f"; {len(absent)} that this version should have are absent, below." if absent else "."),
        facts={"resolved": resolved, "absent": len(absent)},
    )
    for row in absent:
        phases = [phase.name for phase in probes.phases_of(row.probe.action)]
        lost = f"Lost: {', '.join(phases)}." if phases else "Lost: attributes and counts of other spans."
        yield Check(
            f"hooks.absent.{row.probe.target}",
            State.WARNING,
            f"{row.detail}. {lost} The hook's reason: {row.probe.why}",
            "Use a version of Torch-TensorRT that torchspan is tested with, or report this line.",
            {"target": str(row.probe.target), "phases": phases},
        )
