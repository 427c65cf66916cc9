# SPDX-License-Identifier: Apache-2.0
"""torchspan's plug-ins of the SDK that a variable has to name: the sampler and the id generator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._configuration import LOST
from torchspan.cli.doctor._packages import plugins
from torchspan.sdk._rule_texts import parsed

TORCHSPAN = "torchspan"
_SAMPLERS = (TORCHSPAN, "parentbased_torchspan")
_RATIOS = ("traceidratio", "parentbased_traceidratio")
_OFF = ("always_off", "parentbased_always_off")
_BUILT_IN = ("always_on", "parentbased_always_on", *_OFF, *_RATIOS)
_DEFAULT_SAMPLER = "parentbased_always_on"

_NEVER_READ = "The configuration file cannot be used, so nothing is set."


def sampler(context: Context) -> Iterator[Check]:
    """Which spans are kept, and what torchspan's sampler would do."""
    variable, name = "OTEL_TRACES_SAMPLER", "sdk.sampler"
    if context.file is not None:
        yield _in_file(context, name, ("tracer_provider", "sampler"), _SAMPLERS, _FOREIGN, "parentbased_torchspan")
        return
    configured, argument = context.variable(variable), context.environment.get(f"{variable}_ARG")
    facts = {"variable": configured or None, "argument": argument}
    remedy = (
        f"To keep every compilation, and to sample the rest by rules: {variable}=parentbased_torchspan. {_OWN_PROVIDER} "
        f"{_SAMPLER_ARGUMENT}"
    )
    word = configured.lower() if configured.lower() in _BUILT_IN else configured
    if not configured:
        summary = f"{variable} is not set: {_DEFAULT_SAMPLER} decides. {_FOREIGN}"
        yield Check(name, State.NOTE, summary, remedy, facts)
    elif word in _SAMPLERS:
        yield _torchspan_sampler(name, f"{variable}={configured}", argument, facts)
    elif word in _OFF:
        kept = "no trace" if word == "always_off" else "no trace that begins in the program"
        yield Check(name, State.WARNING, f"{variable}={configured}: {kept} is recorded.", remedy, facts)
    elif word in _RATIOS and not _is_share(argument):
        setting = f"{variable}_ARG={argument}" if argument is not None else f"{variable}_ARG is not set"
        summary = f"{variable}={configured} with a ratio of 1: {setting}, where a number from 0 to 1 is expected."
        yield Check(name, State.FAILED, summary, f"Set {variable}_ARG, to 0.1 for example.", facts)
    elif word in _BUILT_IN or plugins("opentelemetry_traces_sampler", configured):
        yield Check(name, State.NOTE, f"{variable}={configured}. {_FOREIGN}", remedy, facts)
    else:
        summary = f"{variable}={configured} names a sampler that is not installed: {_DEFAULT_SAMPLER} decides."
        yield Check(name, State.FAILED, summary, f"Correct the name. {remedy}", facts)


_OWN_PROVIDER = (
    "Only OpenTelemetry's configurator reads it; a program that creates its own provider passes the argument:"
)
_SAMPLER_ARGUMENT = "TracerProvider(sampler=torchspan.sdk.ParentBasedTorchspanSampler())"
_IDS_ARGUMENT = "TracerProvider(id_generator=torchspan.sdk.TorchspanIdGenerator())"

_FOREIGN = "It drops compilations below a parent that is not sampled; they remain in the metrics."


def _torchspan_sampler(name: str, setting: str, argument: str | None, facts: Mapping[str, Any]) -> Check:
    refused = [rule for rule in parsed(argument) if isinstance(rule, str)]
    if refused:
        summary = f"{setting}: the sampler ignores {' It ignores '.join(refused)}"
        return Check(name, State.FAILED, summary, "Correct the rules that are ignored, or remove them.", facts)
    rules = f" Rules: {argument}." if argument else ""
    summary = f"{setting}: compilations are kept, engine runs and other spans sampled by rules.{rules}"
    return Check(name, State.OK, summary, facts=facts)


