# SPDX-License-Identifier: Apache-2.0
"""The random numbers that choose the exemplars of torchspan's measurements.

The SDK uses Python's global random generator (`SimpleFixedSizeExemplarReservoir`, which counters have). That generator belongs to the
program: if the program has seeded it, each measurement of torchspan would change the numbers that the program gets next.
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
    """Whether this thread records a measurement of torchspan."""

    is_recording = False


class OwnRandomNumbers:
    """A context manager around measurements of torchspan. Inside, the SDK uses a random generator that no other code seeds.

    The SDK's function is replaced when the first measurement is recorded, until `give_back`. For measurements of the program, the
    original function is called.
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
        """Restore the SDK's function."""
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
"""The one instance of the process."""
