# SPDX-License-Identifier: Apache-2.0
"""Which random numbers choose the exemplars of torchspan's measurements.

The SDK draws them from Python's global generator (`SimpleFixedSizeExemplarReservoir`, which counters have). That one belongs to the
program: where it has seeded it, each measurement of torchspan's would change what it draws next.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from typing import Any

from torchspan._base.forks import renewed
from torchspan._base.patching import Patches

_MODULE, _NAME = "opentelemetry.sdk.metrics._internal.exemplar.exemplar_reservoir", "randrange"


class _Here(threading.local):
    """Whether this thread records a measurement of torchspan's."""

    is_recording = False


class OwnRandomNumbers:
    """A context manager around measurements of torchspan's: in it the SDK draws from a generator that no other code seeds.

    The SDK's function is replaced when the first one is recorded, until `give_back`. For measurements of the program's it is called
    as before.
    """

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - it chooses examples
        self._here = _Here()
        self._patches: Patches | None = None
        self._lock = renewed(self, "_lock", threading.Lock)

    def __enter__(self) -> None:
        if self._patches is None:
            self._take()
        self._here.is_recording = True

    def __exit__(self, *_exception: object) -> None:
        self._here.is_recording = False

    def give_back(self) -> None:
        """Put the SDK's function back."""
        with self._lock:
            if self._patches is not None:
                self._patches.undo()
                self._patches = None

    def _take(self) -> None:
        with self._lock:
            module = sys.modules.get(_MODULE)
            if self._patches is None and callable(getattr(module, _NAME, None)):
                patches = Patches("opentelemetry")
                patches.replace_attribute(module, _NAME, self._wrapped)
                self._patches = patches

    def _wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def randrange(*args: Any, **kwargs: Any) -> Any:
            return self._random.randrange(*args, **kwargs) if self._here.is_recording else original(*args, **kwargs)

        return randrange


OWN_RANDOM_NUMBERS = OwnRandomNumbers()
"""That of the process."""
