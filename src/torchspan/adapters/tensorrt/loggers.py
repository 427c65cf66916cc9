# SPDX-License-Identifier: Apache-2.0
"""The program's own loggers of TensorRT: subclasses of `ILogger` written in Python.

What TensorRT raises nothing for, it logs. `tensorrt.Logger` is written in C++ and prints its lines; nothing can read them. A
subclass has a method in Python, which TensorRT looks up at each line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torchspan._base.patching import Patches
from torchspan.adapters._machinery.wrap import WrapperFactory
from torchspan.adapters.log_lines import tap_log
from torchspan.probes import Method

CLASSES_LIMIT = 20
"""Classes of loggers that are followed: a program may define one for each build."""

_OWN_ROWS = "torch_tensorrt."
"""Torch-TensorRT's logger is a row of its own."""


class LoggerFollower:
    """Keeps the lines that loggers of the program get: the lines of a build become events of it.

    redact: reduces a line to what may be recorded. patches: put the methods back.
    """

    def __init__(self, factory: WrapperFactory, redact: Callable[[str], str], patches: Patches) -> None:
        self._factory = factory
        self._redact = redact
        self._patches = patches
        self._followed: list[type] = []
        self._lock = threading.Lock()

    def follow(self, builder: Any) -> None:
        """Follow the logger of a builder, from now on and until the patches are undone."""
        holder = _holder(type(getattr(builder, "logger", None)))
        if holder is None or holder in self._followed:
            return
        with self._lock:
            if holder in self._followed or len(self._followed) >= CLASSES_LIMIT:
                return
            self._followed.append(holder)
            target = Method(f"{holder.__module__}:{holder.__qualname__}.log")
            self._patches.replace_attribute(
                holder, "log", lambda log: tap_log(self._factory, self._redact, target, log)
            )


def _holder(kind: type) -> type | None:
    """The class that defines `log` in Python; None for TensorRT's own logger and for that of Torch-TensorRT."""
    holder = next((each for each in kind.__mro__ if "log" in vars(each)), None)
    if holder is None or type(vars(holder)["log"]) is not FunctionType:
        return None
    return None if f"{holder.__module__}.".startswith(_OWN_ROWS) else holder
