# SPDX-License-Identifier: Apache-2.0
"""Which Python and which observed libraries are here, by their metadata: nothing is imported."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator

from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import installed
from torchspan.probes import SUPPORTED, parse_version

_TORCH_TENSORRT = "torch_tensorrt"
_DISTRIBUTIONS = {
    "torch": ("torch",),
    _TORCH_TENSORRT: ("torch-tensorrt", "torch-tensorrt-rtx"),
    **{name: (name, *(f"{name}_{cuda}" for cuda in ("cu13", "cu12", "cu11"))) for name in ("tensorrt", "tensorrt_rtx")},
}
"""Module of an observed library -> the distributions that bring it."""


def python(_context: Context) -> Iterator[Check]:
    """The Python that runs doctor, which is the one that programs would be started with."""
    yield Check("python.version", State.OK, f"Python {platform.python_version()} at {sys.executable}.")


def libraries(_context: Context) -> Iterator[Check]:
    """What is there to be observed."""
    for module, distributions in _DISTRIBUTIONS.items():
        versions = {name: version for name in distributions if (version := installed(name)) is not None}
        yield _library(module, versions)


def torch_compile(context: Context) -> Iterator[Check]:
    """PyTorch's own switch. Nothing where it is not used."""
    variable, name = "TORCH_COMPILE_DISABLE", "compile.enabled"
    if context.variable(variable) == "1":
        summary = f"{variable}=1: torch.compile compiles nothing, and a trace has no frames."
        yield Check(name, State.WARNING, summary, f"Unset {variable} to compile.")


def _library(module: str, versions: dict[str, str]) -> Check:
    name = f"libraries.{module}"
    if importlib.util.find_spec(module) is None:
        remedy = "If the program uses it: run doctor with the Python of the program."
        return Check(name, State.NOTE, f"{module} is not installed.", remedy, {"distributions": {}})
    listed = " and ".join(f"{package} {version}" for package, version in versions.items()) or module
    verb, facts = "are" if len(versions) > 1 else "is", {"distributions": versions}
    if module != _TORCH_TENSORRT:
        return Check(name, State.OK, f"{listed} {verb} installed.", facts=facts)
    oldest, newest = (".".join(map(str, version)) for version in SUPPORTED)
    numbers = [parse_version(version) for version in versions.values()]
    if all(number is not None and SUPPORTED[0] <= number <= SUPPORTED[1] for number in numbers):
        summary = f"{listed} {verb} installed; torchspan is tested with {oldest} to {newest}."
        return Check(name, State.OK, summary, facts=facts)
    summary = f"{listed} {verb} outside the versions that torchspan is tested with, {oldest} to {newest}: the hook points that resolve are used."
    return Check(name, State.WARNING, summary, "See what resolves: torchspan probes", facts)
