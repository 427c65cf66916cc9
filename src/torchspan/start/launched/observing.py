# SPDX-License-Identifier: Apache-2.0
"""`torchspan run --observe-inputs` in one process below it."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from torchspan.base import import_hooks
from torchspan.base.boundaries import ErrorBoundary
from torchspan.base.files.opening import system

if TYPE_CHECKING:
    from torchspan.base.files.folders import Folder
    from torchspan.start.launched.run_settings import RunSettings

SUFFIX = ".inputs"
"""Of the file with what one process observed, in the folder for reports; its stem is the process id."""


def begin(settings: RunSettings, reports: Folder) -> None:
    """Observe the classes that `settings` names until the process ends. Then write what was observed into `reports`.

    This covers an end of Python, also by an exception or `sys.exit`, and the end of a child of `multiprocessing`. If a signal, a crash
    or `os._exit` ends the process, its observations are lost.
    """
    from torchspan.inputs.port import ObservedProcess, documents

    observed = ObservedProcess(settings.inputs)
    boundary = ErrorBoundary("The observed inputs of this process were not written.")

    def write() -> None:
        reports.write(f"{system.getpid()}{SUFFIX}", documents.text_of(observed.document()).encode())

    def at_exit() -> None:
        boundary.attempt(write)

    atexit.register(at_exit)
    import_hooks.when_imported("multiprocessing.util", lambda _late: _at_ends_of_forked_children(at_exit))


def _at_ends_of_forked_children(at_exit: Callable[[], None]) -> Callable[[], None]:
    """`multiprocessing` ends forked children by `os._exit`, and runs only its own finalizers before that.

    It keeps a weak reference to the first argument. From Python 3.13 on, it clears what `atexit` has before it looks there.
    """
    util = sys.modules["multiprocessing.util"]
    util.register_after_fork(_nothing, lambda _: util.Finalize(None, at_exit, exitpriority=0))
    return _nothing


def _nothing() -> None:
    """It is for the life of the process."""
