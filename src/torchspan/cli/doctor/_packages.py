# SPDX-License-Identifier: Apache-2.0
"""What of OpenTelemetry is installed, and whether anything would configure its SDK."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distributions, entry_points, version
from typing import Any

from torchspan.cli.doctor._check import Check, Context, State

INSTALL = "pip install 'torchspan[auto]'"

CONFIGURED = (
    "OTEL_CONFIG_FILE",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_PYTHON_ID_GENERATOR",
)
"""Variables that ask for something and that a configurator alone reads."""


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
    version = installed("opentelemetry-sdk")
    facts = {"version": version}
    if version is None:
        yield Check(
            "sdk.installed",
            State.FAILED,
            "OpenTelemetry's SDK is not installed: spans and metrics go nowhere.",
            f"Install the SDK, exporters and what configures them: {INSTALL}",
            facts,
        )
        return
    yield Check("sdk.installed", State.OK, f"OpenTelemetry's SDK {version} is installed.", facts=facts)


def distro(context: Context) -> Iterator[Check]:
    """A distro sets the defaults of `opentelemetry-instrument`: with OpenTelemetry's own, OTLP over gRPC."""
    variable, name = "OTEL_PYTHON_DISTRO", "sdk.distro"
    wanted = context.environment.get(variable)  # as OpenTelemetry reads it: an empty name is a name
    distros = plugins("opentelemetry_distro", wanted)
    facts = {"variable": wanted, "found": [distro.value for distro in distros]}
    if wanted is not None and not distros:
        yield Check(
            name,
            State.FAILED,
            f"{variable}={wanted} names a distro that is not installed, so its defaults are not set.",
            f"Unset {variable}, or install the package that provides {wanted or 'the distro that you want'}.",
            facts,
        )
    elif not distros:
        yield Check(
            name,
            State.NOTE,
            "No distro is installed: only OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER choose exporters.",
            f"For exporters by default (OTLP over gRPC): {INSTALL}",
            facts,
        )
    else:
        yield Check(name, State.OK, f"The distro is {distros[0].value}.", facts=facts)


def configurator(context: Context) -> Iterator[Check]:
    """Without a configurator `opentelemetry-instrument` makes no provider."""
    variable, name = "OTEL_PYTHON_CONFIGURATOR", "sdk.configurator"
    wanted = context.environment.get(variable)
    configurators = plugins("opentelemetry_configurator", wanted)
    facts = {"variable": wanted, "found": [configurator.value for configurator in configurators]}
    if wanted is not None and not configurators:
        yield Check(
            name,
            State.FAILED,
            f"{variable}={wanted} names a configurator that is not installed: nothing configures the SDK.",
            f"Unset {variable}, or install the package that provides {wanted or 'the configurator that you want'}.",
            facts,
        )
    elif not configurators:
        asking = [variable for variable in CONFIGURED if context.variable(variable)]
        effect = f"{', '.join(asking)} {'have' if len(asking) > 1 else 'has'} no effect there"
        yield Check(
            name,
            State.FAILED if asking else State.WARNING,
            "No configurator is installed: nothing configures the SDK under `opentelemetry-instrument`, "
            + (f"and {effect}." if asking else "unless the program does it."),
            f"Install OpenTelemetry's own: {INSTALL}",
            facts,
        )
    else:
        summary = f"`opentelemetry-instrument` configures the SDK with {configurators[0].value}."
        yield Check(name, State.OK, summary, facts=facts)


def versions(_context: Context) -> Iterator[Check]:
    """OpenTelemetry's packages pin each other's versions, and pip does not keep a later installation from breaking that."""
    here, unmet = _versions(tuple(sys.path))
    name = "sdk.versions"
    if unmet:
        yield Check(
            name,
            State.WARNING,
            f"Packages of OpenTelemetry are incompatible: {'; '.join(unmet)}.",
            f"Install them in one command, so that pip finds compatible versions: {INSTALL} --upgrade. Where the OpenTelemetry "
            "Operator or PYTHONPATH puts other versions first, pip cannot change that: torchspan works with those that come first.",
            here,
        )
        return
    core = ", ".join(f"{package} {here[package]}" for package in _CORE if package in here)
    yield Check(name, State.OK, f"OpenTelemetry's packages are compatible: {core}.", facts=here)


_CORE = ("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-instrumentation")


@functools.lru_cache(maxsize=1)
def _versions(_search_path: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """The versions of OpenTelemetry's packages and torchspan's by their names, and the requirements that are not met."""
    packages: dict[str, Distribution] = {}
    for package in distributions():
        if package.name is not None and (package.name == "torchspan" or package.name.startswith("opentelemetry-")):
            packages.setdefault(package.name, package)  # of two with one name, the first on the path is imported
    here = {name: packages[name].version for name in sorted(packages)}
    return here, [text for name in here for text in _unmet(packages[name], here)]


def _unmet(package: Distribution, here: Mapping[str, str]) -> Iterator[str]:
    """The requirements of a package, extras apart, that these versions do not meet."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion

    for text in package.requires or ():
        try:
            asked = Requirement(text)
            if asked.name not in here or (asked.marker is not None and not asked.marker.evaluate({"extra": ""})):
                continue
            if not asked.specifier.contains(here[asked.name], prereleases=True):
                yield f"{package.name} {here[package.name]} requires {asked.name}{asked.specifier}, not {here[asked.name]}"
        except (InvalidRequirement, InvalidVersion):  # a vendor's build
            continue
