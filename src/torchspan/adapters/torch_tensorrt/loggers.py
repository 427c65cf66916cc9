# SPDX-License-Identifier: Apache-2.0
"""Filters on the libraries' loggers, which add to records and stop none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from torchspan._base.errors import Guard
from torchspan.engine import Callback, Event, Undo
from torchspan.phase import COMPILE

LOGGERS = ("torch_tensorrt", "torch_tensorrt [TensorRT Conversion Context]")
"""The library's logger, with those below it, and the one to which it hands TensorRT's log: a child of the root."""


class LogMarker:
    """Has `mark` see every record that the loggers of Torch-TensorRT make, before any handler does.

    A filter, because it is the one thing that changes nothing else: a handler on a logger keeps Python from printing
    warnings where the program has set up no logging (`logging.lastResort`), and dictConfig takes it away. A filter
    sees only the records made by its own logger, so every one below has it too; those made since are looked for
    whenever a compilation starts.

    callback: what looks for them, for the engine's pipeline; it does nothing until `install`.
    """

    def __init__(self, guard: Guard, mark: Callable[[logging.LogRecord], None]) -> None:
        self._filter = _Marking(guard, mark)
        self._is_installed = False
        self.callback = Callback("looking for loggers", self._start, _nothing, frozenset({COMPILE}))

    def install(self) -> Undo:
        """Mark records from now on. Returns the undo."""
        self._is_installed = True
        self._look()
        return self._remove

    def _start(self, _event: Event) -> None:
        if self._is_installed:
            self._look()

    def _look(self) -> None:
        for each in _loggers():
            if self._filter not in each.filters:
                each.addFilter(self._filter)

    def _remove(self) -> None:
        self._is_installed = False
        for each in _loggers():
            each.removeFilter(self._filter)


class _Marking(logging.Filter):
    def __init__(self, guard: Guard, mark: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._guard = guard
        self._mark = mark

    def filter(self, record: logging.LogRecord) -> bool:
        self._guard.call("marking log records", self._mark, record)
        return True


def _loggers() -> Iterator[logging.Logger]:
    """Those that exist; none is made."""
    for name, each in list(logging.Logger.manager.loggerDict.items()):
        if isinstance(each, logging.Logger) and (name in LOGGERS or name.startswith(f"{LOGGERS[0]}.")):
            yield each


def _nothing(_event: Event, _context: None) -> None:
    """Nothing is left to do when a compilation ends."""
