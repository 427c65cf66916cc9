# SPDX-License-Identifier: Apache-2.0
"""What else in this environment observes or exports the same, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path

import torchspan
from torchspan._version import __version__
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import installed

_RATIOS = {"traceidratio", "parentbased_traceidratio"}


def conflicts(context: Context) -> Iterable[Check]:
    """A row for each conflict that there is, or one that says that there is none."""
    checks = (_another_torchspan, _sampler, _ddtrace)
    rows = [row for check in checks for row in check(context)]
    yield from rows
    if not rows:
        yield Check("conflicts.none", State.OK, "Nothing here is known to keep torchspan from working.")


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
