# SPDX-License-Identifier: Apache-2.0
"""torchspan's own files among the exporters of a provider."""

from __future__ import annotations

import contextlib
from typing import Any

from torchspan.writer._private_sdk import span_processors


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
