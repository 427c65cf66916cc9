# SPDX-License-Identifier: Apache-2.0
"""`torchspan probes`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from torchspan.cli._command import CommandError
from torchspan.cli._terminal import Terminal
from torchspan.reading.answers.lines import Line, Style, broken, printable

if TYPE_CHECKING:
    from torchspan.hooks.adapters import ResolvedProbe

_STYLES = {"resolved": Style.DIM, "absent": Style.ERROR}
_LIBRARY = "torch_tensorrt"
_PLAIN = ("tensorrt", "tensorrt_rtx")
_OF_TORCH = ("torch._dynamo", "torch._inductor.async_compile", "torch.export._trace")
"""Modules of PyTorch with hook points, which `import torch` leaves out."""


class ProbesCommand:
    """Show the hook points in torch.compile, torch.export, Torch-TensorRT and TensorRT: whether each resolves here, and why it exists.

    Imports those of torch_tensorrt, tensorrt, tensorrt_rtx and torch that are installed. On a machine without a GPU, it
    calls torchspan.testing.without_gpu() before it imports torch_tensorrt.
    Exit status 1: a hook point that this version should have is absent, or none of these libraries is installed.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """None: the table is one."""

    def run(self, arguments: argparse.Namespace) -> int:  # noqa: ARG002 - the protocol's signature
        from torchspan.hooks import adapters

        import_libraries()
        resolved = adapters.resolve_probes()
        terminal = Terminal(sys.stdout)
        terminal.write(table(resolved, terminal.width))
        terminal.write(summary(resolved, adapters.versions(), terminal.width))
        return 1 if any(row.status == "absent" for row in resolved) else 0


def table(resolved: Sequence[ResolvedProbe], width: int) -> Iterator[Line]:
    """Three parts a probe: what happened to it and the target, what is done there, why."""
    from torchspan.hooks import probes

    for row in resolved:
        probe = row.probe
        status = row.status if row.status == "resolved" else f"{row.status}{f': {row.detail}' if row.detail else ''}"
        yield [(printable(probe.target), Style.STRONG)]
        phases = ", ".join(phase.name for phase in probes.phases_of(probe.action))
        done = f"{type(probe.action).__name__.lower()} {phases}".rstrip()
        detail = f" (at detail {probe.detail})" if probe.detail != "stages" else ""
        yield [
            ("  ", Style.PLAIN),
            (printable(status), _STYLES.get(row.status, Style.FALLBACK)),
            (f"; {done}{detail}", Style.PLAIN),
        ]
        yield from ([(f"  {piece}", Style.DIM)] for piece in broken(probe.why, width - 2))


def summary(resolved: Sequence[ResolvedProbe], versions: Mapping[str, str], width: int) -> Iterator[Line]:
    """How many resolved, the versions here, and whether torchspan is tested with them."""
    from torchspan.hooks.probes import SUPPORTED, parse_version

    counts = Counter(row.status for row in resolved)
    text = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    yield [("", Style.PLAIN)]
    yield [(f"{len(resolved)} hook points: {text}", Style.STRONG)]
    here = ", ".join(f"{name} {version}" for name, version in {**versions, "Python": platform.python_version()}.items())
    yield from ([(piece, Style.PLAIN)] for piece in broken(here, width))
    if _LIBRARY in versions:
        oldest, newest = (".".join(map(str, number)) for number in SUPPORTED)
        number = parse_version(versions[_LIBRARY])
        verdict = "inside" if number is not None and SUPPORTED[0] <= number <= SUPPORTED[1] else "outside"
        text = f"torch_tensorrt is {verdict} the range that torchspan is tested with, {oldest} to {newest}"
        yield [(text, Style.PLAIN)]


def import_libraries() -> None:
    """Import torch_tensorrt, with the stand-in where there is no GPU, TensorRT, and what PyTorch compiles and exports with.

    Raises CommandError where that fails.
    """
    names = [name for name in (_LIBRARY, *_PLAIN) if importlib.util.find_spec(name) is not None]
    if importlib.util.find_spec("torch") is not None:
        names.extend(_OF_TORCH)
    elif _LIBRARY in names:
        names.remove(_LIBRARY)
    if not names:
        raise CommandError(
            "none of torch_tensorrt, tensorrt and tensorrt_rtx is installed in this Python; "
            "install one of them, for example with: pip install 'torchspan[rtx]'"
        )
    logging.disable(logging.WARNING)  # what the library says about packages that it would like has no place in a table
    try:
        if _LIBRARY in names and not importlib.import_module("torch").cuda.is_available():
            from torchspan.testing import without_gpu

            without_gpu()
        for name in names:
            _import(name)
    finally:
        logging.disable(logging.NOTSET)


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception as error:
        raise CommandError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
