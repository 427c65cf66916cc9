# SPDX-License-Identifier: Apache-2.0
"""The program's own loggers of TensorRT: subclasses of `ILogger` written in Python.

TensorRT logs failures for which it raises no exception. `tensorrt.Logger` is written in C++ and prints its lines, which cannot be read.
A subclass has a Python method, which TensorRT looks up for each line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torchspan._base import reading
from torchspan._base.forks import renewed
from torchspan._base.patching import Patches
from torchspan._base.reading import attribute
from torchspan.adapters.log_lines import tap_log
from torchspan.adapters.machinery.wrap import WrapperFactory
from torchspan.probes import Method

CLASSES_LIMIT = 20
"""Maximum number of logger classes that are followed: a program may define one for each build."""

_LOG = "program:Logger.log"
"""The name of such a method in log messages about failures. The name of its class is the program's."""

_OWN_ROWS = "torch_tensorrt."
"""Torch-TensorRT's logger has its own probe."""


class LoggerFollower:
    """Records the lines that loggers of the program receive. The lines of a build become events on its span.

    redact: reduces a line to the part that may be recorded. patches: restore the methods.
    """

    def __init__(self, factory: WrapperFactory, redact: Callable[[str], str], patches: Patches) -> None:
        self._factory = factory
        self._redact = redact
        self._patches = patches
        self._followed: list[type] = []
        self._lock = renewed(self, "_lock", threading.Lock)

    def follow(self, builder: Any) -> None:
        """Follow the logger of a builder, from now on and until the patches are undone."""
        holder = _holder(type(attribute(builder, "logger")))
        if holder is None or any(followed is holder for followed in self._followed):
            return
        with self._lock:
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
