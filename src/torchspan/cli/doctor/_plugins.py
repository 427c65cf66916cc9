# SPDX-License-Identifier: Apache-2.0
"""torchspan's plug-ins of the SDK that a variable has to name: the sampler and the id generator."""

from __future__ import annotations

from collections.abc import Iterator

from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._configuration import LOST
from torchspan.cli.doctor._packages import plugins
from torchspan.sdk._rule_texts import parsed

_SAMPLERS = ("torchspan", "parentbased_torchspan")
_RATIOS = ("traceidratio", "parentbased_traceidratio")
_OFF = ("always_off", "parentbased_always_off")
_BUILT_IN = ("always_on", "parentbased_always_on", *_OFF, *_RATIOS)
_DEFAULT_SAMPLER = "parentbased_always_on"

_OWN_PROVIDER = (
    "Only OpenTelemetry's configurator reads it; a program that creates its own provider passes the argument:"
)
_FOREIGN = "It drops compilations below a parent that is not sampled; they remain in the metrics."
_TO_KEEP = (
    "To keep every compilation, and to sample the rest by rules: OTEL_TRACES_SAMPLER=parentbased_torchspan. "
    f"{_OWN_PROVIDER} TracerProvider(sampler=torchspan.sdk.ParentBasedTorchspanSampler())"
)


def sampler(context: Context) -> Iterator[Check]:
    """Which spans are kept, and what torchspan's sampler would do. Nothing where a configuration file has the sampler."""
    if context.file is None:
        yield _sampler("OTEL_TRACES_SAMPLER", context)


def _sampler(variable: str, context: Context) -> Check:
    name, argument = "sdk.sampler", context.variable(f"{variable}_ARG")
    configured = context.variable(variable)
    word = configured.lower() if configured.lower() in _BUILT_IN else configured
    setting = f"{variable}={configured}"
    if not configured:
        return Check(name, State.NOTE, f"{variable} is not set: {_DEFAULT_SAMPLER} decides. {_FOREIGN}", _TO_KEEP)
    if word in _SAMPLERS:
        return _own_sampler(name, setting, argument)
    if word in _OFF:
        return Check(name, State.WARNING, f"{setting}: no trace that begins in the program is recorded.", _TO_KEEP)
    if word in _RATIOS:
        return _ratio(name, setting, f"{variable}_ARG", argument)
    if word in _BUILT_IN or plugins("opentelemetry_traces_sampler", configured):
        return Check(name, State.NOTE, f"{setting}. {_FOREIGN}", _TO_KEEP)
    summary = f"{setting} names a sampler that is not installed: {_DEFAULT_SAMPLER} decides."
    return Check(name, State.FAILED, summary, f"Correct the name. {_TO_KEEP}")


def _own_sampler(name: str, setting: str, argument: str) -> Check:
    refused = [rule for rule in parsed(argument) if isinstance(rule, str)]
    if refused:
        summary = f"{setting}: the sampler ignores {' It ignores '.join(refused)}"
        return Check(name, State.FAILED, summary, "Correct the rules that are ignored, or remove them.")
    rules = f" Rules: {argument}." if argument else ""
    summary = f"{setting}: compilations are kept, engine runs and other spans sampled by rules.{rules}"
    return Check(name, State.OK, summary)


def _ratio(name: str, setting: str, variable: str, argument: str) -> Check:
    """What a ratio drops: it decides alone."""
    try:
        ratio = float(argument)
    except ValueError:
        ratio = -1
    if not 0 <= ratio <= 1:
        summary = f"{setting} with a ratio of 1: {variable}={argument}, where a number from 0 to 1 is expected."
        return Check(name, State.FAILED, summary, f"Set {variable}, to 0.1 for example.")
    if ratio == 1:
        return Check(name, State.NOTE, f"{setting} with 1. {_FOREIGN}", _TO_KEEP)
    summary = f"{setting} with {ratio:g} drops {100 - 100 * ratio:g} of 100 traces, whatever they contain: of the compilations in these, the metrics alone remain."
    remedy = f"To keep every compilation: OTEL_TRACES_SAMPLER=parentbased_torchspan, {variable}=other={ratio:g}"
    return Check(name, State.WARNING, summary, remedy)


_RANDOM = (
    "Ids of the program's spans come from Python's global random generator: `random.seed()` makes them repeat, the same in "
    "every rank, and each id changes the numbers that the program draws. Ids of torchspan's spans do not come from it."
)


def id_generator(context: Context) -> Iterator[Check]:
    """Where the ids of the program's own spans come from. Nothing where a configuration file has the generator."""
    variable, name = "OTEL_PYTHON_ID_GENERATOR", "sdk.id_generator"
    if context.file is not None:
        return
    configured = context.environment.get(variable)  # as OpenTelemetry reads it: an empty name is a name
    word = "random" if configured is None else configured.strip()
    setting = f"{variable} is not set" if configured is None else f"{variable}={configured}"
    if word == "torchspan":
        yield Check(name, State.OK, f"{setting}: ids do not repeat after `random.seed()`.")
    elif word == "random":
        argument = "TracerProvider(id_generator=torchspan.sdk.TorchspanIdGenerator())"
        remedy = f"Set {variable}=torchspan. {_OWN_PROVIDER} {argument}"
        yield Check(name, State.NOTE, f"{setting}. {_RANDOM}", remedy)
    elif plugins("opentelemetry_id_generator", word):
        yield Check(name, State.NOTE, f"{setting}.")
    else:
        summary = f"{setting} names an id generator that is not installed: {LOST}"
        yield Check(name, State.FAILED, summary, f"Unset {variable}, or set it to torchspan.")
