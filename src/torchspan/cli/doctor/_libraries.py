# SPDX-License-Identifier: Apache-2.0
"""Which Python and which observed libraries are here, by their metadata: nothing is imported."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from typing import NamedTuple

from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._packages import installed
from torchspan.probes import SUPPORTED, parse_version

_PYTHONS = ((3, 10), (3, 14))
"""Oldest Python, and the first that torchspan is not tested with."""

_TENSORRT = ("cu13", "cu12", "cu11")
"""Suffixes of TensorRT's packages for one CUDA each. `tensorrt` alone is a package that asks for one of them."""


class Library(NamedTuple):
    """An observed library.

    Attributes:
        module: Its import name.
        distributions: Those that bring it.
        does: What torchspan records of it.
    """

    module: str
    distributions: tuple[str, ...]
    does: str


TORCH = Library("torch", ("torch",), "torch.compile, torch.export, and the time of their import")
TORCH_TENSORRT = Library(
    "torch_tensorrt", ("torch-tensorrt", "torch-tensorrt-rtx"), "compilations, fallback, engines and their runs"
)
TENSORRTS = tuple(
    Library(name, (name, *(f"{name}_{cuda}" for cuda in _TENSORRT)), "engine builds, and runs outside Torch-TensorRT")
    for name in ("tensorrt", "tensorrt_rtx")
)


def python(_context: Context) -> Iterator[Check]:
    """The Python that runs doctor, which is the one that programs would be started with."""
    here = platform.python_version()
    oldest, untested = (".".join(map(str, version)) for version in _PYTHONS)
    facts = {"version": here, "executable": sys.executable}
    if sys.version_info < _PYTHONS[1]:
        yield Check("python.version", State.OK, f"Python {here} at {sys.executable}.", facts=facts)
        return
    yield Check(
        "python.version",
        State.NOTE,
        f"Python {here} at {sys.executable}; torchspan is tested with {oldest} up to the last before {untested}.",
        facts=facts,
    )


def libraries(_context: Context) -> Iterator[Check]:
    """What is there to be observed."""
    installed = {library: _found(library) for library in (TORCH, TORCH_TENSORRT, *TENSORRTS)}
    yield _torch(installed[TORCH])
    yield _torch_tensorrt(installed[TORCH_TENSORRT], installed[TORCH])
    for library in TENSORRTS:
        yield _tensorrt(library, installed[library])
    yield _observed([library for library, names in installed.items() if names])


def torch_compile(context: Context) -> Iterator[Check]:
    """PyTorch's own switch. Nothing where PyTorch is not installed."""
    variable, name = "TORCH_COMPILE_DISABLE", "compile.enabled"
    if importlib.util.find_spec("torch") is None:
        return
    if context.variable(variable) == "1":
        summary = f"{variable}=1: torch.compile compiles nothing, and a trace has no frames."
        yield Check(name, State.WARNING, summary, f"Unset {variable} to compile.", {"enabled": False})
        return
    summary = "torch.compile is not disabled; each frame that it compiles is a span, whatever the backend."
    yield Check(name, State.OK, summary, facts={"enabled": True})


def _found(library: Library) -> dict[str, str]:
    """Distribution -> version, of those that bring the library; its module's name and `unknown`, where metadata is missing."""
    versions = {name: installed(name) for name in library.distributions}
    versions_by_name = {name: version for name, version in versions.items() if version is not None}
    if importlib.util.find_spec(library.module) is None:
        return {}
    return versions_by_name or {library.module: "unknown"}


def _missing(library: Library) -> Check:
    return Check(
        f"libraries.{library.module}", State.NOTE, f"{library.module} is not installed.", facts={"distributions": {}}
    )


def _torch(versions: dict[str, str]) -> Check:
    if not versions:
        return _missing(TORCH)
    (version,) = versions.values()
    return Check("libraries.torch", State.OK, f"torch {version} is installed.", facts={"distributions": versions})


def _torch_tensorrt(versions: dict[str, str], torch: dict[str, str]) -> Check:
    if not versions:
        return _missing(TORCH_TENSORRT)
    name, facts = "libraries.torch_tensorrt", {"distributions": versions}
    listed = _listed(versions)
    if len(versions) > 1:
        return Check(
            name,
            State.WARNING,
            f"{listed} are installed, and both contain the module torch_tensorrt: which of their files are in place is a matter of chance.",
            "Uninstall both, then install the one that you want.",
            facts,
        )
    ((package, version),) = versions.items()
    asked = _asked(package, torch)
    if asked:
        return Check(
            name,
            State.WARNING,
            f"{listed} requires {asked}, but torch {torch['torch']} is installed: its import or a later call may fail.",
            "Install the torch that it requires.",
            facts,
        )
    oldest, newest = (".".join(map(str, version)) for version in SUPPORTED)
    number = parse_version(version)
    if number is None or not SUPPORTED[0] <= number <= SUPPORTED[1]:
        return Check(
            name,
            State.WARNING,
            f"{listed} is outside the versions that torchspan is tested with, {oldest} to {newest}: the hook points that resolve are used.",
            "See what resolves: torchspan doctor --probe",
            facts,
        )
    return Check(name, State.OK, f"{listed} is installed; torchspan is tested with {oldest} to {newest}.", facts=facts)


def _tensorrt(library: Library, versions: dict[str, str]) -> Check:
    if not versions:
        return _missing(library)
    name, facts = f"libraries.{library.module}", {"distributions": versions}
    if len({*versions.values()}) > 1:
        return Check(
            name,
            State.WARNING,
            f"{_listed(versions)} are installed, in different versions: which of them `import {library.module}` finds is a matter of chance.",
            "Uninstall all of them, then install the one that you want.",
            facts,
        )
    return Check(name, State.OK, f"{_listed(versions)} {'are' if len(versions) > 1 else 'is'} installed.", facts=facts)


def _observed(libraries: Sequence[Library]) -> Check:
    name = "instrumentation.libraries"
    facts = {"libraries": [library.module for library in libraries]}
    if not libraries:
        return Check(
            name,
            State.WARNING,
            "Neither torch, torch_tensorrt nor TensorRT is installed here: there is nothing to trace but a program's own functions.",
            "Run doctor with the Python of the program that is to be traced, or install one of them: "
            "pip install 'torchspan[rtx]'",
            facts,
        )
    summary = f"Traced once the program imports it: {'; '.join(f'{library.module} ({library.does})' for library in libraries)}."
    if libraries == [TORCH]:
        return Check(
            name,
            State.NOTE,
            f"{summary} Neither torch_tensorrt nor TensorRT is installed here.",
            "To trace them: run doctor with the Python of the program, or pip install 'torchspan[rtx]'",
            facts,
        )
    return Check(name, State.OK, summary, facts=facts)


def _asked(package: str, torch: dict[str, str]) -> str:
    """The requirement of the package that the installed torch does not meet; empty if there is none."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion

    if not torch or "torch" not in torch:
        return ""
    for text in distribution(package).requires or () if installed(package) else ():
        try:
            requirement = Requirement(text)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if requirement.name == "torch" and applies:
                fits = requirement.specifier.contains(torch["torch"], prereleases=True)
                return "" if fits else f"torch{requirement.specifier}"
        except (InvalidRequirement, InvalidVersion):  # a vendor's build
            continue
    return ""


def _listed(versions: dict[str, str]) -> str:
    return " and ".join(f"{name} {version}" for name, version in versions.items())
