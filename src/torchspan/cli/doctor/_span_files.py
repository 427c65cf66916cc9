# SPDX-License-Identifier: Apache-2.0
"""Whether the file that traces are to be written to can be written."""

from __future__ import annotations

import os
from collections.abc import Iterable

from torchspan._settings import value_of
from torchspan.cli import _output as output
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._exporters import known_exporters
from torchspan.environment_variables import TORCHSPAN_FILE
from torchspan.sdk import _path

_EXPORTER = "torchspan_file"
_NAME = "file.path"


def writable(context: Context) -> Iterable[Check]:
    """A row for the file of the exporter `torchspan_file`. Makes no file."""
    chosen = [exporter for exporter in known_exporters(context, "traces") if exporter.name == _EXPORTER]
    named = context.variable(TORCHSPAN_FILE)
    if chosen:
        yield _of_exporter(context)
    elif named and context.file is None:
        alone = f"`torchspan run` alone writes it: no exporter of traces is {_EXPORTER}"
        remedy = f"To write it without `run`: OTEL_TRACES_EXPORTER={_EXPORTER}."
        yield Check(_NAME, State.NOTE, f"{TORCHSPAN_FILE}={named}: {alone}.", remedy, {"file": named})


def _of_exporter(context: Context) -> Check:
    """As the exporter opens it."""
    named = str(value_of(TORCHSPAN_FILE, context.environment))
    source = TORCHSPAN_FILE if context.variable(TORCHSPAN_FILE) else "default"
    facts = {"file": named}
    try:
        path = _path.expand(_path.absolute(named), pid=os.getpid(), time=_path.start_time())
        output.try_file(path)
    except OSError as error:
        remedy = f"Name a file in a folder where you may write: {TORCHSPAN_FILE}=<file>."
        reason = error.strerror or type(error).__name__
        return Check(_NAME, State.FAILED, f"{_EXPORTER} cannot write {named}: {reason}.", remedy, facts)
    return Check(_NAME, State.OK, f"{_EXPORTER} can write {named} ({source}).", "", facts)
