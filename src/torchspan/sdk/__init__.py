# SPDX-License-Identifier: Apache-2.0
"""What plugs into the OpenTelemetry SDK; works without the rest of torchspan being switched on."""

from torchspan.sdk._file_exporter import FileSpanExporter
from torchspan.sdk._file_processor import RunFileProcessor
from torchspan.sdk._id_generator import TorchspanIdGenerator

__all__ = ["FileSpanExporter", "RunFileProcessor", "TorchspanIdGenerator"]
