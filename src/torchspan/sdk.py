# SPDX-License-Identifier: Apache-2.0
"""Plug-ins for the OpenTelemetry SDK, which work without the rest of torchspan being enabled."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchspan.output.sdk._file_exporter import FileSpanExporter
    from torchspan.output.sdk._file_processor import RunFileProcessor
    from torchspan.output.sdk._operator_spans import OperatorSpanProcessor
    from torchspan.output.sdk._resource import TorchspanResourceDetector
    from torchspan.output.sdk._sampler import ParentBasedTorchspanSampler, TorchspanIdGenerator, TorchspanSampler

__all__ = [
    "FileSpanExporter",
    "OperatorSpanProcessor",
    "ParentBasedTorchspanSampler",
    "RunFileProcessor",
    "TorchspanIdGenerator",
    "TorchspanResourceDetector",
    "TorchspanSampler",
]

_HOMES = {
    "FileSpanExporter": "_file_exporter",
    "OperatorSpanProcessor": "_operator_spans",
    "ParentBasedTorchspanSampler": "_sampler",
    "RunFileProcessor": "_file_processor",
    "TorchspanIdGenerator": "_sampler",
    "TorchspanResourceDetector": "_resource",
    "TorchspanSampler": "_sampler",
}


def __getattr__(name: str) -> Any:
    # Every Python that an instrumented program starts loads the sampler, and seldom writes a file.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"torchspan.output.sdk.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