def _is_share(text: str | None) -> bool:
    try:
        return 0 <= float(text or "") <= 1
    except ValueError:
        return False


_RANDOM = (
    "Ids of the program's spans come from Python's global random generator: `random.seed()` makes them repeat, the same in "
    "every rank, and each id changes the numbers that the program draws. Ids of torchspan's spans do not come from it."
)


def id_generator(context: Context) -> Iterator[Check]:
    """Where the ids of the program's own spans come from."""
    variable, name = "OTEL_PYTHON_ID_GENERATOR", "sdk.id_generator"
    if context.file is not None:
        yield _in_file(context, name, ("tracer_provider", "id_generator"), (TORCHSPAN,), _RANDOM, TORCHSPAN)
        return
    configured = context.environment.get(variable)  # as OpenTelemetry reads it: an empty name is a name
    facts = {"variable": configured}
    remedy = f"Set {variable}={TORCHSPAN}. {_OWN_PROVIDER} {_IDS_ARGUMENT}"
    if configured is None:
        yield Check(name, State.NOTE, f"{variable} is not set. {_RANDOM}", remedy, facts)
    elif configured.strip() == TORCHSPAN:
        yield Check(name, State.OK, f"{variable}={configured}: ids do not repeat after `random.seed()`.", facts=facts)
    elif configured.strip() == "random":
        yield Check(name, State.NOTE, f"{variable}={configured}. {_RANDOM}", remedy, facts)
    elif plugins("opentelemetry_id_generator", configured.strip()):
        yield Check(name, State.NOTE, f"{variable}={configured}.", facts=facts)
    else:
        yield Check(
            name,
            State.FAILED,
            f"{variable}={configured} names an id generator that is not installed: {LOST}",
            f"Unset {variable}, or set it to {TORCHSPAN}.",
            facts,
        )


def _in_file(
    context: Context, name: str, path: tuple[str, ...], own: tuple[str, ...], without: str, wanted: str
) -> Check:
    """What the configuration file names at a path, which takes the place of the variable.

    Args:
        own: torchspan's names for it.
        without: What another one means.
        wanted: The name to set.
    """
    file = context.file
    if file is None or file.problem:
        return Check(name, State.NOTE, _NEVER_READ, "See sdk.configuration.")
    place = ".".join(path).replace("_development", "/development")
    node = file.node(*path)
    kinds = _kinds(node)
    facts = {"file": kinds}
    unknown = [kind for kind in _added(node) if not plugins(_GROUPS[path[-1]], kind)]
    if unknown:
        summary = f"{place} in the configuration file: no installed package provides {', '.join(unknown)}. {LOST}"
        return Check(name, State.FAILED, summary, "Correct the name.", facts)
    if {*own} & {*kinds}:
        return Check(name, State.OK, f"{place} in the configuration file: {', '.join(kinds)}.", facts=facts)
    source = f"{place} in the configuration file: {', '.join(kinds)}." if kinds else f"{place} is not in the file."
    return Check(name, State.NOTE, f"{source} {without}", f"To use torchspan's: name {wanted} there.", facts)


_GROUPS = {
    "sampler": "opentelemetry_sampler",
    "id_generator": "opentelemetry_id_generator",
}
"""Node of the file -> the group of entry points that its names come from."""


def _added(node: Any) -> list[str]:
    """The names in a node that are not in OpenTelemetry's schema, also of nodes inside it: plug-ins."""
    if isinstance(node, list):
        return [name for child in node for name in _added(child)]
    if not is_dataclass(node) or isinstance(node, type):
        return []
    inner = [name for field in fields(node) for name in _added(getattr(node, field.name))]
    return [*getattr(node, "additional_properties", {}), *inner]


def _kinds(node: Any) -> list[str]:
    """The names that a node of the model chooses, of a list of nodes those of each."""
    if isinstance(node, list):
        return [name for child in node for name in _kinds(child)]
    if node is None:
        return []
    chosen = [field.name for field in fields(node) if getattr(node, field.name) is not None]
    return [*chosen, *getattr(node, "additional_properties", {})]
