# SPDX-License-Identifier: Apache-2.0
"""Files of `torchspan.views`: written as a whole, and over no file but one of their kind."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterable, Iterator, Sequence

from torchspan._files.opening import open_own
from torchspan.answers.lines import printable
from torchspan.cli._command import CommandError
from torchspan.views import WRITTEN

_WHAT = "a page, a picture or a Perfetto file that torchspan wrote"


def write(path: str, pieces: Iterable[bytes], option: str, inputs: Sequence[str] = ()) -> None:
    """Write a file. An earlier one is replaced once all of the new one is there.

    Args:
        option: What names the file on the command line.
        inputs: Files that are not replaced in any case.

    Raises:
        CommandError: The file cannot be written, or is another one than those of `torchspan.views`.
    """
    with _nothing_collected():
        content = b"".join(pieces)
    try:
        with os.fdopen(_opened(path, inputs), "wb") as file:
            file.write(content)
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
        if os.path.lexists(path):
            os.close(open_own(path, WRITTEN, _WHAT))
        else:
            os.stat(os.path.dirname(path) or os.curdir)  # noqa: PTH116, PTH120 - as in `os.open`
    except OSError as error:
        raise _refusal(path, error, option) from None


def _refusal(path: str, error: OSError, option: str) -> CommandError:
    reason = f"cannot write {printable(path)}: {error.strerror or error}"
    return CommandError(f"{reason}; name another file: {option} <file>{_ENDINGS[option]}", 2)


_ENDINGS = {"--svg": ".svg", "--html": ".html", "--perfetto": ".pftrace"}


def _opened(path: str, inputs: Sequence[str]) -> int:
    """A descriptor of a new file, or of an earlier one, which is emptied. Raises OSError for any other file."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        opened = open_own(path, WRITTEN, _WHAT, inputs)
    os.ftruncate(opened, 0)
    return opened
