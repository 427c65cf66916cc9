# SPDX-License-Identifier: Apache-2.0
"""Whether PyTorch's operators can be recorded."""

from __future__ import annotations

from collections.abc import Iterator

from torchspan import native
from torchspan._settings import resolved
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._switches import file_options
from torchspan.environment_variables import TORCHSPAN_NATIVE_BUILD, TORCHSPAN_OPERATORS


def operators(context: Context) -> Iterator[Check]:
    """Whether the built library fits the installed PyTorch. Nothing where that is not installed."""
    name = "operators.library"
    try:
        version = native.check_installed()
    except native.UnavailableError as error:
        rows = resolved({}, file=file_options(context), environment=context.environment)
        is_off = next(row.value for row in rows if row.setting.variable == TORCHSPAN_OPERATORS) == "off"
        is_note = is_off or context.variable(TORCHSPAN_NATIVE_BUILD) == "on"
        remedy = f"{error.remedy[:1].upper()}{error.remedy[1:]}."
        yield Check(
            name,
            State.NOTE if is_note else State.WARNING,
            f"PyTorch's operators are not recorded: {error.reason}.",
            remedy,
        )
        return
    if version is not None:
        yield Check(name, State.OK, f"The library that records operators is built for PyTorch {version}.")
