# SPDX-License-Identifier: Apache-2.0
"""Files of `torchspan.reading.views`: written as a whole, and over no file but one of their kind."""

from __future__ import annotations

import contextlib
import gc
import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from torchspan.base.files.opening import open_own, replace_file
from torchspan.cli._command import CommandError
from torchspan.reading.answers.lines import printable
from torchspan.reading.views import WRITTEN

_WHAT = "a page, a picture or a Perfetto file that torchspan wrote"


def write(path: str, pieces: Iterable[bytes], option: str, inputs: Sequence[str] = ()) -> None:
    """Write a file. An earlier one is replaced once all of the new one is there.

    Args:
        option: What names the file on the command line.
        inputs: Files that are not replaced in any case.

    Raises:
        CommandError: The file cannot be written, or is another one than those of `torchspan.reading.views`.
    """
    with _nothing_collected():
        content = b"".join(pieces)
    try:
        replace_file(path, content, _mode(path, inputs))
    except OSError as error:
        raise _refusal(path, error, option) from None


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """Inside, no garbage is collected: a view makes many objects, none is garbage, and a collection looks at every span."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def check(path: str, option: str) -> None:
    """Raises CommandError if a file cannot be written later, as far as that is known now. Changes nothing."""
    try:
        if _mode(path) is None:
            os.stat(os.path.dirname(path) or os.curdir)  # noqa: PTH116, PTH120 - as in `os.open`
    except OSError as error:
        raise _refusal(path, error, option) from None


def _refusal(path: str, error: OSError, option: str) -> CommandError:
    reason = f"cannot write {printable(path)}: {error.strerror or error}"
    return CommandError(f"{reason}; name another file: {option} <file>{_ENDINGS[option]}", 2)


_ENDINGS = {"--svg": ".svg", "--html": ".html", "--perfetto": ".pftrace"}


def _mode(path: str, inputs: Sequence[str] = ()) -> int | None:
    """The permissions of an earlier file; None where there is none. Raises OSError for a file that is not replaced."""
    try:
        opened = open_own(path, WRITTEN, _WHAT, inputs)
    except FileNotFoundError:
        return None
    try:
        return stat.S_IMODE(os.fstat(opened).st_mode)
    finally:
        os.close(opened)
