# SPDX-License-Identifier: Apache-2.0
"""What of torch.compile can be observed here: PyTorch's own switches, and its records for tlparse."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from torchspan.cli.doctor._check import Check, Context, State

_OFF, _TRACE, _DEBUG = "TORCH_COMPILE_DISABLE", "TORCH_TRACE", "TORCH_COMPILE_DEBUG"


def torch_compile(context: Context) -> Iterator[Check]:
    """Nothing where PyTorch is not installed."""
    if find_spec("torch") is None:
        return
    yield _enabled(context)
    yield _records(context)


def _enabled(context: Context) -> Check:
    """`torch._dynamo.config.disable` is read from the variable once."""
    name = "compile.enabled"
    if context.variable(_OFF) == "1":
        return Check(
            name,
            State.WARNING,
            f"{_OFF}=1: torch.compile compiles nothing, and a trace has no frames.",
            f"Unset {_OFF} to compile.",
            {"enabled": False},
        )
    return Check(
        name,
        State.OK,
        "torch.compile is not disabled; each frame that it compiles is a span, whatever the backend.",
        facts={"enabled": True},
    )


def _records(context: Context) -> Check:
    """PyTorch writes its records where a folder is named, and below that of its debug output."""
    name, variable = "compile.trace", _TRACE
    if not context.variable(_TRACE):
        variable = _DEBUG if context.variable(_DEBUG) == "1" else ""
    if not variable:
        return Check(name, State.OK, f"PyTorch writes no records for tlparse: {_TRACE} is not set.", facts={"by": None})
    return Check(
        name,
        State.NOTE,
        f"{variable} is set: PyTorch writes records for tlparse, and compilations last longer. They identify a frame by the compile "
        "id in its span's `torch.compile.id`, and its trace by a W3C traceparent in `recompile_user_contexts`.",
        f"To measure compilations: unset {variable}.",
        {"by": variable},
    )
