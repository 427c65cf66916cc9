# SPDX-License-Identifier: Apache-2.0
"""Filters on the libraries' loggers. They add attributes to records and drop none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from torchspan._base.errors import Guard
from torchspan.engine import Callback, Event, Undo
from torchspan.phase import COMPILE

LOGGERS = ("torch_tensorrt", "torch_tensorrt [TensorRT Conversion Context]")
"""The library's logger (loggers below it are included), and the logger that receives TensorRT's log: a child of the root logger."""


class LogMarker:
    """Calls `mark` with every record of Torch-TensorRT's loggers, before any handler receives the record.

    It uses a filter, because a filter has no side effects. A handler on a logger would keep Python from printing warnings if
    the program has not configured logging (`logging.lastResort`), and dictConfig would remove the handler. A filter receives
    only the records of its own logger, so every logger below has the filter as well. New loggers are searched for whenever a
    compilation starts.

    callback: searches for new loggers, in the engine's pipeline. It does nothing until `install`.
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
        for logger in _loggers():
            if self._filter not in logger.filters:
                logger.addFilter(self._filter)

    def _remove(self) -> None:
        self._is_installed = False
        for logger in _loggers():
            logger.removeFilter(self._filter)


class _Marking(logging.Filter):
    def __init__(self, guard: Guard, mark: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._guard = guard
        self._mark = mark

    def filter(self, record: logging.LogRecord) -> bool:
        self._guard.call("marking log records", self._mark, record)
        return True


def _loggers() -> Iterator[logging.Logger]:
    """The loggers that exist. None is created."""
    for name, each in list(logging.Logger.manager.loggerDict.items()):
        if isinstance(each, logging.Logger) and (name in LOGGERS or name.startswith(f"{LOGGERS[0]}.")):
            yield each


def _nothing(_event: Event, _context: None) -> None:
    """Nothing to do when a compilation ends."""
