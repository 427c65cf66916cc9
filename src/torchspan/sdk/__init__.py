# SPDX-License-Identifier: Apache-2.0
"""What plugs into the OpenTelemetry SDK; stands alone, usable without the rest of torchspan."""

from torchspan.sdk._file_exporter import FileSpanExporter

__all__ = ["FileSpanExporter"]
