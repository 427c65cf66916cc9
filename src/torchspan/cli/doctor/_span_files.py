# SPDX-License-Identifier: Apache-2.0
"""Whether the file that traces are to be written to can be written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchspan._config_file import VARIABLE
from torchspan._files.opening import open_existing
from torchspan._settings import value_of
from torchspan.cli import _output as output
from torchspan.cli._command import CommandError
from torchspan.cli.doctor._check import Check, Context, State
from torchspan.cli.doctor._exporters import Exporter, UnknownExportersError, exporters
from torchspan.environment_variables import TORCHSPAN_FILE
from torchspan.sdk import _path
from torchspan.sdk._append_file import check_is_of_traces

_EXPORTER = "torchspan_file"
_NAME = "file.path"


def writable(context: Context) -> Iterable[Check]:
    """A row for each file: that of the exporter `torchspan_file`, and that of `torchspan run`. Makes no file."""
    chosen = list(_file_exporters(context))
    for exporter in chosen:
        yield _of_exporter(exporter, context)
    named = context.variable(TORCHSPAN_FILE)
    if named and not chosen:
        yield _of_run(named)


def _file_exporters(context: Context) -> Iterator[Exporter]:
    try:
        yield from (exporter for exporter in exporters("traces", context) if exporter.name == _EXPORTER)
    except UnknownExportersError:
        return  # a row of the exporters


def _of_exporter(exporter: Exporter, context: Context) -> Check:
    """As the exporter opens it."""
    declared = exporter.options.get("path")
    named = str(declared or value_of(TORCHSPAN_FILE, context.environment))
    source = VARIABLE if declared else TORCHSPAN_FILE if context.variable(TORCHSPAN_FILE) else ""
    facts = {"file": named, "source": source, "used_by": _EXPORTER}
    try:
        path = _path.expand(_path.absolute(named), pid=os.getpid(), time=_path.start_time())
        _try(path)
    except (OSError, ValueError) as error:
        remedy = f"Name a file in a folder where you may write: {TORCHSPAN_FILE}=<file>."
        if isinstance(error, OSError):
            reason = error.strerror or type(error).__name__
        else:  # a NUL character, which a configuration file may have
            reason = f"it is not a name that a file can have ({error})"
        return Check(_NAME, State.FAILED, f"{_EXPORTER} cannot write {named}: {reason}.", remedy, facts)
    return Check(_NAME, State.OK, f"{_EXPORTER} can write {named} ({source or 'default'}).", "", facts)


def _try(path: str) -> None:
    try:
        os.lstat(path)  # raises for a name that is too long, which Path.exists() hides
    except (FileNotFoundError, NotADirectoryError):
        output.try_folder(Path(path).parent)
        return
    opened = open_existing(path, os.O_APPEND)
    try:
        check_is_of_traces(opened, path)
    finally:
        os.close(opened)


def _of_run(named: str) -> Check:
    facts = {"file": named, "source": TORCHSPAN_FILE, "used_by": "torchspan run"}
    alone = f"`torchspan run` alone writes it: no exporter of traces is {_EXPORTER}"
    try:
        output.named(named, TORCHSPAN_FILE)
    except CommandError as error:
        summary, _, remedy = str(error).rpartition("; ")
        return Check(_NAME, State.FAILED, f"{summary}.", f"{remedy[:1].upper()}{remedy[1:]}.", facts)
    summary = f"{named} can be written ({TORCHSPAN_FILE}); {alone}."
    return Check(_NAME, State.OK, summary, f"To write it without `run`: OTEL_TRACES_EXPORTER={_EXPORTER}.", facts)
