# SPDX-License-Identifier: Apache-2.0
"""What `torchspan run --observe-inputs` leaves: one file for all processes of the program, alongside the traces."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import PurePath

from torchspan.base.files.folders import Folder
from torchspan.cli._output import Output, relative
from torchspan.inputs.port import Document, InputFileError, documents, merging
from torchspan.output.sdk import _path
from torchspan.start.launched.observing import SUFFIX


def conclude(reports: Folder, output: Output, paths: Sequence[str], say: Callable[[str], None]) -> bool:
    """Merge what the processes observed, write the file, and say where it is, and which classes were not seen.

    Returns whether calls were observed.

    Args:
        reports: The folder in which the processes have left it.
        output: Where the traces are.
        paths: The classes that were named.
    """
    parts = _parts(reports, say)
    for path, reason in _unseen(parts, paths).items():
        say(f"--observe-inputs {path}: {reason}")
    grouped = merging.grouped([observation for part in parts for observation in part.observations])
    if not grouped:
        return False
    file = _file(output)
    try:
        try:
            documents.write(Document(grouped), file)
        except OSError:
            # The user may have another file of this name.
            file = _file(output, f"-{secrets.token_hex(4)}")
            documents.write(Document(grouped), file)
    except OSError as error:
        say(
            f"the observed inputs are lost: cannot write {file}: {error.strerror or error}; name another file: --output <file>"
        )
        return True
    shown = relative(file)
    calls = ", ".join(f"{record['counts']['completed']:,} of {documents.title(record)}" for record in grouped)
    say(f"observed calls are in {shown} ({calls}); to read them: torchspan inputs {shown}")
    return True


def _parts(reports: Folder, say: Callable[[str], None]) -> list[Document]:
    parts = []
    for name in sorted(file_name for file_name in reports.names() if file_name.endswith(SUFFIX)):
        process = f"process {name.removesuffix(SUFFIX)}"
        try:
            parts.append(documents.parsed(reports.read(name, documents.LARGEST + 1), f"The file of {process}"))
        except (InputFileError, OSError) as error:
            say(f"the observed inputs of {process} are lost: {error}")
    return parts


def _unseen(parts: Sequence[Document], paths: Sequence[str]) -> dict[str, str]:
    """Why no process saw an object of a class: the reason of the process that came closest to one."""
    texts = {}
    for path in paths:
        if all(path in part.unseen for part in parts):
            reasons = [part.unseen[path] for part in parts]
            closer = [reason for reason in reasons if not reason.startswith("the program did not import")]
            texts[path] = (closer or reasons or ["no Python process of the program ended normally"])[0]
    return texts


def _file(output: Output, mark: str = "") -> str:
    """Alongside the traces: `traces.jsonl` has `traces.inputs.json`."""
    traces = PurePath(_path.expand(output.template, pid=os.getpid(), time=""))
    return str(traces.with_name(f"{traces.stem}{mark}.inputs.json"))
