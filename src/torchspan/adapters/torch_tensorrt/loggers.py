# SPDX-License-Identifier: Apache-2.0
"""Filters on the libraries' loggers, which add to records and stop none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from torchspan.engine import Callback, Engine, Event, Undo
from torchspan.phase import COMPILE

LOGGERS = ("torch_tensorrt", "torch_tensorrt [TensorRT Conversion Context]")
"""The library's logger, with those below it, and the one to which it hands TensorRT's log: a child of the root."""


def mark_log_records(engine: Engine, mark: Callable[[logging.LogRecord], None]) -> Undo:
    """Have `mark` see every record that the loggers of Torch-TensorRT make, before any handler does. Returns the undo.

    A filter, because it is the one thing that changes nothing else: a handler on a logger keeps Python from printing
    warnings where the program has set up no logging (`logging.lastResort`), and dictConfig takes it away. A filter
    sees only the records made by its own logger, so every one below has it too; those made since are looked for
    whenever a compilation starts.
    """
    guard = engine.guard

    class MarkRecords(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            guard.call("marking log records", mark, record)
            return True

    marker = MarkRecords()

    def look(_event: Event | None = None) -> None:
        for each in _loggers():
            if marker not in each.filters:
                each.addFilter(marker)

    def undo() -> None:
        stop_looking()
        for each in _loggers():
            each.removeFilter(marker)

    look()
    stop_looking = engine.register(Callback("looking for loggers", look, _nothing, frozenset({COMPILE})))
    return undo


def _loggers() -> Iterator[logging.Logger]:
    """Those that exist; none is made."""
    for name, each in list(logging.Logger.manager.loggerDict.items()):
        if isinstance(each, logging.Logger) and (name in LOGGERS or name.startswith(f"{LOGGERS[0]}.")):
            yield each


def _nothing(_event: Event, _context: None) -> None:
    pass
