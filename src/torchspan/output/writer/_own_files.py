# SPDX-License-Identifier: Apache-2.0
"""torchspan's own files among the exporters of a provider, and writing them on another thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from torchspan.base.thread_starts import start_thread
from torchspan.output.writer._private_sdk import span_processors


class OwnFiles:
    """The processors of a provider of the SDK that export to a `torchspan.sdk.FileSpanExporter`.

    exporters: their exporters. Empty for a provider of another SDK.
    """

    def __init__(self, provider: Any) -> None:
        own = [
            (processor, exporter)
            for processor, exporter in span_processors(provider) or ()
            if getattr(exporter, "is_torchspan_file", False) is True
        ]
        self._processors = [processor for processor, _ in own]
        self.exporters = [exporter for _, exporter in own]

    def flush(self) -> None:
        """Have each processor write what it holds.

        Processors of other exporters are left alone: they may wait for a collector.
        """
        for processor in self._processors:
            with contextlib.suppress(Exception):
                processor.force_flush()


# --- Off the current thread -----------------------------------------------------------------------------------------
NAME = "torchspan-file"
"""The thread's name."""


def aside(function: Callable[[], object]) -> None:
    """Call `function` on a new thread and wait for it.

    A signal handler of the program may run on the main thread between any two steps. If it shuts the SDK down, it waits for
    locks of the SDK and of exporters, so no frame below it may hold one. If Python refuses to start a thread, the function is
    called on the current thread.
    """
    try:
        thread = start_thread(NAME, function)
    except RuntimeError:
        function()
    else:
        thread.join()
