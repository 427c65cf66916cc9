# SPDX-License-Identifier: Apache-2.0
"""Lines of a library's log as occurrences in the event around them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchspan.base import forks, reading
from torchspan.base.patching import Patches
from torchspan.base.reading import attribute
from torchspan.base.scratch import Key
from torchspan.engine import Event, Occurrence
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory
from torchspan.hooks.probes import Method, Target
from torchspan.hooks.probes.describe.build import (
    LAST_ERROR,
    LOUDEST_QUIET,
    Line,
    is_out_of_memory,
    skipped_tactic,
    tensorrt_line,
)
from torchspan.words import semconv

# --- Loggers of the program -----------------------------------------------------------------------------------------
# TensorRT logs failures for which it raises no exception. `tensorrt.Logger` is written in C++ and prints its lines, which cannot be read.
# A subclass has a Python method, which TensorRT looks up for each line.
CLASSES_LIMIT = 20
"""Maximum number of logger classes that are followed: a program may define one for each build."""

_LOG = "program:Logger.log"
"""The name of such a method in log messages about failures. The name of its class is the program's."""

_OWN_ROWS = "torch_tensorrt."
"""Torch-TensorRT's logger has its own probe."""


class LoggerFollower:
    """Records the lines that loggers of the program receive. The lines of a build become events on its span.

    Args:
        redact: Reduces a line to the part that may be recorded.
        patches: Restore the methods.
    """

    def __init__(self, factory: WrapperFactory, redact: Callable[[str], str], patches: Patches) -> None:
        self._factory = factory
        self._redact = redact
        self._patches = patches
        self._followed: list[type] = []

    def follow(self, builder: Any) -> None:
        """Follow the logger of a builder, from now on and until the patches are undone."""
        holder = _holder(type(attribute(builder, "logger")))
        if holder is None:
            return
        with forks.SWITCHING:
            if any(followed is holder for followed in self._followed) or len(self._followed) >= CLASSES_LIMIT:
                return
            self._followed.append(holder)
            target = Method(_LOG)
            self._patches.replace_attribute(
                holder, "log", lambda log: tap_log(self._factory, self._redact, target, log)
            )


def _holder(kind: type) -> type | None:
    """The class that defines `log` in Python; None for TensorRT's own logger and for that of Torch-TensorRT."""
    holder = reading.definer(kind, "log")
    if holder is None or reading.method(kind, "log") is None:
        return None
    return None if f"{reading.module_of(holder)}.".startswith(_OWN_ROWS) else holder


# ------------------------------------------------------------------------------------------------------------------
LINES_LIMIT = 20
"""Maximum number of different lines on one event. Further lines are counted."""

_KEPT: Key[dict[tuple[str, str], dict[str, Any]]] = Key("log")
_SKIPPED: Key[dict[str, int]] = Key("skipped")


def tap_log(factory: WrapperFactory, redact: Callable[[str], str], target: Target, original: Any) -> Any:
    """Wrap a method that a library calls for each line of its log: thousands of times in a build, mostly with lines not kept.

    Lines are kept before the original runs, because the original raises for an internal error. A line outside every event
    is not recorded. A line on one of the library's own threads is outside every event.
    """
    engine, peek = factory.engine, factory.engine.peek
    severities: Any = None
    """TensorRT's class of severities, once a line has had one."""

    name = f"keeping lines of {target}"

    def keep(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal severities
        if len(args) > 1 and reading.is_of_library(type(args[1])) and type(attribute(args[1], "value")) is int:
            severities = type(args[1])
        line, event = tensorrt_line(args, kwargs), engine.current
        if line is not None and event is not None:
            keep_line(event, line, redact(line.text))

    @functools.wraps(original)
    def observed_log(*args: Any, **kwargs: Any) -> Any:
        if peek() is not None:
            # A build logs thousands of lines of information. Their severity is read here, without a call.
            severity: Any = args[1] if len(args) > 1 else None
            if type(severity) is not severities or severity.value < LOUDEST_QUIET:
                engine.guard.call(name, keep, args, kwargs)
        return original(*args, **kwargs)

    return observed_log


def keep_line(event: Event, line: Line, redacted: str) -> None:
    """Add one line to the occurrences of `event`. Only `redacted` is kept of its text.

    Lines with the same severity and message are one occurrence, with a count and the time of the first line. Whether a line
    reports a lack of memory is read from the whole text, so it is known whatever may be recorded.
    """
    out_of_memory, skipped = is_out_of_memory(line.text), skipped_tactic(line.text)
    if line.is_error:
        event.scratch[LAST_ERROR] = redacted
    if out_of_memory:
        event.additions[semconv.OUT_OF_MEMORY] = True
    if skipped is not None:
        skips = event.scratch.setdefault(_SKIPPED, {})
        skips[skipped] = skips.get(skipped, 0) + 1
        event.additions[semconv.TACTICS_SKIPPED] = max(skips.values())
    kept = event.scratch.setdefault(_KEPT, {})
    same = kept.get((line.severity, redacted))
    if same is not None:
        same[semconv.LOG_COUNT] += 1
        same[semconv.LOG_OUT_OF_MEMORY] |= out_of_memory
    elif len(kept) < LINES_LIMIT:
        attributes = kept[line.severity, redacted] = {
            semconv.LOG_SEVERITY: line.severity,
            semconv.LOG_MESSAGE: redacted,
            semconv.LOG_COUNT: 1,
            semconv.LOG_OUT_OF_MEMORY: out_of_memory,
        }
        event.occurrences.append(Occurrence(semconv.LOG_EVENT, event.anchor.now_ns(), attributes))
    else:
        event.additions[semconv.LOG_OMITTED] = event.additions.get(semconv.LOG_OMITTED, 0) + 1
