# SPDX-License-Identifier: Apache-2.0
"""What is installed: OpenTelemetry's SDK and what configures it, observed libraries, and the library that records operators.

Versions come from metadata, and whether a library fits from files: no observed library is imported.
"""

from __future__ import annotations

import functools
import importlib.util
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Any

from torchspan.cli.doctor._check import Check, Context, State
from torchspan.hooks import native
from torchspan.hooks.probes import SUPPORTED, parse_version
from torchspan.words.environment_variables import TORCHSPAN_NATIVE_BUILD, TORCHSPAN_OPERATORS
from torchspan.words.settings import resolved

INSTALL = "pip install 'torchspan[auto]'"

_CONFIGURED = ("CONFIG_FILE", "TRACES_EXPORTER", "METRICS_EXPORTER", "LOGS_EXPORTER", "PYTHON_ID_GENERATOR")
"""What follows OTEL_ in variables that ask for something and that a configurator alone reads."""
_TORCH_TENSORRT = "torch_tensorrt"
_DISTRIBUTIONS = {
    "torch": ("torch",),
    _TORCH_TENSORRT: ("torch-tensorrt", "torch-tensorrt-rtx"),
    **{name: (name, *(f"{name}_{cuda}" for cuda in ("cu13", "cu12", "cu11"))) for name in ("tensorrt", "tensorrt_rtx")},
}
"""Module of an observed library -> the distributions that bring it."""


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, from its metadata; None if it is missing."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def plugins(group: str, name: str | None = None) -> list[EntryPoint]:
    """The entry points of a group, or those of them that have this name, in the order in which OpenTelemetry sees them."""
    points = _entry_points(tuple(sys.path))
    return list(points.select(group=group) if name is None else points.select(group=group, name=name))


@functools.lru_cache(maxsize=1)
def _entry_points(_search_path: tuple[str, ...]) -> Any:  # `SelectableGroups` before Python 3.12
    """Those of all distributions on the path: reading them takes longer than the rest of doctor."""
    return entry_points()


def sdk(_context: Context) -> Iterator[Check]:
    """Without the SDK, OpenTelemetry's API drops every span."""
    name, version = "sdk.installed", installed("opentelemetry-sdk")
    if version is None:
        summary = "OpenTelemetry's SDK is not installed: spans and metrics go nowhere."
        remedy = f"Install the SDK, exporters and what configures them: {INSTALL}"
        yield Check(name, State.FAILED, summary, remedy, {"version": None})
        return
    yield Check(name, State.OK, f"OpenTelemetry's SDK {version} is installed.", facts={"version": version})


def configurator(context: Context) -> Iterator[Check]:
    """Without a configurator `opentelemetry-instrument` makes no provider."""
    name, configurators = "sdk.configurator", plugins("opentelemetry_configurator")
    if configurators:
        yield Check(name, State.OK, f"`opentelemetry-instrument` configures the SDK with {configurators[0].value}.")
        return
    asking = [f"OTEL_{word}" for word in _CONFIGURED if context.variable(f"OTEL_{word}")]
    summary = "No configurator is installed: under `opentelemetry-instrument`, the program has to configure the SDK"
    state = State.WARNING
    if asking:
        state, summary = State.FAILED, f"{summary}, and nothing reads {', '.join(asking)}"
    yield Check(name, state, f"{summary}.", f"Install OpenTelemetry's own: {INSTALL}")


def ddtrace(context: Context) -> Iterator[Check]:
    """Another tracer that may take torchspan's spans. Nothing where it does not."""
    version = installed("ddtrace")
    if version is not None and context.variable("DD_TRACE_OTEL_ENABLED").lower() in ("1", "true"):
        summary = f"ddtrace {version} is installed and DD_TRACE_OTEL_ENABLED is set: torchspan's spans go to ddtrace, not through the SDK."
        remedy = "To export through OpenTelemetry: unset DD_TRACE_OTEL_ENABLED."
        yield Check("conflicts.ddtrace", State.WARNING, summary, remedy, {"version": version})


def python(_context: Context) -> Iterator[Check]:
    """The Python that runs doctor, which is the one that programs would be started with."""
    yield Check("python.version", State.OK, f"Python {platform.python_version()} at {sys.executable}.")


def libraries(_context: Context) -> Iterator[Check]:
    """What is there to be observed."""
    for module, distributions in _DISTRIBUTIONS.items():
        versions = {name: version for name in distributions if (version := installed(name)) is not None}
        listed = " and ".join(f"{name} {version}" for name, version in versions.items()) or module
        state, summary, remedy = State.OK, f"{listed} {'are' if len(versions) > 1 else 'is'} installed.", ""
        numbers = [parse_version(version) for version in versions.values()]
        if importlib.util.find_spec(module) is None:
            versions, state, summary = {}, State.NOTE, f"{module} is not installed."
            remedy = "If the program uses it: run doctor with the Python of the program."
        elif module == _TORCH_TENSORRT and not all(each and SUPPORTED[0] <= each <= SUPPORTED[1] for each in numbers):
            oldest, newest = (".".join(map(str, version)) for version in SUPPORTED)
            summary = f"{summary.removesuffix('.')}; torchspan is tested with {oldest} to {newest}."
            state, remedy = State.WARNING, "See which hook points resolve: torchspan probes"
        yield Check(f"libraries.{module}", state, summary, remedy, {"distributions": versions})


def torch_compile(context: Context) -> Iterator[Check]:
    """PyTorch's own switch. Nothing where it is not used."""
    variable = "TORCH_COMPILE_DISABLE"
    if context.variable(variable) == "1":
        summary = f"{variable}=1: torch.compile compiles nothing, and a trace has no frames."
        yield Check("compile.enabled", State.WARNING, summary, f"Unset {variable} to compile.")


def operators(context: Context) -> Iterator[Check]:
    """Whether the built library that records operators fits the installed PyTorch. Nothing where that is not installed."""
    name = "operators.library"
    try:
        version = native.check_installed()
    except native.UnavailableError as error:
        rows = resolved({}, file=context.options, environment=context.environment)
        is_off = next(row.value for row in rows if row.setting.variable == TORCHSPAN_OPERATORS) == "off"
        state = State.NOTE if is_off or context.variable(TORCHSPAN_NATIVE_BUILD) == "on" else State.WARNING
        remedy = f"{error.remedy[:1].upper()}{error.remedy[1:]}."
        yield Check(name, state, f"PyTorch's operators are not recorded: {error.reason}.", remedy)
    else:
        if version is not None:
            yield Check(name, State.OK, f"The library that records operators is built for PyTorch {version}.")
