# SPDX-License-Identifier: Apache-2.0
"""What else in this environment observes or exports the same, and what follows from that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions, entry_points
from pathlib import Path

import torchspan
from torchspan._version import __version__
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import installed
from torchspan.environment_variables import TORCHSPAN_RUN

_INSTRUMENTORS = "opentelemetry_instrumentor"
_OBSERVED = {"torch", "pytorch", "torch_tensorrt", "torch-tensorrt", "tensorrt", "tensorrt_rtx", "torchtel"}
"""Names that an instrumentor of the same libraries may have."""
_RATIOS = {"traceidratio", "parentbased_traceidratio"}


def conflicts(context: Context) -> Iterable[Check]:
    """A row for each conflict that there is, or one that says that there is none."""
    checks = (_another_torchspan, _other_instrumentors, _sampler, _ddtrace, _started_by)
    rows = [row for check in checks for row in check(context)]
    yield from rows
    if not rows:
        yield Check("conflicts.none", State.OK, "Nothing here is known to keep torchspan from working.")


def _disabled(context: Context) -> set[str]:
    return {name.strip() for name in context.variable("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS").split(",")}


def _another_torchspan(_context: Context) -> Iterator[Check]:
    """Two installations, or files that are not those of the installed version."""
    here = Path(torchspan.__file__).resolve().parent
    versions = {
        str(Path(str(package.locate_file(""))).resolve()): package.version
        for package in distributions(name="torchspan")
    }
    facts = {"imported": str(here), "version": __version__, "installed": versions}
    if len(versions) > 1:
        listed = ", ".join(f"{version} in {place}" for place, version in versions.items())
        yield Check(
            "conflicts.torchspan",
            State.WARNING,
            f"torchspan is installed more than once: {listed}. {__version__} in {here} is imported.",
            "Uninstall the others: pip uninstall torchspan, once for each, with the pip that belongs to it.",
            facts,
        )
    elif versions and __version__ not in versions.values():
        (version,) = versions.values()
        yield Check(
            "conflicts.torchspan",
            State.WARNING,
            f"torchspan {__version__} in {here} is imported, but {version} is installed.",
            "Remove the folder from PYTHONPATH, or install that version.",
            facts,
        )


def _other_instrumentors(context: Context) -> Iterator[Check]:
    disabled = _disabled(context)
    if "*" in disabled:
        return
    for name in sorted({point.name for point in entry_points(group=_INSTRUMENTORS)} & _OBSERVED - disabled):
        yield Check(
            "conflicts.instrumentor",
            State.WARNING,
            f"The instrumentor {name} instruments a library that torchspan observes: the same work may be two spans.",
            f"To disable it: OTEL_PYTHON_DISABLED_INSTRUMENTATIONS={name}",
            {"instrumentor": name},
        )


def _sampler(context: Context) -> Iterator[Check]:
    """What a ratio of another sampler than torchspan's drops: it decides alone."""
    name, text = context.variable("OTEL_TRACES_SAMPLER").lower(), context.variable("OTEL_TRACES_SAMPLER_ARG")
    if context.file is not None or name not in _RATIOS:
        return
    try:
        ratio = float(text)
    except ValueError:
        return  # a row of the sampler
    if 0 <= ratio < 1:
        yield Check(
            "conflicts.sampler",
            State.WARNING,
            f"OTEL_TRACES_SAMPLER={name} with {ratio:g} drops {100 - 100 * ratio:g} of 100 traces, whatever they contain: "
            "of the compilations in these, the metrics alone remain.",
            f"To keep every compilation: OTEL_TRACES_SAMPLER=parentbased_torchspan, OTEL_TRACES_SAMPLER_ARG=other={ratio:g}",
            {"sampler": name, "ratio": ratio},
        )


def _ddtrace(context: Context) -> Iterator[Check]:
    version = installed("ddtrace")
    if version is not None and context.variable("DD_TRACE_OTEL_ENABLED").lower() in ("1", "true"):
        yield Check(
            "conflicts.ddtrace",
            State.WARNING,
            f"ddtrace {version} is installed and DD_TRACE_OTEL_ENABLED is set: where ddtrace sets its tracer provider, "
            "torchspan's spans go to ddtrace. OTEL_TRACES_EXPORTER, the sampler and the id generator have no effect on them.",
            "To export through OpenTelemetry: unset DD_TRACE_OTEL_ENABLED.",
            {"version": version},
        )


def _started_by(context: Context) -> Iterator[Check]:
    """Python processes that are started from here are instrumented already."""
    folders = [Path(folder).parts[-2:] for folder in context.variable("PYTHONPATH").split(os.pathsep) if folder]
    by = []
    if TORCHSPAN_RUN in context.environment:
        by.append("torchspan run")
    if any(parts[-1:] == ("auto_instrumentation",) for parts in folders):
        by.append("opentelemetry-instrument")
    if ("ddtrace", "bootstrap") in folders:
        by.append("ddtrace-run")
    if len(by) > 1:
        yield Check(
            "conflicts.started_by",
            State.WARNING,
            f"Programs that are started here are instrumented by {' and by '.join(by)}.",
            "Start the program with only one of them.",
            {"started_by": by},
        )
