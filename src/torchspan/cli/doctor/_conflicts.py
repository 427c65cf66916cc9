# SPDX-License-Identifier: Apache-2.0
"""What else in this environment observes or exports the same, and what follows from that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions, entry_points
from importlib.util import find_spec
from pathlib import Path

import torchspan
from torchspan._version import __version__
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import installed
from torchspan.environment_variables import TORCHSPAN_BUILD_PHASES, TORCHSPAN_PROPAGATION, TORCHSPAN_RUN

_INSTRUMENTORS = "opentelemetry_instrumentor"
_OWN = "torchspan.instrumentor:TorchspanInstrumentor"
_OBSERVED = {"torch", "pytorch", "torch_tensorrt", "torch-tensorrt", "tensorrt", "tensorrt_rtx", "torchtel"}
"""Names that an instrumentor of the same libraries may have."""
_RATIOS = {"traceidratio", "parentbased_traceidratio"}


def conflicts(context: Context) -> Iterable[Check]:
    """A row for each conflict that there is, or one that says that there is none."""
    checks = (
        _another_torchspan,
        _other_instrumentors,
        _threads,
        _sampler,
        _ddtrace,
        _logfire,
        _started_by,
        _capture,
        _monitors,
    )
    found = [row for check in checks for row in check(context)]
    yield from found
    if not any(row.state in (State.WARNING, State.FAILED) for row in found):
        yield Check("conflicts.none", State.OK, "Nothing here is known to keep torchspan from working.")


def _disabled(context: Context) -> set[str]:
    return {each.strip() for each in context.variable("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS").split(",")}


def _another_torchspan(_context: Context) -> Iterator[Check]:
    """Two installations, or files that are not those of the installed version."""
    here = Path(torchspan.__file__).resolve().parent
    found = {str(Path(str(each.locate_file(""))).resolve()): each.version for each in distributions(name="torchspan")}
    facts = {"imported": str(here), "version": __version__, "installed": found}
    if len(found) > 1:
        listed = ", ".join(f"{version} in {place}" for place, version in found.items())
        yield Check(
            "conflicts.torchspan",
            State.WARNING,
            f"torchspan is installed more than once: {listed}. {__version__} in {here} is imported.",
            "Uninstall the others: pip uninstall torchspan, once for each, with the pip that belongs to it.",
            facts,
        )
    elif found and __version__ not in found.values():
        (version,) = found.values()
        yield Check(
            "conflicts.torchspan",
            State.WARNING,
            f"torchspan {__version__} in {here} is imported, but {version} is installed.",
            "Remove the folder from PYTHONPATH, or install that version.",
            facts,
        )
    mine = [each for each in entry_points(group=_INSTRUMENTORS) if each.name == "torchspan"]
    strange = sorted({each.value for each in mine} - {_OWN})
    if strange:
        yield Check(
            "conflicts.entry_point",
            State.WARNING,
            f"Another package registers an instrumentor under the name torchspan: {', '.join(strange)}.",
            "Uninstall that package, or enable torchspan in code: torchspan.instrument().",
            {"entry_points": strange},
        )


def _other_instrumentors(context: Context) -> Iterator[Check]:
    disabled = _disabled(context)
    if "*" in disabled:
        return
    for name in sorted({each.name for each in entry_points(group=_INSTRUMENTORS)} & _OBSERVED - disabled):
        yield Check(
            "conflicts.instrumentor",
            State.WARNING,
            f"The instrumentor {name} instruments a library that torchspan observes: the same work may be two spans.",
            f"To disable it: OTEL_PYTHON_DISABLED_INSTRUMENTATIONS={name}",
            {"instrumentor": name},
        )


def _threads(context: Context) -> Iterator[Check]:
    """Contrib's instrumentation of threads replaces the same names as torchspan's propagation."""
    there = any(each.name == "threading" for each in entry_points(group=_INSTRUMENTORS))
    if not there or _disabled(context) & {"threading", "*"}:
        return
    if context.variable(TORCHSPAN_PROPAGATION).lower() == "off":
        return
    yield Check(
        "conflicts.threading",
        State.NOTE,
        "OpenTelemetry's instrumentation of threads is installed, and torchspan propagates the context into threads too. They "
        "may be enabled and disabled in any order, and the spans are the same.",
        f"One is enough: OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=threading, or {TORCHSPAN_PROPAGATION}=off.",
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
    if version is None:
        return
    facts = {"version": version}
    if context.variable("DD_TRACE_OTEL_ENABLED").lower() in ("1", "true"):
        yield Check(
            "conflicts.ddtrace",
            State.WARNING,
            f"ddtrace {version} is installed and DD_TRACE_OTEL_ENABLED is set: where ddtrace sets its tracer provider, "
            "torchspan's spans go to ddtrace. OTEL_TRACES_EXPORTER, the sampler and the id generator have no effect on them.",
            "To export through OpenTelemetry: unset DD_TRACE_OTEL_ENABLED.",
            facts,
        )
        return
    yield Check(
        "conflicts.ddtrace",
        State.NOTE,
        f"ddtrace {version} is installed: its traces and those of OpenTelemetry are separate.",
        facts=facts,
    )


def _logfire(_context: Context) -> Iterator[Check]:
    version = installed("logfire")
    if version is not None:
        yield Check(
            "conflicts.logfire",
            State.NOTE,
            f"logfire {version} is installed: logfire.configure() sets a tracer provider of its own, and OpenTelemetry keeps "
            "the first that is set.",
            "A program that calls it needs no `opentelemetry-instrument`: call torchspan.instrument() alongside it.",
            {"version": version},
        )


def _started_by(context: Context) -> Iterator[Check]:
    """Python processes that are started from here are instrumented already."""
    folders = [Path(each).parts[-2:] for each in context.variable("PYTHONPATH").split(os.pathsep) if each]
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


def _capture(context: Context) -> Iterator[Check]:
    """TensorRT's recording of its API puts another library in front of the builder's."""
    variable = "TORCHTRT_ENABLE_TENSORRT_API_CAPTURE"
    if context.variable(variable).lower() in ("1", "true"):
        yield Check(
            "conflicts.api_capture",
            State.NOTE,
            f"{variable} is set: Torch-TensorRT records every call of TensorRT's API, and spans of engine builds last longer.",
            f"To measure builds: unset {variable}.",
        )


def _monitors(context: Context) -> Iterator[Check]:
    """A builder has one progress monitor; Torch-TensorRT's Debugger sets one, and configures logging."""
    if context.variable(TORCHSPAN_BUILD_PHASES).lower() == "on":
        yield Check(
            "conflicts.progress_monitor",
            State.NOTE,
            f"{TORCHSPAN_BUILD_PHASES}=on: torchspan adds a progress monitor to each builder's configuration. A monitor that the "
            "program or Torch-TensorRT's Debugger has set is still called, and it alone may cancel the build. On TensorRT other than "
            "TensorRT-RTX, whether this slows the build was not measured.",
            f"To disable it: {TORCHSPAN_BUILD_PHASES}=off.",
        )
    found = find_spec("torch_tensorrt")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if any(Path(each, "dynamo", "debug", "_Debugger.py").is_file() for each in places):
        yield Check(
            "conflicts.debugger",
            State.NOTE,
            "Torch-TensorRT's Debugger is installed. In a `with Debugger()` block the spans are the same, but passes and "
            "conversions last longer. The block configures Python's logging again when it begins and when it ends, which removes "
            "the handlers of the root logger, such as OpenTelemetry's.",
            "A program that exports its log through OpenTelemetry should add that handler again after the block.",
        )
